package attacks

import "selfheal/internal/vector"

// projectL1 moves the point x + y to the nearest point (ℓ2) of the ℓ1 ball of that radius around x intersected with
// [0,1] and writes it to out, which may be y. (Croce & Hein 2021, "Mind the box", section 3.1 and algorithm 1.)
//
// With v the overshoot out of the box, every |yᵢ| shrinks by clamp(α, vᵢ, |yᵢ|). α is 0 if that already meets the
// radius; otherwise α ≥ 0 gives the result the ℓ1 norm radius. That norm falls piecewise linearly in α. Newton's method
// finds the root; the reference sorts all 2d breakpoints instead.
//
// The point is computed in float32 as (x + y) − sign(y)·shrink, as in the reference. A value that shrinks all the way
// back may then differ from x by rounding, and APGD counts it as changed. Clamping comes last, because the sum may miss
// 0 or 1 by rounding too.
func projectL1(x, y, out []float32, radius float64) {
	w := borrow(len(x))
	defer w.giveBack()
	vector.Shrink(x, y, vector.Shrinkage(x, y, radius, w.v[0], w.v[1]), out)
}

// projectPointL1 applies projectL1 to a point in place: y = point − x, rounded.
func projectPointL1(x, point []float32, radius float64) {
	w := borrow(len(x))
	defer w.giveBack()
	y := w.v[2]
	vector.Difference(point, x, y)
	vector.ShrinkPoint(x, y, vector.Shrinkage(x, y, radius, w.v[0], w.v[1]), point)
}
