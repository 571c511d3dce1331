package vnnlib

import (
	"math"
	"slices"

	"selfheal/models/bounds"
)

// hull is the smallest box around the points of a part that its cases leave.
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

// add adds the points of a part that fulfil all linear bounds of a case, or a few more. It returns false if there are
// none: a bound, or a weighted sum of bounds, is above 0 throughout.
func (h *hull) add(all []bounds.Linear, p part) bool {
	p.lower, p.upper = slices.Clone(p.lower), slices.Clone(p.upper)
	for range 2 {
		for _, l := range all {
			sum := l.Least(p.lower, p.upper)
			if sum > 0 {
				return false
			}
			for j, v := range l.A {
				a := float64(v)
				if width := p.upper[j] - p.lower[j]; !(math.Abs(a)*width > -sum) {
					continue // the other inputs alone allow all of it, or nothing is known
				}
				// a·(x − end) ≤ −sum
				reach := -sum/math.Abs(a)*(1+bounds.Far) + bounds.Far*(math.Abs(p.lower[j])+math.Abs(p.upper[j]))
				if a > 0 {
					p.upper[j] = min(p.upper[j], p.lower[j]+reach)
				} else {
					p.lower[j] = max(p.lower[j], p.upper[j]-reach)
				}
			}
		}
	}
	if len(all) > 1 && bounds.Apart(all, p.lower, p.upper) {
		return false
	}
	h.whole(p)
	return true
}
