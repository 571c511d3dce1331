package vector

// #include "vector.h"
import "C"

import "unsafe"

// Windows are two windows of an image [C H W]: squares of the same side within it, in every channel.
type Windows struct {
	C, H, W     int
	Side        int
	Top, Left   int // of window one
	Top2, Left2 int // of window two
}

// in converts w for loops over an image of that many values; lengths are the lengths of slices with a value for each
// channel, which it checks.
func (w Windows) in(image []float32, lengths ...int) C.windows {
	inside := func(at, size int) bool { return at >= 0 && at+w.Side <= size }
	ok := len(image) == w.C*w.H*w.W && w.Side >= 0 && inside(w.Top, w.H) && inside(w.Top2, w.H) &&
		inside(w.Left, w.W) && inside(w.Left2, w.W)
	for _, n := range lengths {
		ok = ok && n == w.C
	}
	if !ok {
		panic("vector: windows outside the image, or not a value for each channel")
	}
	return C.windows{channels: C.int(w.C), height: C.int(w.H), width: C.int(w.W), side: C.int(w.Side),
		top1: C.int(w.Top), left1: C.int(w.Left), top2: C.int(w.Top2), left2: C.int(w.Left2)}
}

// Area returns the number of values in a window, over all channels.
func (w Windows) Area() int { return w.C * w.Side * w.Side }

func doubles(v []float64) *C.double { return (*C.double)(unsafe.SliceData(v)) }

// yes returns 1 for true, otherwise 0.
func yes(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// WindowSums writes each channel's sums of |value|, or value², over window one, and over the part of window two outside
// it.
func WindowSums(v []float32, w Windows, squares bool, first, rest []float64) {
	C.vector_window_sums(c(v, v), w.in(v, len(first), len(rest)), yes(squares), doubles(first), doubles(rest))
}

// WindowAdd writes to out, channel by channel, k·v in window one plus the sign times a shape [Side, Side], whose index
// moves by row and col per row and column of the window. sums are the results of WindowSums for the written values.
func WindowAdd(v []float32, w Windows, shape []float32, row, col int, signs, k []float32, squares bool, out []float32,
	sums []float64) {
	if len(shape) < w.Side*w.Side || len(out) < w.Area() || max(row, col) > w.Side {
		panic("vector: no room for a window")
	}
	C.vector_window_add(c(v, v), w.in(v, len(signs), len(k), len(sums)), c(shape, nil), C.int(row), C.int(col),
		c(signs, nil), c(k, nil), yes(squares), c(out, nil), doubles(sums))
}

// WindowWrite clears window two of v and writes values to window one, each times its channel's scale. held, twice as
// large as a window, receives the old values of both.
func WindowWrite(v []float32, w Windows, values []float32, scales []float64, held []float32) {
	if len(values) < w.Area() || len(held) < 2*w.Area() {
		panic("vector: no room for a window")
	}
	C.vector_window_write(c(v, v), w.in(v, len(scales)), c(values, nil), doubles(scales), c(held, nil))
}

// WindowRestore undoes WindowWrite.
func WindowRestore(v []float32, w Windows, held []float32) {
	if len(held) < 2*w.Area() {
		panic("vector: no room for a window")
	}
	C.vector_window_restore(c(v, v), w.in(v), c(held, nil))
}
