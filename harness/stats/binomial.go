package stats

import (
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// ClopperPearson returns the exact interval of a fraction when k of n images are right (Biometrika 26 (1934)
// 404–413). At its ends, the probability of k or more, and of k or fewer, is (1 − level)/2. Its coverage is at least
// level. With n = 0 it is [0, 1]. It panics unless 0 ≤ k ≤ n and level is in (0,1).
func ClopperPearson(k, n int, level float64) [2]float64 {
	counted("ClopperPearson", k, n)
	twoSided(level) // panics for a level outside (0,1)
	ends, tail := [2]float64{0, 1}, (1-level)/2
	if k > 0 {
		ends[0] = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		ends[1] = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return ends
}

// BinomialTest returns the exact p-value of "the true fraction is at least fraction" when k of n images are right. It
// is below α exactly when the upper end of [ClopperPearson] at level 1 − 2α is below fraction.
func BinomialTest(k, n int, fraction float64) float64 {
	counted("BinomialTest", k, n)
	return atMost(k, n, fraction)
}

// atLeast returns P(X ≥ k) for X ~ Bin(n, p). The incomplete beta function keeps the digits of small probabilities.
func atLeast(k, n int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}

// atMost returns P(X ≤ k) for X ~ Bin(n, p).
func atMost(k, n int, p float64) float64 { return atLeast(n-k, n, 1-p) }
