package attacks

import (
	"slices"
	"testing"
)

// TestFABDistance: on a linear model FAB finds the distance to the nearest
// boundary, and accepts it for an epsilon that equals it, but not for one below.
func TestFABDistance(t *testing.T) {
	o := newLinear(Shape{C: 1, H: 5, W: 5}, 4, 1, unlimited)
	for _, n := range classic {
		for _, kind := range []string{"fab", "fab-t"} {
			for _, im := range imagesNear(o, 10, 0.08, 2) {
				a := component(kind, n, 1e-9, given{"steps": 30}).(fab)
				far := perturb(t, a, o, im, 1)
				want := o.distance(n, im.Pixels, im.Label)
				if far.Distance < want*(1-1e-5) || far.Distance > want*1.02 {
					t.Errorf("%s %v image %d: distance %v, boundary at %v", kind, n, im.ID, far.Distance, want)
				}
				if far.Adversarial != nil || far.FirstSuccess >= 0 {
					t.Errorf("%v: a point at %v counts for epsilon 1e-9", n, far.Distance)
				}
				a.Epsilon, a.Targets = far.Distance, 1
				at := perturb(t, a, o, im, 1)
				a.Epsilon = at.Distance * (1 - 1e-9)
				below := perturb(t, a, o, im, 1)
				if at.Distance <= far.Distance && at.Adversarial == nil || below.Adversarial != nil {
					t.Errorf("%v: epsilon %v accepted %v; just below accepted %v", n, at.Distance,
						at.Adversarial != nil, below.Adversarial != nil)
				}
				if at.Iterations != 30 {
					t.Errorf("stopped after %d iterations", at.Iterations)
				}
			}
		}
	}
}

// TestFABRestarts: the first run starts at the clean image, the second within half of epsilon of it.
func TestFABRestarts(t *testing.T) {
	o := randomMLP(Shape{C: 1, H: 5, W: 5}, 8, 4, 1)
	im := imagesNear(o, 1, 0.3, 2)[0]
	for _, n := range classic {
		a := component("fab-t", n, 1e-4, given{"targets": 1, "steps": 1, "restarts": 2})
		starts := slices.DeleteFunc(passes(t, a, o, im), func(p pass) bool { return !p.gradient })
		if d := n.Distance(starts[0].x, im.Pixels); len(starts) != 2 || d != 0 {
			t.Errorf("%v: %d starts, the first at %v", n, len(starts), d)
		}
		if d := n.Distance(starts[1].x, im.Pixels); d < 0.45e-4 || d > 0.55e-4 {
			t.Errorf("%v: the second start at %v", n, d)
		}
	}
}

// On its own FAB is run for its distances: made over all targets they don't depend on
// epsilon, where the suite's, which stops at the first success, are cut short.
func TestExhaustiveDistancesDoNotDependOnEpsilon(t *testing.T) {
	o := randomMLP(Shape{C: 3, H: 4, W: 4}, 20, 6, 5)
	short := 0
	for _, im := range imagesNear(o, 12, 0.3, 6) {
		distance := func(epsilon float64, alone bool) Result {
			a := component("fab-t", L2, epsilon, given{"steps": 30}).(fab)
			a.alone = alone
			return perturb(t, a, o, im, 1)
		}
		near, far := distance(1e-3, true), distance(100, true)
		if near.Distance != far.Distance {
			t.Errorf("image %d: distance %v at a small epsilon, %v at a large one", im.ID, near.Distance, far.Distance)
		}
		if d := L2.Distance(far.Adversarial, im.Pixels); d != far.Distance {
			t.Errorf("image %d: the image returned is %v away, the distance found %v", im.ID, d, far.Distance)
		}
		if distance(100, false).Distance > far.Distance {
			short++
		}
	}
	if short == 0 {
		t.Error("stopping at the first success changed no distance: this test shows nothing")
	}
}
