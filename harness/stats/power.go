package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Detectable returns the smallest true drop, in [drop, 1], that n images show to be larger than drop with probability
// power, or 1 if there is none. The larger of [Paired.Above]'s and [Paired.McNemarDrop]'s p-values must be at most
// alpha. An image is won with probability won/n. The test's border is computed at won won images; the power is the
// sum over all outcomes whose score reaches it. drop is in [0, 1), alpha and power in (0, 1).
func Detectable(n, won int, drop, alpha, power float64) float64 {
	rejects := func(lost int) bool {
		p := Paired{n, lost, won}
		return p.McNemarDrop() <= alpha && p.Above(drop, alpha) <= alpha
	}
	if n == 0 || !rejects(n-won) {
		return 1 // without a walk through all counts
	}
	// The asymptotic test's border is near the exact one.
	z := distuv.UnitNormal.Quantile(1 - alpha)
	near := first(n-won, func(lost int) bool { return Paired{n, lost, won}.score(drop) >= z })
	fails := firstFrom(near, n-won, rejects)
	r := scores(n, drop, Paired{n, fails, won}.score(drop), true)
	q := float64(won) / float64(n)
	most := max(drop, 1-2*q)
	if r.probability(q, q+most) < power {
		return 1
	}
	_, hi := bisect(drop, most, 1e-7, func(d float64) bool { return r.probability(q, q+d) < power })
	return hi
}

const (
	mostImages  = 10_000_000 // bounds the search for a number of images
	exactImages = 20_000     // bounds the numbers of images whose own border is computed, which takes time
)

// ImagesToPass returns about how many images it takes to exclude a drop of at least drop ([Paired.Below] at most
// alpha) with probability power, if there is no drop and an image's verdict flips with probability flips, either way
// alike. 0 stands for more than ten million. The border is the test's own at the usual number of won images; if these
// are many, or the images more than 20,000, it is the normal approximation's. The power rises in teeth; the answer is
// on one.
func ImagesToPass(drop, flips, alpha, power float64) int {
	if !(drop > 0) {
		return 0
	}
	won, about := flips/2, manyToPass(drop, flips, alpha, power)
	if flips == 0 {
		n := found(max(math.Log(alpha-nuisanceRisk(alpha))/math.Log1p(-drop), about))
		for n > 0 && n <= exactImages && (Paired{n, 0, 0}).Below(drop, alpha) > alpha {
			n += max(1, n/100)
		}
		return n
	}
	if about*won > 300 || about > exactImages {
		return found(about)
	}
	z := distuv.UnitNormal.Quantile(1 - alpha)
	n, ok := images(exactImages, func(n int) bool {
		typical := int(math.Round(float64(n) * won))
		open := func(lost int) bool { return Paired{n, lost, typical}.Below(drop, alpha) > alpha }
		near := first(n-typical, func(lost int) bool { return Paired{n, lost, typical}.score(drop) > -z })
		passes := firstFrom(near, n-typical, open) - 1
		if passes < 0 {
			return false
		}
		return scores(n, drop, Paired{n, passes, typical}.score(drop), false).probability(won, won) >= power
	})
	if !ok {
		return found(about)
	}
	return n
}

// manyToPass is [ImagesToPass] by the normal approximation (Nam, Biometrics 53 (1997) 1422–1430). The score's
// variance uses the most likely probabilities at the tested drop, the true variance those of flips without a drop.
func manyToPass(drop, flips, alpha, power float64) float64 {
	const many = 1 << 30
	half := int(many * flips / 2)
	q := Paired{many, half, half}.wonAt(drop)
	normal := distuv.UnitNormal.Quantile
	at := normal(1-alpha)*math.Sqrt(2*q+drop*(1-drop)) + normal(power)*math.Sqrt(flips)
	return at * at / (drop * drop)
}

// found returns a number of images as ImagesToPass does: rounded up, 0 if too many.
func found(n float64) int {
	if !(n <= mostImages) { // NaN for a drop whose square is 0
		return 0
	}
	return int(math.Ceil(n))
}

// ImagesToMiss returns about how many images it takes to show with probability power that an accuracy is below least
// ([BinomialTest] at most alpha), if it truly is accuracy. 0 stands for more than ten million.
func ImagesToMiss(accuracy, least, alpha, power float64) int {
	if accuracy >= least {
		return 0
	}
	n, _ := images(mostImages, func(n int) bool {
		border := first(n, func(k int) bool { return atMost(k, n, least) > alpha })
		return atMost(border-1, n, accuracy) >= power
	})
	return n
}

// images returns the smallest number of images that is enough, to 1 %, if it is at most most.
func images(most int, enough func(n int) bool) (n int, ok bool) {
	hi := 1
	for !enough(hi) {
		if hi *= 2; hi > most {
			return 0, false
		}
	}
	lo := hi / 2
	for hi-lo > max(1, int(math.Floor(float64(hi)/100))) {
		if middle := (lo + hi) / 2; enough(middle) {
			hi = middle
		} else {
			lo = middle
		}
	}
	return hi, true
}
