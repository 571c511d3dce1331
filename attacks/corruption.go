package attacks

import (
	"fmt"

	"selfheal/attacks/corruption"
)

// CorruptionKind is the kind of common corruptions in a config, and CorruptionRecipe what results call their making.
const (
	CorruptionKind   = "corruption"
	CorruptionRecipe = CorruptionKind + "/1"
)

// Corruption is a common corruption at a severity, see [corruption.Names]. It is no attack: it asks no classifier,
// keeps no bound, and changes every image, whoever is right about it.
type Corruption struct {
	Name     string
	Severity int // from 1 to 5
}

// String is the corruption in the name of a cell: "fog:3".
func (c Corruption) String() string { return fmt.Sprintf("%s:%d", c.Name, c.Severity) }

// Check reports why images of a shape can't be corrupted, or nil.
func (c Corruption) Check(s Shape) error { return corruption.Check(c.Name, c.Severity, s.C, s.H, s.W) }

// AlexNetError is the error of AlexNet on ImageNet under the corruption, a mean over the severities.
func (c Corruption) AlexNetError() float64 { return corruption.AlexNetError(c.Name) }

// Apply returns an image corrupted: levels of 8 bits, in [0,1]. It depends on the image's pixels and id and the seed
// alone.
func (c Corruption) Apply(im Image, seed uint64) ([]float32, error) {
	draw := generator(seed, CorruptionKind+" "+c.Name, c.Severity, 0, im.ID)
	return corruption.Apply(c.Name, c.Severity, im.Pixels, draw)
}
