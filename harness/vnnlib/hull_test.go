package vnnlib

import (
	"math/rand/v2"
	"testing"

	"selfheal/models/bounds"
)

// The hull of a part contains every point that fulfils all linear bounds. If there is no hull, there is no such
// point.
func TestHull(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	emptied, jointly, shrunk, held := 0, 0, 0, 0
	for range 3000 {
		n := 1 + rng.IntN(4)
		p := part{lower: make([]float64, n), upper: make([]float64, n)}
		for j := range n {
			p.lower[j] = rng.NormFloat64()
			p.upper[j] = p.lower[j] + rng.ExpFloat64()
		}
		all := make([]bounds.Linear, 1+rng.IntN(3))
		for i := range all {
			all[i] = bounds.Linear{A: make([]float32, n), At0: 0.7 * rng.NormFloat64()}
			for j := range n {
				all[i].A[j] = float32(rng.NormFloat64() * float64(rng.IntN(4)) / 3)
				all[i].At0 -= float64(all[i].A[j]) * (p.lower[j] + p.upper[j]) / 2
			}
		}
		h := newHull(p)
		left := h.add(all, p)
		if !left {
			emptied++
		}
		if bounds.Apart(all, p.lower, p.upper) {
			jointly++
		}
		for range 200 {
			x, fulfils, inside := make([]float64, n), true, true
			for j := range x {
				x[j] = p.lower[j] + rng.Float64()*(p.upper[j]-p.lower[j])
			}
			for _, l := range all {
				value := l.At0
				for j, a := range l.A {
					value += float64(a) * x[j]
				}
				fulfils = fulfils && value <= 0
			}
			for j := range x {
				inside = inside && left && x[j] >= h.lower[j] && x[j] <= h.upper[j]
			}
			if fulfils && !inside {
				t.Fatalf("%v is left out of [%v, %v], left %v", x, h.lower, h.upper, left)
			}
			if fulfils {
				held++
			} else if !inside {
				shrunk++
			}
		}
	}
	if emptied < 300 || jointly < 300 || shrunk < 100_000 || held < 100_000 {
		t.Errorf("%d parts emptied, %d jointly, %d points left out, %d held", emptied, jointly, shrunk, held)
	}
}
