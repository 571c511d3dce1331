package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// nuisanceRisk returns the probability, added to an exact p-value, that the true fraction of won images lies outside
// the fractions tried. It is at most a thousandth of the level, so that the least level remains within reach.
func nuisanceRisk(level float64) float64 { return min(1e-6, level/1000) }

// Above returns the exact p-value of "the true drop is at most drop": the largest probability, under that hypothesis,
// of a score at least as large as the observed one. Below a significance level the images show a larger drop.
//
// The score is Tango's. Its distribution comes from the counts themselves, not from the normal approximation (Hsueh,
// Liu and Chen, Biometrics 57 (2001) 478–483). The probability q that an image is won is unknown. Above takes the q
// with the largest p-value in its Clopper–Pearson interval at level 1 − 1e-6, and adds this 1e-6 (Berger and Boos,
// JASA 89 (1994) 1012–1016); at levels below 1e-3 it uses a thousandth of the level in place of 1e-6. The score grows
// with lost images and falls with won ones, so the worst case has exactly the given drop. The asymptotic test errs at
// the small levels that several cells require: if no image is won, it rejects nearly twice too often.
//
// drop is in [0, 1). level, the smallest number that the p-value is compared with, is in (0, 1).
func (p Paired) Above(drop, level float64) float64 {
	return p.worst(drop, nuisanceRisk(level), scores(p.N, drop, p.score(drop), true))
}

// Below returns the exact p-value of "the true drop is at least drop". It is [Paired.Above] for the opposite
// direction.
func (p Paired) Below(drop, level float64) float64 {
	return p.worst(drop, nuisanceRisk(level), scores(p.N, drop, p.score(drop), false))
}

// worst returns the region's largest probability over the fractions of won images in the interval, plus the risk that
// the fraction lies outside.
func (p Paired) worst(drop, risk float64, r region) float64 {
	if p.N == 0 {
		return 1
	}
	ends := ClopperPearson(p.Won, p.N, 1-risk)
	// Steps of a fifth of the fraction's standard deviation, which is 1/(2√n) for the angle.
	from, to := math.Asin(math.Sqrt(ends[0])), math.Asin(math.Sqrt(min(ends[1], (1-drop)/2)))
	steps := max(1, int(math.Ceil((to-from)*10*math.Sqrt(float64(p.N)))))
	worst := 0.0
	for i := range steps + 1 {
		root := math.Sin(from + (to-from)*float64(i)/float64(steps))
		worst = max(worst, r.probability(root*root, root*root+drop))
	}
	return min(1, worst+risk)
}

// region is a set of outcomes: for each number of won images, all numbers of lost ones from a border up, or below it.
type region struct {
	n      int
	above  bool          // from the border up; else below it
	border func(int) int // by the number of won images; 0 to n − won + 1
}

// scoreTolerance is the difference up to which scores count as equal, because of rounding.
const scoreTolerance = 1e-9

// scores returns the outcomes whose score at a drop is at least score if above is set, else at most score.
func scores(n int, drop, score float64, above bool) region {
	return region{n, above, Memo(func(won int) int {
		return first(n-won, func(lost int) bool {
			s := Paired{n, lost, won}.score(drop)
			return s > score+scoreTolerance || above && s >= score-scoreTolerance
		})
	})}
}

// firstFrom is [first], by a walk from a number near it.
func firstFrom(near, most int, holds func(int) bool) int {
	for near > 0 && holds(near-1) {
		near--
	}
	for near <= most && !holds(near) {
		near++
	}
	return near
}

// first returns the smallest number from 0 to most for which a monotone condition holds, or most + 1 if there is
// none.
func first(most int, holds func(int) bool) int { return sort.Search(most+1, holds) }

// Memo returns a function that calls f once for each argument. It is not safe for concurrent use.
func Memo[K comparable, V any](f func(K) V) func(K) V {
	known := map[K]V{}
	return func(k K) V {
		v, ok := known[k]
		if !ok {
			v = f(k)
			known[k] = v
		}
		return v
	}
}

// probability returns the region's probability if an image is won or lost with these. It leaves out terms below
// 1e-14.
func (r region) probability(won, lost float64) float64 {
	if won <= 0 {
		return r.given(0, lost)
	}
	n := float64(r.n)
	mean, spread := n*won, 8*math.Sqrt(n*won*(1-won))+20 // 20: a Poisson tail near 0
	k := max(0, int(mean-spread))
	last := min(r.n, int(mean+spread))
	sum, p := 0.0, (distuv.Binomial{N: n, P: won}).Prob(float64(k)) // of k won images
	for ; k <= last; k++ {
		if p > 1e-14 {
			sum += p * r.given(k, min(1, lost/(1-won)))
		}
		p *= float64(r.n-k) / float64(k+1) * won / (1 - won)
	}
	return sum
}

// given returns the region's probability if won images are won and each other one is lost with probability lost.
func (r region) given(won int, lost float64) float64 {
	if r.above {
		return atLeast(r.border(won), r.n-won, lost)
	}
	return atMost(r.border(won)-1, r.n-won, lost)
}
