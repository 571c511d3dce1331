// Package vector holds the walks over float32 values that attacks make between the passes of a model: sums,
// steps, projections. They are written in C (vector.c), whose compiler makes vector instructions of them where
// Go's doesn't: of an iteration of FAB on a small network a third used to be such walks.
//
// Products and sums in float32 round as the same expression in Go does, but for Noisy's; sums are
// taken in float64, in a fixed order. Every processor gives the same bits.
//
// Slices of one call have the same length, which the first one gives, and outputs
// may be inputs. NaN propagates unless a comment says otherwise.
package vector

// #cgo CFLAGS: -O3 -std=c11
// #cgo LDFLAGS: -lm
// #include "vector.h"
import "C"

import "unsafe"

// n is a vector's length.
func n(v []float32) C.int { return C.int(len(v)) }

// c is the start of a vector that is as long as another.
func c(v, other []float32) *C.float {
	if len(v) < len(other) {
		panic("vector: slices of different lengths")
	}
	return (*C.float)(unsafe.SliceData(v))
}

// DotDifference is Σ wᵢ·(aᵢ − bᵢ).
func DotDifference(w, a, b []float32) float64 {
	return float64(C.vector_dot_difference(c(w, w), c(a, w), c(b, w), n(w)))
}

// Sum1 is Σ |vᵢ|.
func Sum1(v []float32) float64 { return float64(C.vector_sum1(c(v, v), n(v))) }

// Sum2 is Σ vᵢ².
func Sum2(v []float32) float64 { return float64(C.vector_sum2(c(v, v), n(v))) }

// Max is max |vᵢ|, 0 of none.
func Max(v []float32) float32 { return float32(C.vector_max(c(v, v), n(v))) }

// Distance1 is Σ |aᵢ − bᵢ|, differences in float64.
func Distance1(a, b []float32) float64 { return float64(C.vector_distance1(c(a, a), c(b, a), n(a))) }

// Distance2 is Σ (aᵢ − bᵢ)², differences in float64.
func Distance2(a, b []float32) float64 { return float64(C.vector_distance2(c(a, a), c(b, a), n(a))) }

// DistanceMax is max |aᵢ − bᵢ|, differences in float64.
func DistanceMax(a, b []float32) float64 {
	return float64(C.vector_distance_max(c(a, a), c(b, a), n(a)))
}

// Changed counts the values in which a and b differ.
func Changed(a, b []float32) int { return int(C.vector_changed(c(a, a), c(b, a), n(a))) }

// CountFrom counts the values of which |vᵢ| is at least least, except 0 and NaN.
func CountFrom(v []float32, least float32) int {
	return int(C.vector_count_from(c(v, v), C.float(least), n(v)))
}

// Smallest is the k-th smallest |vᵢ|, from 0 on; k < len(v). NaN is larger than all others.
func Smallest(v []float32, k int) float32 { return float32(C.vector_smallest(c(v, v), C.int(k), n(v))) }

// Between lists the i with from ≤ |vᵢ| < to in out, which has room for all of them; 0 ≤ from ≤ to.
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

// Halves writes v as two numbers whose sum it is: high is v rounded to bf16, 8 bits, low the rest. NaN and what is
// too large for bf16 have halves of no use. Low may be v itself.
func Halves(v, high, low []float32) { C.vector_halves(c(v, v), c(high, v), c(low, v), n(v)) }

// Scaled writes v·k.
func Scaled(v []float32, k float32, out []float32) {
	C.vector_scaled(c(v, v), C.float(k), c(out, v), n(v))
}

// AddScaled writes x + delta·k.
func AddScaled(x, delta []float32, k float32, out []float32) {
	C.vector_add_scaled(c(x, x), c(delta, x), C.float(k), c(out, x), n(x))
}

// AddScaledClamped writes x + delta·k, moved into [0,1].
func AddScaledClamped(x, delta []float32, k float32, out []float32) {
	C.vector_add_scaled_clamped(c(x, x), c(delta, x), C.float(k), c(out, x), n(x))
}

// Toward replaces p by x + (p − x)·k.
func Toward(x, p []float32, k float32) { C.vector_toward(c(x, x), c(p, x), C.float(k), n(x)) }

// TowardClamped is Toward, moved into [0,1].
func TowardClamped(x, p []float32, k float32) {
	C.vector_toward_clamped(c(x, x), c(p, x), C.float(k), n(x))
}

// SignStep writes APGD's step in ℓ∞ to next: with z the projection of cur + step·sign(grad) onto [lo, hi], that
// of cur + w(z − cur) + (1−w)(cur − prev). The sign of 0 and of NaN is 0.
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
