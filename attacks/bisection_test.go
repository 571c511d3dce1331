package attacks

import (
	"testing"
)

// TestBisectionTolerance: the distance on a linear model is too large by the
// tolerance at most, and a finer tolerance costs more passes.
func TestBisectionTolerance(t *testing.T) {
	o := newLinear(Shape{C: 1, H: 5, W: 5}, 4, 1, unlimited)
	for _, n := range classic {
		for _, im := range imagesNear(o, 10, 0.08, 2) {
			exact := o.distance(n, im.Pixels, im.Label)
			if exact < 0.005 {
				continue
			}
			before := 0
			for _, tolerance := range []float64{0.3, 0.03, 0.003} {
				res := perturb(t, component("bisection", n, 1.9*exact, given{"tolerance": tolerance}), o, im, 1)
				if off := res.Distance/exact - 1; off < -1e-3 || off > tolerance/(1-tolerance)+1e-3 {
					t.Errorf("%v image %d: off by %.4f, tolerance %v", n, im.ID, off, tolerance)
				}
				if res.Backward <= before {
					t.Errorf("%v image %d: %d passes for tolerance %v, %d for one ten times as coarse", n, im.ID,
						res.Backward, tolerance, before)
				}
				before = res.Backward
			}
		}
	}
}

// TestBisectionBudget: an image that is out of reach costs one run per target and restart; one next to the boundary
// costs at most the passes of Passes.
func TestBisectionBudget(t *testing.T) {
	o := newLinear(Shape{C: 1, H: 5, W: 5}, 4, 1, unlimited)
	for _, im := range imagesNear(o, 10, 0.08, 2) {
		exact := o.distance(L2, im.Pixels, im.Label)
		a := component("bisection", L2, exact/2, given{"steps": 9, "restarts": 2}).(bisection)
		res := perturb(t, a, o, im, 1)
		if res.Adversarial != nil || res.Distance != 0 || res.Backward != 3*2*10 || res.Forward != 1+3*2*10 {
			t.Errorf("image %d at %v, looked up to %v: %+v", im.ID, exact, a.Epsilon, res)
		}
		a.Epsilon = exact * 3000 // a value may come to 0 or 1, so the model is not linear to the attack
		res = perturb(t, a, o, im, 1)
		// Distances below a thousandth of epsilon are not told apart any further.
		if _, b := a.Passes(4); res.Adversarial == nil || res.Distance > exact+0.011*a.Epsilon/1000 ||
			res.Backward > b {
			t.Errorf("image %d at %v of %v: found %v, %d of %d passes", im.ID, exact, a.Epsilon, res.Distance,
				res.Backward, b)
		}
	}
}

// Bisection and FAB look for the same point on a network that is not linear: FAB finds none much nearer, but for the
// odd image.
func TestBisectionAndFAB(t *testing.T) {
	o := randomMLP(Shape{C: 3, H: 6, W: 5}, 20, 5, 9)
	for _, n := range classic {
		eps := []float64{0.3, 3, 20}[n]
		worse := 0
		for _, im := range imagesNear(o, 20, 0.5, 10) {
			fab := perturb(t, component("fab-t", n, 1e-9, nil), o, im, 1)
			res := perturb(t, component("bisection", n, eps, nil), o, im, 1)
			if res.Distance == 0 || res.Distance > 1.02*fab.Distance {
				worse++
			}
		}
		if worse > 2 {
			t.Errorf("%v: on %d of 20 images FAB's point is nearer by more than 2 %%", n, worse)
		}
	}
}
