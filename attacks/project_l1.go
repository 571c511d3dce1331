package attacks

import (
	"math"

	"selfheal/internal/vector"
)

// l1Projector projects onto {‖δ‖₁ ≤ radius} ∩ {x + δ in [0,1]}; it holds the
// working space and serves one goroutine.
type l1Projector struct {
	moved     []int32
	low, high []float64
}

// project moves the point x + y to the nearest point (ℓ2) of the ℓ1 ball of that
// radius around x intersected with [0,1] and writes it to out, which may be y.
// (Croce & Hein 2021, "Mind the box", section 3.1 and algorithm 1.)
//
// With v the overshoot out of the box, every |yᵢ| shrinks by
// clamp(α, vᵢ, |yᵢ|): α = 0 if that already meets the radius, else the α ≥ 0
// whose result has ℓ1 norm radius. That norm falls piecewise linearly in α; its
// root is bracketed by breakpoints picked as in quickselect, in expected linear
// time, where the reference sorts all 2d of them.
//
// The point is put together in float32 as (x + y) − sign(y)·shrink, as the
// reference does: a value that shrinks all the way back may then differ from x by
// rounding, and APGD counts it as changed. The sum is clamped at last, since it
// may miss 0 or 1 by rounding too.
func (p *l1Projector) project(x, y, out []float32, radius float64) {
	vector.Shrink(x, y, p.threshold(x, y, radius), out)
}

// projectPoint is project for a point given itself, in place: y = point − x, rounded.
func (p *l1Projector) projectPoint(x, point []float32, radius float64) {
	y := make([]float32, len(x))
	vector.Difference(point, x, y)
	vector.ShrinkPoint(x, y, p.threshold(x, y, radius), point)
}

// threshold is the α of project.
func (p *l1Projector) threshold(x, y []float32, radius float64) float32 {
	if d := len(x); len(p.moved) != d {
		p.moved = make([]int32, d)
		p.low, p.high = make([]float64, d), make([]float64, d)
	}
	// Most values are 0 on the way to few.
	moved := vector.Between(y, math.SmallestNonzeroFloat32, float32(math.Inf(1)), p.moved)
	low, high := p.low[:len(moved)], p.high[:len(moved)]
	norm := 0.0
	for k, i := range moved {
		size := math.Abs(float64(y[i]))
		low[k], high[k] = min(float64(overshoot(x[i], y[i])), size), size
		norm += size - low[k]
	}
	if !(norm > radius) {
		return 0
	}
	return float32(shrinkage(low, high, radius))
}

// overshoot is how far x + y lies outside [0,1].
func overshoot(x, y float32) float32 { return max(y-(1-x), -(x + y), 0) }

// shrinkage returns the α ≥ 0 with Σ (highᵢ − clamp(α, lowᵢ, highᵢ)) = radius,
// given 0 ≤ lowᵢ ≤ highᵢ and that the sum exceeds radius at α = 0. It reorders
// and overwrites both slices.
func shrinkage(low, high []float64, radius float64) float64 {
	left, right := 0.0, math.Inf(1) // the root lies in [left, right]
	fixed, slope := 0.0, 0.0        // settled pairs contribute fixed − slope·α between them
	for len(low) > 0 {
		pivot := breakpoint(low, high, left, right)
		if !(pivot > left && pivot < right) {
			break // only NaN gets here
		}
		sum := fixed - slope*pivot
		for i, h := range high {
			sum += h - min(max(pivot, low[i]), h)
		}
		if sum > radius {
			left = pivot
		} else {
			right = pivot
		}
		kept := 0
		for i, h := range high {
			switch l := low[i]; {
			case h <= left: // gone
			case l >= right: // untouched by α
				fixed += h - l
			case l <= left && h >= right: // linear in α all the way
				fixed += h
				slope++
			default:
				low[kept], high[kept] = l, h
				kept++
			}
		}
		low, high = low[:kept], high[:kept]
	}
	if slope == 0 {
		return left
	}
	return max(left, (fixed-radius)/slope)
}

// breakpoint picks an end strictly inside (left, right), the median of three
// where there are three.
func breakpoint(low, high []float64, left, right float64) float64 {
	n := len(low)
	pick := func(i int) float64 {
		if l := low[i]; l > left && l < right && (i&1 == 0 || high[i] >= right) {
			return l
		}
		if h := high[i]; h < right && h > left {
			return h
		}
		return low[i]
	}
	a, b, c := pick(0), pick(n/2), pick(n-1)
	return max(min(a, b), min(max(a, b), c))
}
