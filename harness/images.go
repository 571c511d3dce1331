package harness

import (
	"fmt"

	"selfheal/attacks"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/journal"
)

// images is the first n images of a data set. Each is read when it is asked for: all of them
// may be more than the memory holds.
type images struct {
	*dataset.Dataset // nil in a merge
	n                int
	owner            []int       // the shard of each image; nil where the run has no shards
	shard            int         // this run's; 0 in one that has all images
	known            []imageName // in a merge
}

// imageName is an image's id in the file and its label.
type imageName struct{ ID, Label int }

// Len is the number of images.
func (s images) Len() int { return s.n }

// ID is the i-th image's id in its file.
func (s images) ID(i int) int {
	if s.known != nil {
		return s.known[i].ID
	}
	return s.Dataset.ID(i)
}

// Label is the i-th image's.
func (s images) Label(i int) int {
	if s.known != nil {
		return s.known[i].Label
	}
	return s.Dataset.Label(i)
}

// own reports whether the i-th image is this run's to work on.
func (s images) own(i int) bool { return s.shard == 0 || s.owner[i] == s.shard }

// tail reports whether this run does what is done once for the whole set, or has it done.
func (s images) tail() bool { return s.shard == 0 || s.n > 0 && s.owner[0] == s.shard }

// mine is how many are.
func (s images) mine() int {
	if s.shard == 0 {
		return s.n
	}
	return s.ownedBy(s.shard)
}

// ownedBy is how many images a shard has.
func (s images) ownedBy(shard int) int {
	return howMany(s.owner, func(owner int) bool { return owner == shard })
}

// image reads the i-th image.
func (s images) image(i int) (im attacks.Image, err error) {
	if im.ID, im.Pixels, im.Label, err = s.Image(i); err != nil {
		err = fmt.Errorf("image %d: %w", s.ID(i), err)
	}
	return im, err
}

// first is the set of its first n images, or of all where there are fewer.
//
// They are nobody's in particular.
func (s images) first(n int) images {
	return images{Dataset: s.Dataset, known: s.known, owner: s.owner, n: min(s.n, n)}
}

// attempt is what was made of one image. While it is attacked it belongs to one goroutine.
type attempt struct {
	Image   *journal.Vector `json:"image,omitempty"` // nil where the attack never succeeded: the clean image
	First   int             `json:"first"`           // iteration of the first success over all components, −1 if never
	Queries int             `json:"queries"`         // forward passes made until then, −1 if never
	// Nearest is the smallest norm of a misclassified point that an attack which minimises it
	// found, 0 if none did.
	Nearest float64 `json:"nearest,omitempty"`
	Robust  bool    `json:"robust"` // still right after all components so far

	Spent int     `json:"spent"` // iterations of the components so far
	Asked int     `json:"asked"` // their forward passes
	Seen  watched `json:"seen"`
}

// crafted is what a recipe made of a set of images against one classifier.
type crafted struct {
	each    []attempt        // nil for clean images
	images  *journal.Vectors // those that attacks have made; nil for clean images
	within  ball
	steps   []result.Step
	seconds float64
	refuted int // successes that an attack claimed and the judge did not see
	// verdictOnly says that attacks ended at the first success: the images are
	// adversarial, but not what full strength would have made of them.
	verdictOnly bool
	warnings    []result.Warning
	agreement   *result.Agreement                         // nil where the attacks' arithmetic is the judge's
	corrupt     func(im attacks.Image) ([]float32, error) // makes the images instead; nil for attacks
	proof       proof                                     // of the clean images; nil for attacks
}

// untried reports whether the i-th image is the clean one.
func (c *crafted) untried(i int) bool { return c.corrupt == nil && c.at(i).First < 0 }

// untouched are clean images as if an attack had made them.
func untouched() *crafted { return &crafted{steps: []result.Step{}} }

// intact is an attempt at an image that no attack has changed yet.
var intact = attempt{First: -1, Queries: -1}

// at is what was made of the i-th image.
func (c *crafted) at(i int) attempt {
	if c.each == nil {
		return intact
	}
	return c.each[i]
}

// image is what was made of the i-th image, im. The error is a [journal.ErrNoVector] where the
// journal has lost it.
func (c *crafted) image(im attacks.Image, i int) ([]float32, error) {
	if c.corrupt != nil {
		return c.corrupt(im)
	}
	if at := c.at(i).Image; at != nil {
		return c.images.Get(*at)
	}
	return im.Pixels, nil
}
