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
	*dataset.Dataset
	n int
}

// Len is the number of images.
func (s images) Len() int { return s.n }

// image reads the i-th image.
func (s images) image(i int) (im attacks.Image, err error) {
	if im.ID, im.Pixels, im.Label, err = s.Image(i); err != nil {
		err = fmt.Errorf("image %d: %w", s.ID(i), err)
	}
	return im, err
}

// first is the set of its first n images, or of all where there are fewer.
func (s images) first(n int) images { return images{s.Dataset, min(s.n, n)} }

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
	each    []attempt
	images  *journal.Vectors // those that attacks have made; nil for clean images
	within  ball
	steps   []result.Step
	seconds float64
	refuted int // successes that an attack claimed and the judge did not see
	// verdictOnly says that attacks ended at the first success: the images are
	// adversarial, but not what full strength would have made of them.
	verdictOnly bool
	warnings    []result.Warning
}

// untouched are n clean images as if an attack had made them.
func untouched(n int) *crafted {
	c := &crafted{each: make([]attempt, n), steps: []result.Step{}}
	for i := range c.each {
		c.each[i] = attempt{First: -1, Queries: -1}
	}
	return c
}

// image is what was made of the i-th image, im. The error is a [journal.ErrNoVector] where the
// journal has lost it.
func (c *crafted) image(im attacks.Image, i int) ([]float32, error) {
	if at := c.each[i].Image; at != nil {
		return c.images.Get(*at)
	}
	return im.Pixels, nil
}
