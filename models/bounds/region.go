package bounds

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"selfheal/internal/number"
)

// Region is a set of inputs: the box of Lower and Upper, or a part of it.
type Region struct {
	Lower, Upper []float32
	// Centre, unless nil, cuts the box to the inputs within Epsilon of it in the norm ℓ_P, P = 1 or 2.
	Centre  []float32
	P       float64
	Epsilon float64
}

// Ball returns the inputs within epsilon of an image in the norm ℓ_p, p = 1, 2 or ∞ (a box), with values from lo to hi.
func Ball(x []float32, p, epsilon float64, lo, hi float32) Region {
	r := Region{Lower: make([]float32, len(x)), Upper: make([]float32, len(x))}
	for i, v := range x { // rounded outwards: the region holds every float32 image of the ball
		r.Lower[i] = max(lo, down(float64(v)-epsilon))
		r.Upper[i] = min(hi, up(float64(v)+epsilon))
	}
	if !math.IsInf(p, 1) {
		r.Centre, r.P, r.Epsilon = x, p, epsilon
	}
	return r
}

// Check returns an error if the region is not valid for this many values.
func (r Region) Check(values int) error {
	if r.Centre != nil && (r.P != 1 && r.P != 2 || !(r.Epsilon >= 0)) {
		return fmt.Errorf("a ball of radius %g in the norm l%g", r.Epsilon, r.P)
	}
	if len(r.Lower) != values || len(r.Upper) != values || r.Centre != nil && len(r.Centre) != values {
		return fmt.Errorf("a region of %d to %d values for an input of %d", len(r.Lower), len(r.Upper), values)
	}
	for i := range r.Lower {
		if lower, upper := float64(r.Lower[i]), float64(r.Upper[i]); !(lower <= upper) || !number.Finite(lower, upper) {
			return fmt.Errorf("value %d of the region goes from %g to %g", i, r.Lower[i], r.Upper[i])
		}
	}
	return nil
}

// down and up round to float32, downwards and upwards.
func down(v float64) float32 {
	f := float32(v)
	if float64(f) > v {
		return math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

func up(v float64) float32 { return -down(-v) }

// least returns the smallest value of a·x over the region and, if at is given, writes its point there.
func (r Region) least(a []float32, at []float32) float64 {
	switch {
	case r.Centre == nil:
		return r.leastOfBox(a, at)
	case r.P == 1:
		return r.leastOfL1(a, at)
	}
	return r.leastOfL2(a, at)
}

func (r Region) leastOfBox(a, at []float32) float64 {
	sum := 0.0
	for i, c := range a {
		v := r.Lower[i]
		if c < 0 {
			v = r.Upper[i]
		}
		sum += float64(c) * float64(v)
		if at != nil {
			at[i] = v
		}
	}
	return sum
}

// leastOfL1 spends epsilon where |a| is largest, as far as the box goes: a fractional knapsack. Usually a few values
// take all of it; the others are sorted only if they do not.
func (r Region) leastOfL1(a, at []float32) float64 {
	sum := 0.0
	size := func(i int) float64 { return math.Abs(float64(a[i])) }
	for i, c := range a {
		sum += float64(c) * float64(r.Centre[i])
	}
	copy(at, r.Centre)
	left := r.Epsilon
	spend := func(i int) {
		move := float64(r.Lower[i]) - float64(r.Centre[i])
		if a[i] < 0 {
			move = float64(r.Upper[i]) - float64(r.Centre[i])
		}
		move = min(max(move, -left), left)
		left -= math.Abs(move)
		sum += float64(a[i]) * move
		if at != nil {
			at[i] += float32(move)
		}
	}
	const few = 8
	var largest []int // the largest so far
	for range min(few, len(a)) {
		next := -1
		for i := range a {
			if (next < 0 || size(i) > size(next)) && !slices.Contains(largest, i) {
				next = i
			}
		}
		if largest = append(largest, next); left <= 0 || size(next) == 0 {
			return sum
		}
		spend(next)
	}
	order := make([]int, 0, len(a))
	for i := range a {
		if a[i] != 0 && !slices.Contains(largest, i) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(size(j), size(i)) })
	for _, i := range order {
		if left <= 0 {
			break
		}
		spend(i)
	}
	return sum
}

// l2Rounds bounds the rounds of leastOfL2, which mostly ends in a few.
const l2Rounds = 30

// leastOfL2 computes the dual's value. For every λ > 0, Σ min over the box of a·d + λ/2·d², less λ/2·ε², is a lower
// bound, and the best λ gives the smallest value. The minimum over the box is at −a/λ, clipped to it. The values at the
// box's ends use a part of ε²; the others share the rest, which gives the next λ.
func (r Region) leastOfL2(a, at []float32) float64 {
	norm, sum := 0.0, 0.0
	for i, c := range a {
		norm += float64(c) * float64(c)
		sum += float64(c) * float64(r.Centre[i])
	}
	copy(at, r.Centre)
	lambda := math.Sqrt(norm) / r.Epsilon
	if lambda == 0 || math.IsInf(lambda, 0) { // nothing to gain, or nowhere to go
		return sum
	}
	d := func(i int) (step float64, ends bool) {
		x, step := float64(r.Centre[i]), -float64(a[i])/lambda
		low, high := float64(r.Lower[i])-x, float64(r.Upper[i])-x
		return min(max(step, low), high), step < low || step > high
	}
	for range l2Rounds {
		free, left := 0.0, r.Epsilon*r.Epsilon
		for i, c := range a {
			if step, ends := d(i); ends {
				left -= step * step
			} else {
				free += float64(c) * float64(c)
			}
		}
		if free == 0 { // the box lies within the ball
			return r.leastOfBox(a, at)
		}
		next := math.Sqrt(free / left)
		if left <= 0 || next >= lambda*(1-1e-9) {
			break
		}
		lambda = next
	}
	sum -= lambda / 2 * r.Epsilon * r.Epsilon
	for i, c := range a {
		step, _ := d(i)
		sum += float64(c)*step + lambda/2*step*step
		if at != nil {
			at[i] += float32(step)
		}
	}
	return sum
}

// Box returns a region with float64 ends rounded outwards: it holds all float32 inputs between them.
func Box(lower, upper []float64) Region {
	r := Region{Lower: make([]float32, len(lower)), Upper: make([]float32, len(upper))}
	for i := range lower {
		r.Lower[i], r.Upper[i] = down(lower[i]), up(upper[i])
	}
	return r
}

// Within returns the ends of a box rounded inwards to finite values; apart is the index of the first value whose range
// holds no float32, or −1.
func Within(lower, upper []float64) (low, high []float32, apart int) {
	low, high, apart = make([]float32, len(lower)), make([]float32, len(upper)), -1
	for i := range lower {
		low[i] = max(up(lower[i]), -math.MaxFloat32)
		high[i] = min(down(upper[i]), math.MaxFloat32)
		if apart < 0 && !(low[i] <= high[i]) {
			apart = i
		}
	}
	return low, high, apart
}
