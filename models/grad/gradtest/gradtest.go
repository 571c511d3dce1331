// Package gradtest holds what the gradient rules are tested against: goldens that scripts/goldens.py writes with
// PyTorch, and the directional finite-difference check.
package gradtest

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// ByParameters returns the gradient graph of a network by some of its constants, as
// sums over the batch: its inputs are x, the cotangent of the output and the constants,
// which keep their names, its outputs the output, the gradient by each and by x.
func ByParameters(net *onnx.Graph, names ...string) (*onnx.Graph, error) {
	open := net.Clone()
	b := &onnx.Builder{G: onnx.NewGraph(net.Name + "/parameters")}
	x, w := b.Input("x", net.Inputs[0].Shape), b.Input(grad.Cotangent, net.Outputs[0].Shape)
	bind, wrt := map[string]string{net.Inputs[0].Name: x}, []string{}
	for _, name := range names {
		shape := net.Consts[name].Shape
		delete(open.Consts, name)
		open.Inputs = append(open.Inputs, onnx.Value{Name: name, DType: onnx.Float, Shape: shape})
		bind[name] = b.Input(name, shape)
		wrt = append(wrt, bind[name])
	}
	y := b.Inline(open, bind)[net.Outputs[0].Name]
	g, err := grad.Backward(b, map[string]string{y: w}, append(wrt, x))
	if err != nil {
		return nil, err
	}
	b.Output("out/y", y)
	for _, p := range append(wrt, x) {
		b.Output("out/"+p, g[p])
	}
	b.G.Prune()
	return b.G, b.Err()
}

// Rand is a generator keyed by a case's name and a purpose.
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

// Dot accumulates Σ a·b in float64.
func Dot(a, b []float32) float64 {
	s := 0.0
	for i, v := range a {
		s += float64(v) * float64(b[i])
	}
	return s
}

// Step is the finite differences' half width: large enough that float32 rounding, about 1e-7/Step, stays below
// Tolerance, and small enough that the goldens' distance from kinks, at least 0.005, is not crossed.
const Step = 1.5e-3

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
				up[j], down[j] = x+Step*d[j], x-Step*d[j]
				// What the step really was, after rounding.
				moved := (float64(up[j]) - float64(down[j])) / (2 * Step)
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
		got := (up - down) / (2 * Step)
		e := math.Abs(got-want) / (math.Sqrt(norm) + 1e-2)
		if !(e <= worst) { // NaN too
			worst = e
		}
	}
	return worst, nil
}
