package vnnlib

import (
	"math"
	"slices"

	"selfheal/models/bounds"
)

// linear is a lower bound of by how much a constraint is missed: Σ a·x + at0 over the inputs x of a part. The
// constraint may hold where it is at most 0.
type linear struct {
	a   []float32
	at0 float64
}

// linearBounds are those of a case's constraints over a region.
func linearBounds(c conjunction, region bounds.Region, proven []bounds.Bound, coefficients []float32) []linear {
	all, n := make([]linear, len(proven)), len(region.Lower)
	for i, b := range proven {
		l := linear{coefficients[i*n : (i+1)*n], b.Least() - c.constraints[i].bound}
		for j, a := range l.a {
			l.at0 -= float64(a) * end(float64(region.Lower[j]), float64(region.Upper[j]), float64(a))
		}
		l.at0 -= far * l.size(region)
		all[i] = l
	}
	return all
}

// far is what float64 sums of a few terms are off by, at most, for each unit of their size.
const far = 1e-12

// size is that of the bound's terms.
func (l linear) size(region bounds.Region) float64 {
	sum := math.Abs(l.at0)
	for j, a := range l.a {
		sum += math.Abs(float64(a)) * max(math.Abs(float64(region.Lower[j])), math.Abs(float64(region.Upper[j])))
	}
	return sum
}

// end is where a·x is least.
func end(lower, upper, a float64) float64 {
	if a < 0 {
		return upper
	}
	return lower
}

// hull is the smallest box around what the cases of a part leave of it.
type hull struct{ lower, upper []float64 }

func newHull(p part) *hull {
	none := func(sign int) []float64 { return slices.Repeat([]float64{math.Inf(sign)}, len(p.lower)) }
	return &hull{none(1), none(-1)}
}

func (h *hull) whole(p part) {
	for i := range h.lower {
		h.lower[i], h.upper[i] = min(h.lower[i], p.lower[i]), max(h.upper[i], p.upper[i])
	}
}

// add adds what of a part fulfils all linear bounds of a case, or a little more. It reports false where nothing does:
// a bound, or a weighted sum of bounds, is above 0 throughout.
func (h *hull) add(all []linear, p part) bool {
	p.lower, p.upper = slices.Clone(p.lower), slices.Clone(p.upper)
	for range 2 {
		for _, l := range all {
			sum := l.at0
			for j, a := range l.a {
				sum += float64(a) * end(p.lower[j], p.upper[j], float64(a))
			}
			if sum > 0 {
				return false
			}
			for j, v := range l.a {
				a := float64(v)
				if width := p.upper[j] - p.lower[j]; !(math.Abs(a)*width > -sum) {
					continue // the other inputs leave all of it, or nothing is known
				}
				// a·(x − end) ≤ −sum
				reach := -sum/math.Abs(a)*(1+far) + far*(math.Abs(p.lower[j])+math.Abs(p.upper[j]))
				before := end(p.lower[j], p.upper[j], a)
				if a > 0 {
					p.upper[j] = min(p.upper[j], before+reach)
				} else {
					p.lower[j] = max(p.lower[j], before-reach)
				}
			}
		}
	}
	if len(all) > 1 && apart(all, bounds.Box(p.lower, p.upper)) {
		return false
	}
	h.whole(p)
	return true
}

// rounds of the search for weights.
const weightRounds = 30

// apart reports whether some weighted sum of linear bounds is above 0 on all of a region, so that never all of them are
// at most 0. Weights go with how much a bound is missed where their sum is least.
func apart(all []linear, region bounds.Region) bool {
	weights := slices.Repeat([]float64{1 / float64(len(all))}, len(all))
	values, x := make([]float64, len(all)), make([]float64, len(region.Lower))
	for range weightRounds {
		for j := range x {
			a := 0.0
			for i, l := range all {
				a += weights[i] * float64(l.a[j])
			}
			x[j] = end(float64(region.Lower[j]), float64(region.Upper[j]), a)
		}
		sum, size, most := 0.0, 0.0, 0.0
		for i, l := range all {
			values[i] = l.at0
			terms := math.Abs(l.at0)
			for j, a := range l.a {
				values[i] += float64(a) * x[j]
				terms += math.Abs(float64(a) * x[j])
			}
			sum, size, most = sum+weights[i]*values[i], size+weights[i]*terms, max(most, math.Abs(values[i]))
		}
		if !(most > 0) || math.IsInf(most, 0) {
			return false
		}
		if sum > far*size {
			return true
		}
		total := 0.0
		for i, v := range values {
			weights[i] *= math.Exp(v / most)
			total += weights[i]
		}
		for i := range weights {
			weights[i] /= total
		}
	}
	return false
}
