package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Paired counts the changes of n images that were judged twice.
type Paired struct {
	N    int
	Lost int // right before, wrong now
	Won  int // wrong before, right now
}

// NewPaired counts two lists of verdicts on the same images, '1' for right and '0' for wrong. They must have the same
// length.
func NewPaired(before, now string) (p Paired) {
	if len(before) != len(now) {
		panic(fmt.Sprintf("stats: %d verdicts before and %d now", len(before), len(now)))
	}
	for i := range len(now) {
		p.Add(int(now[i]) - int(before[i]))
	}
	return p
}

// Add counts one more image; more is by how many right answers it gained.
func (p *Paired) Add(more int) {
	p.N++
	if more < 0 {
		p.Lost++
	} else if more > 0 {
		p.Won++
	}
}

// Drop returns the observed drop in accuracy, (lost − won)/n, in [−1, 1], or 0 for no images.
func (p Paired) Drop() float64 {
	if p.N == 0 {
		return 0
	}
	return float64(p.Lost-p.Won) / float64(p.N)
}

// score returns the statistic of the score test of "the true drop is drop" for a difference of paired proportions
// (Tango, Statistics in Medicine 17 (1998) 891–908, equation 12): the observed drop minus the assumed one, over its
// standard error at the assumed drop. Under the hypothesis it is nearly standard normal; for drop 0 it is McNemar's
// (lost − won)/√(lost + won). drop is in [−1, 1]. It is 0 if there are no images, or none discordant at drop 0.
func (p Paired) score(drop float64) float64 {
	n, lost, won := float64(p.N), float64(p.Lost), float64(p.Won)
	above := lost - won - n*drop
	q := p.wonAt(drop)
	variance := n * (2*q + drop*(1-drop))
	switch {
	case above == 0:
		return 0
	case !(variance > 0):
		return math.Inf(int(math.Copysign(1, above)))
	}
	return above / math.Sqrt(variance)
}

// wonAt returns the most likely probability that an image is won at a drop: the larger root of 2n·q² + B·q + C.
func (p Paired) wonAt(drop float64) float64 {
	n, lost, won := float64(p.N), float64(p.Lost), float64(p.Won)
	if n == 0 {
		return 0
	}
	a, b, c := 2*n, (2*n-lost+won)*drop-lost-won, -won*drop*(1-drop)
	root := math.Sqrt(max(0, b*b-4*a*c))
	q := (root - b) / (2 * a)
	if b > 0 { // the same root, without the difference of two nearly equal numbers
		q = -2 * c / (root + b)
	}
	return max(0, q, -drop) // neither a won nor a lost image has a probability below 0
}

// Interval returns the score interval of the drop (Tango 1998): the drops that the score test does not reject at the
// given two-sided level. It lies within [−1, 1] and contains [Paired.Drop]; for no images it is [−1, 1]. Its ends are
// exact to 1e-12 in the drop, but the test is asymptotic: use [Paired.Above] and [Paired.Below] for decisions.
func (p Paired) Interval(level float64) [2]float64 {
	z := twoSided(level)
	if p.N == 0 {
		return [2]float64{-1, 1}
	}
	return [2]float64{p.whereScore(z), p.whereScore(-z)}
}

// Agreeing returns a score interval of the drop that agrees with McNemar's exact test: it contains 0 exactly if the
// test's p, as corrected for a family, is above alpha. The level is 1 − alpha·p/corrected, as in the test's step. An
// end is moved to 0 or just off it if the asymptotic interval and the exact test differ.
func (p Paired) Agreeing(corrected, alpha float64) [2]float64 {
	risk := alpha
	if one := p.McNemar(); one > 0 && corrected > 0 {
		risk *= one / corrected
	}
	z, rejected := twoSided(1-risk), corrected <= alpha
	if p.N == 0 {
		return [2]float64{-1, 1}
	}
	if rejected {
		z = min(z, 0.99*math.Abs(p.score(0)))
	}
	ends := [2]float64{p.whereScore(z), p.whereScore(-z)}
	if !rejected {
		ends = [2]float64{min(ends[0], 0), max(ends[1], 0)}
	}
	return ends
}

// whereScore returns the drop at which the score, which falls with it, equals z.
func (p Paired) whereScore(z float64) float64 {
	lo, hi := bisect(-1, 1, 1e-12, func(drop float64) bool { return p.score(drop) > z })
	return (lo + hi) / 2
}

// bisect returns an interval of at most a width. A monotone condition holds at its lower end but not at its upper
// one.
func bisect(lo, hi, width float64, holds func(float64) bool) (float64, float64) {
	for hi-lo > width {
		if middle := (lo + hi) / 2; holds(middle) {
			lo = middle
		} else {
			hi = middle
		}
	}
	return lo, hi
}

// McNemar returns the two-sided p-value of "as many are lost as won", by the exact test (Psychometrika 12 (1947)
// 153–157): twice the smaller tail, at most 1. It panics for negative counts.
func (p Paired) McNemar() float64 {
	return min(1, 2*p.McNemarDrop(), 2*atLeast(p.Won, p.Lost+p.Won, 0.5))
}

// McNemarDrop returns the one-sided p-value of "no more are lost than won". Without a change each lost or won image
// is lost with probability 1/2. It is 1 if there are no such images, and panics for negative counts.
func (p Paired) McNemarDrop() float64 {
	counted("McNemar", min(p.Lost, p.Won), p.Lost+p.Won)
	return atLeast(p.Lost, p.Lost+p.Won, 0.5)
}

// Family holds tests whose p-values are corrected together.
type Family []test

type test struct {
	p    float64
	tell func(corrected float64)
}

// Add adds a test by its p-value. tell is called with the corrected one.
func (f *Family) Add(p float64, tell func(corrected float64)) {
	*f = append(*f, test{p, tell})
}

// Holm calls tell with the step-down corrected p-values of Holm (Scandinavian Journal of Statistics 6 (1979) 65–70).
// If every test with a corrected value of at most α is rejected, the probability of any wrong rejection in the family
// is at most α, however the tests depend on each other.
func (f Family) Holm() {
	f = slices.SortedStableFunc(slices.Values(f), func(a, b test) int { return cmp.Compare(a.p, b.p) })
	most := 0.0
	for rank, t := range f {
		most = max(most, min(1, float64(len(f)-rank)*t.p)) // never below an earlier step's
		t.tell(most)
	}
}
