package control

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// drawReadout returns a random readout.
func drawReadout(p *Planted, seed uint64) Readout {
	r := rand.New(rand.NewPCG(seed, 21))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	return Readout{draw(p.Features()), draw(len(p.layer.bias)), draw(len(p.layer.bias))}
}

// checkPlanted compares a planted classifier's logits with the readout of its features, its features' values with the
// classifier's logits, and its gradients with differences.
func checkPlanted(t *testing.T, name string, p *Planted, whole attacks.Oracle) {
	t.Helper()
	for seed := range uint64(3) {
		x, _ := randomImage(seed, p.Shape().Size())
		r := drawReadout(p, seed)
		logits, own := make([]float32, p.Classes()), make([]float32, p.Classes())
		features := make([]float32, p.Features())
		must.Do(t, p.At(t.Context(), x, r, logits, features))
		must.Do(t, whole.Logits(t.Context(), x, own))
		margin := 0.0
		for f, v := range features {
			margin += float64(v) * float64(r.Weights[f])
		}
		values := p.Values(features)
		for k, z := range logits {
			want := margin*float64(r.Rows[k]) + float64(r.Base[k])
			if math.Abs(float64(z)-want) > 1e-4*max(1, math.Abs(want)) || math.Abs(values[k]-float64(own[k])) > 1e-4 {
				t.Errorf("%s: logit %d is %v, not %v; its own %v, not %v", name, k, z, want, values[k], own[k])
			}
		}
		again := gradient(t, p.With(r), x, attacks.CrossEntropy, 1, 3)
		for k, z := range again.Logits {
			if math.Abs(float64(z-logits[k])) > 1e-4 {
				t.Errorf("%s: the gradient's logit %d is %v, not %v", name, k, z, logits[k])
			}
		}
	}
}

// A planted classifier gives its readout of the features, controlled ones if there is a control, whatever the solver.
// Its gradient agrees with differences of its loss.
func TestPlanted(t *testing.T) {
	plain := defended(t, solvers[0], 0).net
	p := must.Get(plain.Planted())(t)
	t.Cleanup(p.Close)
	checkPlanted(t, "undefended", p, plain)
	x, _ := randomImage(1, p.Shape().Size())
	checkDirection(t, p.With(drawReadout(p, 1)), x, attacks.LogitDifference, 1, 2e-3, "undefended")
	for _, s := range solvers {
		for _, places := range [][]int{{0}, {3}, {0, 2}} {
			for _, k := range []Knowledge{Through, Detached} {
				d := whiteBox(t, defended(t, s, places...), k)
				p := must.Get(d.Planted())(t)
				t.Cleanup(p.Close)
				name := fmt.Sprintf("%v at %v, %v", s.Method, places, k)
				checkPlanted(t, name, p, d)
				if k == Through {
					checkDirection(t, p.With(drawReadout(p, 2)), x, attacks.CrossEntropy, 2, 2e-3, name)
				}
			}
		}
	}
}

// The last linear layer is found in each form, also in front of other operators; without one the error says so.
func TestLastLinearLayer(t *testing.T) {
	draw := func(b *onnx.Builder, shape ...int64) string {
		return b.Const(weights(rand.New(rand.NewPCG(3, 4)), 0.5, shape...))
	}
	for name, build := range map[string]func(b *onnx.Builder, x string) string{
		"gemm": func(b *onnx.Builder, x string) string { return b.Op("Gemm", x, draw(b, 8, 5), draw(b, 5)) },
		"transB": func(b *onnx.Builder, x string) string {
			return b.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, draw(b, 5, 8))
		},
		"matmul": func(b *onnx.Builder, x string) string {
			return b.Op("Add", draw(b, 5), b.Op("MatMul", x, draw(b, 8, 5)))
		},
		"conv": func(b *onnx.Builder, x string) string {
			x = b.Reshape(x, onnx.Shape{onnx.Batch, 8, 1, 1})
			return b.Op("Flatten", b.Op("Conv", x, draw(b, 5, 8, 1, 1), draw(b, 5)))
		},
		"scaled": func(b *onnx.Builder, x string) string {
			return b.Op("Mul", b.Op("Gemm", x, draw(b, 8, 5)), b.Float(100))
		},
		"bypassed": func(b *onnx.Builder, x string) string {
			y := b.Op("Gemm", x, draw(b, 8, 5))
			return b.Op("Add", y, b.Sum(x, []int64{1}))
		},
		"none": func(b *onnx.Builder, x string) string { return b.Op("Tanh", x) },
	} {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		x := b.Op("Tanh", b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, 2, 2, 2})))
		b.Output("y", build(b, x))
		n := open(t, testPool(t, 4), encoded(t, b), NetworkOptions{})
		p, err := n.Planted()
		if name == "bypassed" || name == "none" {
			must.Refuse(t, err, "no last linear layer")
			continue
		}
		must.Do(t, err)
		t.Cleanup(p.Close)
		if name == "scaled" {
			z, x := make([]float32, 5), make([]float32, 8)
			r := Readout{make([]float32, 8), make([]float32, 5), []float32{1, 2, 3, 4, 5}}
			must.Do(t, p.At(t.Context(), x, r, z, make([]float32, 8)))
			if !slices.Equal(z, []float32{100, 200, 300, 400, 500}) {
				t.Errorf("scaled: %v", z)
			}
			continue
		}
		checkPlanted(t, name, p, n)
	}
}
