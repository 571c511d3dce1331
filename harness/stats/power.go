package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Detectable returns the smallest true drop that n images show to be larger than drop with
// probability power, when the p-value (the larger of [Paired.Above] and [McNemar]'s) must be
// at most alpha and as many images are won as won says. It is in [drop, 1]; 1 where even the
// loss of every other image is not enough. The border is that of the test itself at won
// images, the power is summed over all outcomes whose score reaches the border's, with each
// image won with probability won/n. drop is in [0, 1), alpha and power in (0, 1).
func Detectable(n, won int, drop, alpha, power float64) float64 {
	rejects := func(lost int) bool {
		p := Paired{n, lost, won}
		mcnemar, _ := McNemar(lost, won)
		return mcnemar <= alpha && p.Above(drop) <= alpha
	}
	// The asymptotic test's border is near.
	z := distuv.UnitNormal.Quantile(1 - alpha)
	fails := first(n-won, func(lost int) bool { return Paired{n, lost, won}.Score(drop) >= z })
	for fails > 0 && rejects(fails-1) {
		fails--
	}
	for fails <= n-won && !rejects(fails) {
		fails++
	}
	if n == 0 || fails > n-won {
		return 1
	}
	r := atLeastScore(n, drop, Paired{n, fails, won}.Score(drop))
	q := float64(won) / float64(n)
	lo, hi := drop, max(drop, 1-2*q)
	if r.probability(q, q+hi) < power {
		return 1
	}
	for hi-lo > 1e-7 {
		if middle := (lo + hi) / 2; r.probability(q, q+middle) < power {
			lo = middle
		} else {
			hi = middle
		}
	}
	return hi
}

// mostImages bounds the numbers of images that are looked for.
const mostImages = 10_000_000

// ImagesToPass returns about how many images it takes to exclude a drop of drop or more
// ([Paired.Below] at most alpha) with probability power when there is none, and an image's
// verdict flips with probability flips, either way alike. 0 stands for more than ten
// millions. The border is that of the test itself at the usual number of won images, or of
// its normal approximation where those are many; power goes up in teeth, of which the answer
// is on one.
func ImagesToPass(drop, flips, alpha, power float64) int {
	if !(drop > 0) {
		return 0
	}
	won := flips / 2
	if n := manyToPass(drop, flips, alpha, power); n*won > 300 {
		return found(n)
	}
	z := distuv.UnitNormal.Quantile(1 - alpha)
	return images(func(n int) bool {
		typical := int(math.Round(float64(n) * won))
		open := func(lost int) bool { return Paired{n, lost, typical}.Below(drop) > alpha }
		border := first(n-typical, func(lost int) bool { return Paired{n, lost, typical}.Score(drop) > -z }) // near
		for border > 0 && open(border-1) {
			border--
		}
		for border <= n-typical && !open(border) {
			border++
		}
		passes := border - 1
		return passes >= 0 && atMostScore(n, drop, Paired{n, passes, typical}.Score(drop)).probability(won, won) >= power
	})
}

// manyToPass is [ImagesToPass] by the normal approximation (Nam, Biometrics 53 (1997)
// 1422–1430): the score's variance is that of the most likely probabilities with the drop
// under test, and the true one of flips without it.
func manyToPass(drop, flips, alpha, power float64) float64 {
	const many = 1 << 30
	half := int(many * flips / 2)
	q := Paired{many, half, half}.wonAt(drop)
	at := distuv.UnitNormal.Quantile(1-alpha)*math.Sqrt(2*q+drop*(1-drop)) + distuv.UnitNormal.Quantile(power)*math.Sqrt(flips)
	return at * at / (drop * drop)
}

// found is a number of images as the callers say it.
func found(n float64) int {
	if n > mostImages {
		return 0
	}
	return int(math.Ceil(n))
}

// ImagesToMiss returns about how many images it takes to show with probability power that
// an accuracy is below least ([BinomialTest] at most alpha) when it is truly accuracy.
// 0 stands for more than ten millions.
func ImagesToMiss(accuracy, least, alpha, power float64) int {
	if accuracy >= least {
		return 0
	}
	return images(func(n int) bool {
		border := first(n, func(k int) bool { return atMost(k, n, least) > alpha })
		return atMost(border-1, n, accuracy) >= power
	})
}

// images is the smallest number of images that are enough, to 1 %; 0 above [mostImages].
func images(enough func(n int) bool) int {
	hi := 1
	for !enough(hi) {
		if hi *= 2; hi > mostImages {
			return 0
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
	return hi
}
