package vector

// #include "vector.h"
import "C"

import "unsafe"

// Rooms writes, for lowering flip·w·t within [0,1], how far each coordinate of t can move, t where flip·w > 0
// and 1 − t where it is less, and |w|, 0 where that is at most least: coordinates that are not moved.
func Rooms(t, w []float32, flip, least float32, rooms, sizes []float32) {
	C.vector_rooms(c(t, t), c(w, t), C.float(flip), C.float(least), c(rooms, t), c(sizes, t), n(t))
}

// Reach says what the sum Σ sizesᵢ·min(λ·paceᵢ, roomsᵢ) is made of: the slope in λ of the coordinates
// that λ has not taken to their rooms yet, and the fixed part of the others.
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

// CostFrom is Σ roomsᵢ·paceᵢ where sizes are at least least.
func CostFrom(rooms, sizes []float32, least float32, p Pace) float64 {
	return float64(C.vector_cost_from(c(rooms, rooms), c(sizes, rooms), C.float(least),
		C.double(p.one), C.double(p.perSize), n(rooms)))
}

// A Pace is what a coordinate's part grows with: 1 (Uniform) or its size (BySize).
type Pace struct{ one, perSize float64 }

var (
	Uniform = Pace{one: 1}
	BySize  = Pace{perSize: 1}
)

// MovesFrom writes moves by the whole room against the signs of flip·w where sizes are at least least, and 0 elsewhere.
func MovesFrom(w, rooms, sizes []float32, flip, least float32, d []float32) {
	C.vector_moves_from(c(w, w), c(rooms, w), c(sizes, w), C.float(flip), C.float(least), c(d, w), n(w))
}

// Combine replaces x1 by (1−alpha)(x1 + eta·d1) + alpha(x0 + eta·d0), moved into [0,1].
func Combine(x0, d1, d0 []float32, alpha, eta float32, x1 []float32) {
	C.vector_combine(c(x0, x0), c(d1, x0), c(d0, x0), C.float(alpha), C.float(eta), c(x1, x0), n(x0))
}

// Shrinkage is the alpha ≥ 0 with which [Shrink] leaves Σ |yᵢ| of at most radius: 0 if moving x + y into [0,1]
// already does, otherwise that which leaves radius. Values that are infinite or NaN are passed over. low and
// high are room for as many values as x has.
func Shrinkage(x, y []float32, radius float64, low, high []float32) float32 {
	return float32(C.vector_shrinkage(c(x, x), c(y, x), C.double(radius), c(low, x), c(high, x), n(x)))
}

// Shrink writes x + y moved towards x by clamp(alpha, overshoot out of [0,1], |yᵢ|), and into [0,1].
func Shrink(x, y []float32, alpha float32, out []float32) {
	C.vector_shrink(c(x, x), c(y, x), C.float(alpha), c(out, x), n(x))
}

// ShrinkPoint is Shrink of a point that y = point − x was rounded from, in place.
func ShrinkPoint(x, y []float32, alpha float32, point []float32) {
	C.vector_shrink_point(c(x, x), c(y, x), C.float(alpha), c(point, x), n(x))
}

// Block is how many values a bit of Blocks stands for.
const Block = 16

// Blocks tells blocks of [Block] values, the last of them perhaps of fewer, apart: bit i%64 of word i/64 is block i's.
type Blocks []uint64

// NewBlocks makes room for the blocks of n values; none is marked.
func NewBlocks(n int) Blocks { return make(Blocks, (n+64*Block-1)/(64*Block)) }

// Mark marks the blocks of the values from one index up to another, which is not among them.
func (b Blocks) Mark(from, to int) {
	for k := from / Block; k <= (to-1)/Block; k++ {
		b[k/64] |= 1 << (k % 64)
	}
}

// MarkAll marks what another marks too.
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

// NotZero marks the blocks that hold another value than 0, and no others.
func (b Blocks) NotZero(v []float32) { C.vector_blocks(c(v, v), b.c(v), n(v)) }

// ShrinkBlocks is [Shrink] by [Shrinkage] in the blocks that are marked; elsewhere y is 0 and out is left alone.
func ShrinkBlocks(x, y []float32, radius float64, b Blocks, low, high, out []float32) {
	C.vector_shrink_blocks(c(x, x), c(y, x), C.double(radius), b.c(x), c(low, x), c(high, x), c(out, x), n(x))
}
