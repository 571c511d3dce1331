package onnx

import (
	"math"
	"testing"
)

// Every half-precision number equals its float32: against the definition, and
// against the neighbours where the exponent changes.
func TestHalfToFloat(t *testing.T) {
	for i := range 1 << 16 {
		bits := uint16(i)
		sign, exponent, fraction := 1.0, int(bits>>10&31), float64(bits&1023)
		if bits>>15 == 1 {
			sign = -1
		}
		var want float64
		switch exponent {
		case 0:
			want = sign * fraction * math.Pow(2, -24)
		case 31:
			if want = math.Inf(int(sign)); fraction != 0 {
				want = math.NaN()
			}
		default:
			want = sign * (1 + fraction/1024) * math.Pow(2, float64(exponent-15))
		}
		got := float64(halfToFloat(bits))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) &&
			!math.IsNaN(want) {
			t.Fatalf("%#04x is %g, not %g", bits, got, want)
		}
	}
}
