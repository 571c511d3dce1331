package attacks

import (
	"fmt"

	"selfheal/attacks/corruption"
)

// CorruptionKind is the kind of common corruptions in a config; CorruptionRecipe is their recipe's name in results.
const (
	CorruptionKind   = "corruption"
	CorruptionRecipe = CorruptionKind + "/1"
)

// Corruption is a common corruption at a severity, see [corruption.Names]. Unlike an attack it asks no classifier,
// keeps no bound, and changes every image, whether or not it is classified right.
type Corruption struct {
	Name     string
	Severity int // from 1 to 5
}

// String returns the corruption as the name of a cell writes it: "fog:3".
func (c Corruption) String() string { return fmt.Sprintf("%s:%d", c.Name, c.Severity) }

// Check returns an error if images of this shape can't be corrupted.
func (c Corruption) Check(s Shape) error { return corruption.Check(c.Name, c.Severity, s.C, s.H, s.W) }

// AlexNetError returns the error of AlexNet on ImageNet under the corruption, averaged over the severities.
func (c Corruption) AlexNetError() float64 { return corruption.AlexNetError(c.Name) }

// Apply returns the corrupted image, on 8-bit levels in [0,1]. It depends only on the image's pixels and id and on the
// seed.
func (c Corruption) Apply(im Image, seed uint64) ([]float32, error) {
	draw := generator(seed, CorruptionKind+" "+c.Name, c.Severity, 0, im.ID)
	return corruption.Apply(c.Name, c.Severity, im.Pixels, draw)
}
