package attacktest

import (
	"slices"
	"testing"

	"selfheal/attacks"
)

// checkBlind tries classifiers that give an answer for the clean image alone, or whose last
// logit is NaN elsewhere.
func checkBlind(t *testing.T, made func(epsilon float64) trial, norm attacks.Norm, classes int) {
	t.Helper()
	o := RandomMLP(shape, 20, classes, 9)
	for _, from := range []int{0, classes - 1} {
		for _, im := range Images(o, 3, 0.4, 10) {
			o.BlindFrom, o.Blind = from, func(x []float32) bool { return !slices.Equal(x, im.Pixels) }
			a := made([...]float64{0.3, 3, 15}[norm])
			for _, a.verdictOnly = range []bool{false, true} {
				if res := a.perturb(t, &o.Oracle, im, 1); res.Adversarial == nil {
					t.Errorf("image %d: not broken, with NaN from logit %d on", im.ID, from)
				} else {
					a.checkInside(t, im, res.Adversarial)
				}
			}
			o.Blind = nil
		}
	}
}
