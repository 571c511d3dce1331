package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Sequence returns an interval of a fraction when k of the first n samples in a row are right. With a probability of
// at least level, the intervals for all n contain the true fraction, so one may look after each sample and stop at
// any time. Its ends are the p for which the mean likelihood, over a uniform fraction, is 1/(1 − level) times p's: a
// martingale under p, to which Ville's inequality applies (Robbins, Ann. Math. Statist. 41 (1970) 1397–1409; Howard
// et al., Ann. Statist. 49 (2021) 1055–1080). With n = 0 it is [0, 1]. It panics unless 0 ≤ k ≤ n and level is in
// (0,1).
func Sequence(k, n int, level float64) [2]float64 {
	counted("Sequence", k, n)
	twoSided(level) // panics for a level outside (0,1)
	if n == 0 {
		return [2]float64{0, 1}
	}
	right, wrong := float64(k), float64(n-k)
	limit := -math.Log(1 - level)
	mean := mathext.Lbeta(right+1, wrong+1)
	outside := func(p float64) bool { // outside reports whether p is excluded
		likelihood := 0.0
		if k > 0 {
			likelihood += right * math.Log(p)
		}
		if k < n {
			likelihood += wrong * math.Log1p(-p)
		}
		return mean-likelihood >= limit
	}
	// end bisects between the best fraction and 0 or 1. Its result is outside.
	end := func(far float64) float64 {
		near := right / (right + wrong)
		for range 200 {
			mid := (near + far) / 2
			if mid == near || mid == far {
				break
			}
			if outside(mid) {
				far = mid
			} else {
				near = mid
			}
		}
		return far
	}
	return [2]float64{end(0), end(1)}
}
