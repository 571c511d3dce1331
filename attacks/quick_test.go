package attacks

import (
	"slices"
	"testing"
)

// TestQuickPasses: an image that is never broken costs at most a twentieth of
// standard's passes, by what the attacks announce and by what is then made.
func TestQuickPasses(t *testing.T) {
	for _, n := range classic {
		passes := func(r Recipe) (sum int) {
			for _, c := range r.Components {
				f, b := c.Passes(10)
				sum += f + b
			}
			return sum
		}
		standard := recipe(t, autoattack("standard", n), 0.1, 10)
		r := recipe(t, autoattack("quick", n), 1e-6, 10)
		if q, s := passes(r), passes(standard); 20*q > s {
			t.Errorf("%v: quick makes %d passes, standard %d", n, q, s)
		}
		o := newLinear(Shape{C: 3, H: 6, W: 6}, 10, 1, unlimited)
		im := imagesNear(o, 1, 0.5, 2)[0]
		for _, c := range r.Components {
			perturb(t, c, o, im, 3)
		}
		if f, b := o.passes(); f+b < passes(r) {
			t.Errorf("%v: made %d passes of the %d announced", n, f+b, passes(r))
		}
	}
}

// TestQuickFromClean: the first run in ℓ1 starts at the clean image, so no seed matters
// to it, the first pass breaks nothing, and what is found lies in the ball.
func TestQuickFromClean(t *testing.T) {
	o := randomMLP(Shape{C: 3, H: 6, W: 6}, 20, 10, 9)
	first := recipe(t, autoattack("quick", L1), 4, 10).Components[0]
	found := 0
	for _, im := range imagesNear(o, 8, 0.5, 10) {
		a := perturb(t, first, o, im, 1)
		b := perturb(t, first, o, im, 2)
		if !slices.Equal(a.Adversarial, b.Adversarial) || a.FirstForward != b.FirstForward {
			t.Errorf("image %d: another seed changes the result", im.ID)
		}
		if a.Adversarial == nil {
			continue
		}
		if found++; a.FirstForward == 1 || L1.Distance(a.Adversarial, im.Pixels) > 4*(1+1e-5) {
			t.Errorf("image %d: broken by pass %d, at %v", im.ID, a.FirstForward,
				L1.Distance(a.Adversarial, im.Pixels))
		}
	}
	if found == 0 {
		t.Error("nothing was broken")
	}
}
