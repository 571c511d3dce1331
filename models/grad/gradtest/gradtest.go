// Package gradtest tests the gradient rules: against goldens that scripts/goldens/gradients.py writes with PyTorch, and
// by [Directional], the finite-difference check that other packages use too.
package gradtest

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Rand returns a generator keyed by a case's name and a purpose.
func Rand(name, purpose string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name + "\x00" + purpose))
	return rand.New(rand.NewPCG(h.Sum64(), 0))
}

// Vector draws n values of either sign with sizes in [0.25, 1): every entry counts.
func Vector(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 0.25 + 0.75*r.Float32()
		if r.IntN(2) == 0 {
			v[i] = -v[i]
		}
	}
	return v
}

// step is the finite differences' half width: large enough that float32 rounding, about 1e-7/step, stays below
// Tolerance, and small enough that the goldens' distance from kinks, at least 0.005, is not crossed.
const step = 1.5e-3

// Tolerance of a difference quotient, relative to the gradient's norm.
const Tolerance = 3e-3

// Directional compares gradient, which belongs to f at the points in, with central differences of f along directions
// random directions with entries in ±[0.25, 1): f(in + h·d) − f(in − h·d) over 2h. Each entry of in is one vector of
// arguments and gradient holds one of the same length. A nil gradient holds its argument fixed. It returns the largest
// difference relative to the gradient's norm.
func Directional(f func(in [][]float32) (float64, error), in, gradient [][]float32, r *rand.Rand,
	directions int) (float64, error) {
	worst := 0.0
	for range directions {
		at := [2][][]float32{}
		want, norm := 0.0, 0.0
		for i, v := range in {
			if gradient[i] == nil {
				at[0], at[1] = append(at[0], v), append(at[1], v)
				continue
			}
			d := Vector(r, len(v))
			up, down := make([]float32, len(v)), make([]float32, len(v))
			for j, x := range v {
				up[j], down[j] = x+step*d[j], x-step*d[j]
				// This was the step, after rounding.
				moved := (float64(up[j]) - float64(down[j])) / (2 * step)
				want += float64(gradient[i][j]) * moved
				norm += float64(gradient[i][j]) * float64(gradient[i][j])
			}
			at[0], at[1] = append(at[0], up), append(at[1], down)
		}
		up, err := f(at[0])
		if err != nil {
			return 0, err
		}
		down, err := f(at[1])
		if err != nil {
			return 0, err
		}
		got := (up - down) / (2 * step)
		e := math.Abs(got-want) / (math.Sqrt(norm) + 1e-2)
		if !(e <= worst) { // NaN too
			worst = e
		}
	}
	return worst, nil
}
