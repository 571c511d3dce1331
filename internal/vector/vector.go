// Package vector holds the loops over float32 values that attacks run between the passes of a model: sums, steps,
// projections. They are written in C (vector.c), because its compiler makes vector instructions of them and Go's
// doesn't: such loops used to take a third of an iteration of FAB on a small network.
//
// Products and sums in float32 round as the same expression in Go does, except Noisy's; sums are taken in float64, in a
// fixed order. Every processor gives the same bits.
//
// Slices of one call have the same length, which the first one gives, and outputs may be inputs. NaN propagates unless
// a comment says otherwise.
package vector

// #cgo CFLAGS: -O3 -std=c11
// #cgo LDFLAGS: -lm
// #include "vector.h"
import "C"

import "unsafe"

// n returns a vector's length.
func n(v []float32) C.int { return C.int(len(v)) }

// c returns the start of a vector that is as long as another.
func c(v, other []float32) *C.float {
	if len(v) < len(other) {
		panic("vector: slices of different lengths")
	}
	return (*C.float)(unsafe.SliceData(v))
}

// DotDifference returns Σ wᵢ·(aᵢ − bᵢ).
func DotDifference(w, a, b []float32) float64 {
	return float64(C.vector_dot_difference(c(w, w), c(a, w), c(b, w), n(w)))
}

// Dot returns Σ aᵢ·bᵢ.
func Dot(a, b []float32) float64 { return float64(C.vector_dot(c(a, a), c(b, a), n(a))) }

// Spread returns the most by which (a + k·b)·x changes if each xᵢ changes by radiusᵢ, Σ |aᵢ + k·bᵢ|·radiusᵢ, and its
// slope in k, from above.
func Spread(a, b []float32, k float64, radius []float32) (spread, slope float64) {
	s := C.vector_spread(c(a, a), c(b, a), C.double(k), c(radius, a), n(a))
	return float64(s.first), float64(s.second)
}

// Sum1 returns Σ |vᵢ|.
func Sum1(v []float32) float64 { return float64(C.vector_sum1(c(v, v), n(v))) }

// Sum2 returns Σ vᵢ².
func Sum2(v []float32) float64 { return float64(C.vector_sum2(c(v, v), n(v))) }

// Max returns max |vᵢ|, 0 for none.
func Max(v []float32) float32 { return float32(C.vector_max(c(v, v), n(v))) }

// Distance1 returns Σ |aᵢ − bᵢ|, with differences in float64.
func Distance1(a, b []float32) float64 { return float64(C.vector_distance1(c(a, a), c(b, a), n(a))) }

// Distance2 returns Σ (aᵢ − bᵢ)², with differences in float64.
func Distance2(a, b []float32) float64 { return float64(C.vector_distance2(c(a, a), c(b, a), n(a))) }

// DistanceMax returns max |aᵢ − bᵢ|, with differences in float64.
func DistanceMax(a, b []float32) float64 {
	return float64(C.vector_distance_max(c(a, a), c(b, a), n(a)))
}

// Changed counts the values in which a and b differ.
func Changed(a, b []float32) int { return int(C.vector_changed(c(a, a), c(b, a), n(a))) }

// CountFrom counts the values with |vᵢ| ≥ least, except 0 and NaN.
func CountFrom(v []float32, least float32) int {
	return int(C.vector_count_from(c(v, v), C.float(least), n(v)))
}

// Smallest returns the k-th smallest |vᵢ|, counted from 0; k < len(v). NaN is larger than all others.
func Smallest(v []float32, k int) float32 { return float32(C.vector_smallest(c(v, v), C.int(k), n(v))) }

// Between lists the i with from ≤ |vᵢ| < to in out, which must have room for all of them; 0 ≤ from ≤ to.
func Between(v []float32, from, to float32, out []int32) []int32 {
	if len(out) < len(v) {
		panic("vector: no room for all indices")
	}
	return out[:C.vector_between(c(v, v), C.float(from), C.float(to), (*C.int32_t)(unsafe.SliceData(out)), n(v))]
}

// Finite reports whether no value is infinite or NaN.
func Finite(v []float32) bool { return C.vector_finite(c(v, v), n(v)) != 0 }

// Difference writes a − b.
func Difference(a, b, out []float32) { C.vector_difference(c(a, a), c(b, a), c(out, a), n(a)) }

// Halves writes v as a sum of two numbers: high is v rounded to bf16 (8 bits), low is the rest. The halves of NaN and
// of values too large for bf16 are useless. low may be v itself.
func Halves(v, high, low []float32) { C.vector_halves(c(v, v), c(high, v), c(low, v), n(v)) }

// Scaled writes v·k.
func Scaled(v []float32, k float32, out []float32) {
	C.vector_scaled(c(v, v), C.float(k), c(out, v), n(v))
}

// AddScaled writes x + delta·k.
func AddScaled(x, delta []float32, k float32, out []float32) {
	C.vector_add_scaled(c(x, x), c(delta, x), C.float(k), c(out, x), n(x))
}

// AddScaledClamped writes x + delta·k, clamped to [0,1].
func AddScaledClamped(x, delta []float32, k float32, out []float32) {
	C.vector_add_scaled_clamped(c(x, x), c(delta, x), C.float(k), c(out, x), n(x))
}

// Toward replaces p by x + (p − x)·k.
func Toward(x, p []float32, k float32) { C.vector_toward(c(x, x), c(p, x), C.float(k), n(x)) }

// TowardClamped is Toward, clamped to [0,1].
func TowardClamped(x, p []float32, k float32) {
	C.vector_toward_clamped(c(x, x), c(p, x), C.float(k), n(x))
}

// SignStep writes APGD's step in ℓ∞ to next: with z the projection of cur + step·sign(grad) onto [lo, hi], the
// projection of cur + w(z − cur) + (1−w)(cur − prev). The sign of 0 and of NaN is 0.
func SignStep(prev, cur, grad, lo, hi []float32, step, w float32, next []float32) {
	C.vector_sign_step(c(prev, cur), c(cur, cur), c(grad, cur), c(lo, cur), c(hi, cur), C.float(step), C.float(w),
		c(next, cur), n(cur))
}

// Momentum replaces next by cur + w(next − cur) + (1−w)(cur − prev).
func Momentum(prev, cur []float32, w float32, next []float32) {
	C.vector_momentum(c(prev, cur), c(cur, cur), C.float(w), c(next, cur), n(cur))
}

// SparseStep writes from + each·sign(gradᵢ) − x, moving only where |gradᵢ| ≥ least.
func SparseStep(x, from, grad []float32, least, each float32, delta []float32) {
	C.vector_sparse_step(c(x, x), c(from, x), c(grad, x), C.float(least), C.float(each), c(delta, x), n(x))
}

// Rooms prepares moves that lower flip·w·t within [0,1]. It writes how far each coordinate of t can move, t if flip·w >
// 0 and 1 − t if it is below 0, and |w|, replaced by 0 if it is at most least: such coordinates do not move.
func Rooms(t, w []float32, flip, least float32, rooms, sizes []float32) {
	C.vector_rooms(c(t, t), c(w, t), C.float(flip), C.float(least), c(rooms, t), c(sizes, t), n(t))
}

// Reach returns the parts of the sum Σ sizesᵢ·min(λ·paceᵢ, roomsᵢ): the slope in λ of the coordinates that λ has not
// taken to their rooms yet, and the fixed part of the others.
func Reach(rooms, sizes []float32, lambda float64, p Pace) (slope, fixed float64) {
	s := C.vector_reach(c(rooms, rooms), c(sizes, rooms), C.double(lambda), C.double(p.one), C.double(p.perSize),
		n(rooms))
	return float64(s.first), float64(s.second)
}

// Moves writes moves of min(λ·pace, room) against the signs of flip·w; λ = +Inf takes every coordinate to its room.
func Moves(w, rooms, sizes []float32, flip float32, lambda float64, p Pace, d []float32) {
	C.vector_moves(c(w, w), c(rooms, w), c(sizes, w), C.float(flip), C.double(lambda),
		C.double(p.one), C.double(p.perSize), c(d, w), n(w))
}

// CostFrom returns Σ roomsᵢ·paceᵢ over the coordinates with sizes of at least least.
func CostFrom(rooms, sizes []float32, least float32, p Pace) float64 {
	return float64(C.vector_cost_from(c(rooms, rooms), c(sizes, rooms), C.float(least),
		C.double(p.one), C.double(p.perSize), n(rooms)))
}

// A Pace says what a coordinate's move grows with: 1 (Uniform) or its size (BySize).
type Pace struct{ one, perSize float64 }

var (
	Uniform = Pace{one: 1}
	BySize  = Pace{perSize: 1}
)

// MovesFrom writes moves by the whole room against the signs of flip·w for sizes of at least least, and 0 for others.
func MovesFrom(w, rooms, sizes []float32, flip, least float32, d []float32) {
	C.vector_moves_from(c(w, w), c(rooms, w), c(sizes, w), C.float(flip), C.float(least), c(d, w), n(w))
}

// Combine replaces x1 by (1−alpha)(x1 + eta·d1) + alpha(x0 + eta·d0), clamped to [0,1].
func Combine(x0, d1, d0 []float32, alpha, eta float32, x1 []float32) {
	C.vector_combine(c(x0, x0), c(d1, x0), c(d0, x0), C.float(alpha), C.float(eta), c(x1, x0), n(x0))
}

// Shrinkage returns the alpha ≥ 0 with which [Shrink] leaves Σ |yᵢ| of at most radius: 0 if clamping x + y to [0,1]
// already does, otherwise the alpha that leaves exactly radius. It skips infinities and NaN; low and high are buffers.
func Shrinkage(x, y []float32, radius float64, low, high []float32) float32 {
	return float32(C.vector_shrinkage(c(x, x), c(y, x), C.double(radius), c(low, x), c(high, x), n(x)))
}

// Shrink writes x + y, moved towards x by clamp(alpha, overshoot out of [0,1], |yᵢ|), and clamped to [0,1].
func Shrink(x, y []float32, alpha float32, out []float32) {
	C.vector_shrink(c(x, x), c(y, x), C.float(alpha), c(out, x), n(x))
}

// ShrinkPoint is Shrink in place, for a point with y = point − x, rounded.
func ShrinkPoint(x, y []float32, alpha float32, point []float32) {
	C.vector_shrink_point(c(x, x), c(y, x), C.float(alpha), c(point, x), n(x))
}

// Block is the number of values that a bit of Blocks stands for.
const Block = 16

// Blocks is a set of blocks of [Block] values, of which the last may be shorter: bit i%64 of word i/64 is block i's.
type Blocks []uint64

// NewBlocks returns an empty set for the blocks of n values.
func NewBlocks(n int) Blocks { return make(Blocks, (n+64*Block-1)/(64*Block)) }

// Mark marks the blocks of the values from one index up to but not including another.
func (b Blocks) Mark(from, to int) {
	for k := from / Block; k <= (to-1)/Block; k++ {
		b[k/64] |= 1 << (k % 64)
	}
}

// MarkAll also marks the blocks that other marks.
func (b Blocks) MarkAll(other Blocks) {
	for i, word := range other {
		b[i] |= word
	}
}

func (b Blocks) c(v []float32) *C.uint64_t {
	if len(b)*64*Block < len(v) {
		panic("vector: no room for all blocks")
	}
	return (*C.uint64_t)(unsafe.SliceData(b))
}

// NotZero marks exactly the blocks that hold a value other than 0.
func (b Blocks) NotZero(v []float32) { C.vector_blocks(c(v, v), b.c(v), n(v)) }

// ShrinkBlocks is [Shrink] by [Shrinkage] in the marked blocks; elsewhere y is 0 and out is left unchanged.
func ShrinkBlocks(x, y []float32, radius float64, b Blocks, low, high, out []float32) {
	C.vector_shrink_blocks(c(x, x), c(y, x), C.double(radius), b.c(x), c(low, x), c(high, x), c(out, x), n(x))
}
