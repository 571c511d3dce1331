// Package vector holds the walks over float32 values that attacks make between the
// passes of a model: sums, steps, projections. They are written in C (vector.c),
// whose compiler makes vector instructions of them where Go's doesn't: of an
// iteration of FAB on a small network a third used to be such walks.
//
// Products and sums in float32 round as the same expression in Go does; sums are
// taken in float64, in a fixed order. Every processor gives the same bits.
//
// Slices of one call have the same length, which the first one gives, and outputs
// may be inputs. NaN propagates unless a comment says otherwise.
package vector

// #cgo CFLAGS: -O3 -std=c11
// #include "vector.h"
import "C"

import "unsafe"

// c is the start of a vector of n values.
func c(v []float32, n C.int) *C.float {
	if len(v) < int(n) {
		panic("vector: slices of different lengths")
	}
	return (*C.float)(unsafe.SliceData(v))
}

// DotDifference is Σ wᵢ·(aᵢ − bᵢ).
func DotDifference(w, a, b []float32) float64 {
	n := C.int(len(w))
	return float64(C.vector_dot_difference(c(w, n), c(a, n), c(b, n), n))
}

// Sum1 is Σ |vᵢ|.
func Sum1(v []float32) float64 {
	n := C.int(len(v))
	return float64(C.vector_sum1(c(v, n), n))
}

// Sum2 is Σ vᵢ².
func Sum2(v []float32) float64 {
	n := C.int(len(v))
	return float64(C.vector_sum2(c(v, n), n))
}

// Max is max |vᵢ|, 0 of none.
func Max(v []float32) float32 {
	n := C.int(len(v))
	return float32(C.vector_max(c(v, n), n))
}

// Distance1 is Σ |aᵢ − bᵢ|, differences in float64.
func Distance1(a, b []float32) float64 {
	n := C.int(len(a))
	return float64(C.vector_distance1(c(a, n), c(b, n), n))
}

// Distance2 is Σ (aᵢ − bᵢ)², differences in float64.
func Distance2(a, b []float32) float64 {
	n := C.int(len(a))
	return float64(C.vector_distance2(c(a, n), c(b, n), n))
}

// DistanceMax is max |aᵢ − bᵢ|, differences in float64.
func DistanceMax(a, b []float32) float64 {
	n := C.int(len(a))
	return float64(C.vector_distance_max(c(a, n), c(b, n), n))
}

// Changed counts the values in which a and b differ.
func Changed(a, b []float32) int {
	n := C.int(len(a))
	return int(C.vector_changed(c(a, n), c(b, n), n))
}

// CountFrom counts the values of at least least, except 0 and NaN.
func CountFrom(v []float32, least float32) int {
	n := C.int(len(v))
	return int(C.vector_count_from(c(v, n), C.float(least), n))
}

// Between lists the i with from ≤ |vᵢ| < to in out, which has room for all of them;
// 0 ≤ from ≤ to.
func Between(v []float32, from, to float32, out []int32) []int32 {
	n := C.int(len(v))
	if len(out) < len(v) {
		panic("vector: no room for all indices")
	}
	return out[:C.vector_between(c(v, n), C.float(from), C.float(to), (*C.int32_t)(unsafe.SliceData(out)), n)]
}

// Finite reports whether no value is infinite or NaN.
func Finite(v []float32) bool {
	n := C.int(len(v))
	return C.vector_finite(c(v, n), n) != 0
}

// Difference writes a − b.
func Difference(a, b, out []float32) {
	n := C.int(len(a))
	C.vector_difference(c(a, n), c(b, n), c(out, n), n)
}

// Scaled writes v·k.
func Scaled(v []float32, k float32, out []float32) {
	n := C.int(len(v))
	C.vector_scaled(c(v, n), C.float(k), c(out, n), n)
}

// AddScaled writes x + delta·k.
func AddScaled(x, delta []float32, k float32, out []float32) {
	n := C.int(len(x))
	C.vector_add_scaled(c(x, n), c(delta, n), C.float(k), c(out, n), n)
}

// AddScaledClamped writes x + delta·k, moved into [0,1].
func AddScaledClamped(x, delta []float32, k float32, out []float32) {
	n := C.int(len(x))
	C.vector_add_scaled_clamped(c(x, n), c(delta, n), C.float(k), c(out, n), n)
}

// Toward replaces p by x + (p − x)·k.
func Toward(x, p []float32, k float32) {
	n := C.int(len(x))
	C.vector_toward(c(x, n), c(p, n), C.float(k), n)
}

// TowardClamped is Toward, moved into [0,1].
func TowardClamped(x, p []float32, k float32) {
	n := C.int(len(x))
	C.vector_toward_clamped(c(x, n), c(p, n), C.float(k), n)
}

// Magnitudes writes |vᵢ|.
func Magnitudes(v, out []float32) {
	n := C.int(len(v))
	C.vector_magnitudes(c(v, n), c(out, n), n)
}

// SignStep writes APGD's step in ℓ∞ to next: with z the projection of
// cur + step·sign(grad) onto [lo, hi], that of cur + w(z − cur) + (1−w)(cur − prev).
// The sign of 0 and of NaN is 0.
func SignStep(prev, cur, grad, lo, hi []float32, step, w float32, next []float32) {
	n := C.int(len(cur))
	C.vector_sign_step(c(prev, n), c(cur, n), c(grad, n), c(lo, n), c(hi, n), C.float(step), C.float(w), c(next, n), n)
}

// Momentum replaces next by cur + w(next − cur) + (1−w)(cur − prev).
func Momentum(prev, cur []float32, w float32, next []float32) {
	n := C.int(len(cur))
	C.vector_momentum(c(prev, n), c(cur, n), C.float(w), c(next, n), n)
}

// SparseStep writes from + each·sign(gradᵢ) − x, moving only where |gradᵢ| ≥ least.
func SparseStep(x, from, grad []float32, least, each float32, delta []float32) {
	n := C.int(len(x))
	C.vector_sparse_step(c(x, n), c(from, n), c(grad, n), C.float(least), C.float(each), c(delta, n), n)
}
