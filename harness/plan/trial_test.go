package plan

import (
	"math"
	"testing"

	"selfheal/attacks"
)

// The judge measures in float64 and tolerates no larger perturbation.
func TestMeasure(t *testing.T) {
	clean := []float32{0.5, 0.5, 0}
	for _, c := range []struct {
		adversarial []float32
		norm        attacks.Norm
		epsilon     float64
		ok          bool
	}{
		{[]float32{0.6, 0.4, 0}, attacks.Linf, 0.1, true},
		{[]float32{0.6, 0.4, 0}, attacks.Linf, 0.0999, false}, {[]float32{0.6, 0.4, 0}, attacks.L1, 0.2, true},
		{[]float32{0.6, 0.4, 0}, attacks.L1, 0.19, false}, {[]float32{0.8, 0.9, 0}, attacks.L2, 0.5, true},
		{[]float32{0.8, 0.9, 0}, attacks.L2, 0.499, false},
		{[]float32{0.5, 0.5, -0.001}, attacks.Linf, 1, false},
		{[]float32{0.5, 1.001, 0}, attacks.Linf, 1, false},
		{[]float32{0.5, float32(math.NaN()), 0}, attacks.Linf, 1, false},
		{[]float32{0.5, 0.5}, attacks.Linf, 1, false},
	} {
		_, err := (Ball{Norm: c.norm, Epsilon: c.epsilon}).Measure(clean, c.adversarial,
			attacks.Shape{C: 1, H: 1, W: len(clean)})
		if (err == nil) != c.ok {
			t.Errorf("%v within %v %g: %v", c.adversarial, c.norm, c.epsilon, err)
		}
	}
}

// All values of a stored image must be levels, also unchanged ones, unless the whole image is the clean one.
func TestMeasureStored(t *testing.T) {
	clean := []float32{100.2 / 255, 7. / 255}
	for _, c := range []struct {
		adversarial []float32
		ok          bool
	}{
		{clean, true}, {[]float32{100. / 255, 7. / 255}, true}, {[]float32{101. / 255, 6. / 255}, true},
		{[]float32{100.2 / 255, 6. / 255}, false}, {[]float32{100. / 255, 6.001 / 255}, false},
		{[]float32{102. / 255, 7. / 255}, false},
	} {
		_, err := (Ball{Norm: attacks.Linf, Epsilon: 1. / 255, Stored: true}).Measure(clean, c.adversarial,
			attacks.Shape{C: 1, H: 1, W: len(clean)})
		if (err == nil) != c.ok {
			t.Errorf("%v: %v", c.adversarial, err)
		}
	}
}

// Measuring tolerates a hundred-thousandth of epsilon, in each norm, and no more.
func TestMeasureTolerance(t *testing.T) {
	clean := []float32{0.5, 0.5, 0.5}
	for _, n := range []attacks.Norm{attacks.Linf, attacks.L2, attacks.L1} {
		x := []float32{0.625, 0.4375, 0.5}
		d := n.Distance(clean, x)
		for beyond, want := range map[float64]bool{1: true, 1 + 0.9e-5: true, 1 + 1.1e-5: false, 1 + 1e-4: false} {
			got, err := (Ball{Norm: n, Epsilon: d / beyond}).Measure(clean, x, attacks.Shape{C: 1, H: 1, W: 3})
			if (err == nil) != want || got != d {
				t.Errorf("%v norm %v, %v of epsilon: %v, %v", n, d, beyond, got, err)
			}
		}
	}
}
