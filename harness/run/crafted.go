package run

import (
	"context"

	"selfheal/attacks"
	"selfheal/harness/certify"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/number"
	"selfheal/internal/vector"
)

// attempt is an image as attacks have left it. While it is attacked it belongs to one goroutine.
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

// crafted is what a trial made of a set of images against one classifier.
type crafted struct {
	each    []attempt        // nil for clean images
	images  *journal.Vectors // those that attacks have made; nil for clean images, and in a merge
	within  plan.Ball
	steps   []result.Step
	seconds float64
	refuted int // successes that an attack claimed and the judge did not see
	// verdictOnly says that attacks ended at the first success: the images are
	// adversarial, but not what full strength would have made of them.
	verdictOnly bool
	warnings    []result.Warning
	agreement   *result.Agreement                         // nil where the attacks' arithmetic is the judge's
	corrupt     func(im attacks.Image) ([]float32, error) // makes the images instead; nil for attacks
	proof       certify.Proof                             // of the clean images; nil for attacks
}

// Untried reports whether the i-th image is the clean one.
func (c *crafted) Untried(i int) bool { return c.corrupt == nil && c.at(i).First < 0 }

// untouched are clean images as if an attack had made them.
func untouched() *crafted { return &crafted{steps: []result.Step{}} }

// intact is an attempt at an image that no attack has changed yet.
var intact = attempt{First: -1, Queries: -1}

// at is the attempt at the i-th image.
func (c *crafted) at(i int) attempt {
	if c.each == nil {
		return intact
	}
	return c.each[i]
}

// Image is the i-th image; im is the clean one. The error is a [journal.ErrNoVector] where the journal has lost it.
func (c *crafted) Image(im attacks.Image, i int) ([]float32, error) {
	if c.corrupt != nil {
		return c.corrupt(im)
	}
	if at := c.at(i).Image; at != nil {
		return c.images.Get(*at)
	}
	return im.Pixels, nil
}

// read is the i-th image of a set and what was made of it.
func (c *crafted) read(set open.Images, i int) (im attacks.Image, x []float32, err error) {
	if im, err = set.Read(i); err == nil {
		x, err = c.Image(im, i)
	}
	return im, x, err
}

// watched is how an attack's gradients on one image looked.
type watched struct {
	Asked     bool `json:"asked,omitempty"`      // by a component that takes gradients
	Zero      bool `json:"zero,omitempty"`       // a run began where the gradient was exactly 0
	NotFinite bool `json:"not_finite,omitempty"` // a gradient or loss was infinite or NaN
}

// vanished is the ℓ2 norm below which a gradient counts as 0: normalised by its norm plus 1e-12, as attacks do, it
// would give steps that are noticeably too short.
const vanished = 1e-11

// watch passes a component's questions about one image on, counts them and looks at the gradients that come back.
type watch struct {
	*open.Counted
	made *componentResult
}

func (w *watch) Logits(ctx context.Context, x, out []float32) error {
	w.made.Logits++
	return w.Counted.Logits(ctx, x, out)
}

func (w *watch) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	err := w.Counted.Gradient(ctx, x, loss, label, target, e)
	if err != nil {
		return err
	}
	seen := &w.made.Seen
	seen.Asked = true
	if !vector.Finite(e.Gradient) || !number.Finite(float64(e.Loss)) {
		seen.NotFinite = true
	}
	// A vanishing gradient matters where the attack has yet to begin: later the label
	// may rank third, where DLR is constant, and the image be broken anyway.
	if w.made.Gradients == 0 && attacks.L2.Length(e.Gradient) < vanished {
		seen.Zero = true
	}
	w.made.Gradients++
	return nil
}
