package attacks

import (
	"slices"
	"testing"
)

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
