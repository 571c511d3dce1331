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
	rng, r := rand.New(rand.NewPCG(seed, 21)), p.Blank()
	for _, values := range [][]float32{r.Weights, r.Rows, r.Base} {
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
	}
	return r
}

func plantedIn(t *testing.T, n interface{ Planted() (*Planted, error) }) *Planted {
	t.Helper()
	p := must.Get(n.Planted())(t)
	t.Cleanup(p.Close)
	return p
}

// checkPlanted compares a planted classifier's logits with the readout of its features, the values of its last layer
// with the classifier's logits, and its gradient with differences unless the attacker takes another one.
func checkPlanted(t *testing.T, name string, n interface {
	attacks.Oracle
	Planted() (*Planted, error)
}, exact bool) {
	t.Helper()
	p := plantedIn(t, n)
	for seed := range uint64(3) {
		x, _ := randomImage(seed, p.Shape().Size())
		o := p.With(drawReadout(p, seed))
		r := o.(*reading).r
		logits, own := make([]float32, p.Classes()), make([]float32, p.Classes())
		must.Do(t, o.Logits(t.Context(), x, logits))
		must.Do(t, n.Logits(t.Context(), x, own))
		features, values, err := p.Features(t.Context(), x)
		must.Do(t, err)
		margin := 0.0
		for f, v := range features {
			margin += float64(v) * float64(r.Weights[f])
		}
		for k, z := range logits {
			want := margin*float64(r.Rows[k]) + float64(r.Base[k])
			if math.Abs(float64(z)-want) > 1e-4*max(1, math.Abs(want)) || math.Abs(float64(values[k]-own[k])) > 1e-4 {
				t.Errorf("%s: logit %d is %v, not %v; its own %v, not %v", name, k, z, want, values[k], own[k])
			}
		}
		var e, above, below attacks.Evaluation
		must.Do(t, o.Gradient(t.Context(), x, attacks.LogitDifference, 1, 3, &e))
		for k, z := range e.Logits {
			if math.Abs(float64(z-logits[k])) > 1e-4*max(1, math.Abs(float64(z))) {
				t.Errorf("%s: the gradient's logit %d is %v, not %v", name, k, z, logits[k])
			}
		}
		if !exact {
			continue
		}
		length := attacks.L2.Length(e.Gradient)
		y, z := slices.Clone(x), slices.Clone(x)
		for i, g := range e.Gradient {
			step := float32(1e-2 * float64(g) / length)
			y[i], z[i] = x[i]+step, x[i]-step
		}
		must.Do(t, o.Gradient(t.Context(), y, attacks.LogitDifference, 1, 3, &above))
		must.Do(t, o.Gradient(t.Context(), z, attacks.LogitDifference, 1, 3, &below))
		if slope := float64(above.Loss-below.Loss) / 2e-2; !(math.Abs(slope-length) < 1e-2*length) {
			t.Errorf("%s: slope %v by the gradient, %v by differences", name, length, slope)
		}
	}
}

// A planted network gives its readout of the features, whatever form its last linear layer has. Operators behind the
// layer stay. Without such a layer the error says so.
func TestPlanted(t *testing.T) {
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
		"narrow": func(b *onnx.Builder, x string) string {
			y := b.Op("Gemm", x, draw(b, 8, 2))
			return b.OpWith("Concat", onnx.Attrs{"axis": int64(1)}, y, y, b.Sum(y, []int64{1}))
		},
		"none": func(b *onnx.Builder, x string) string { return b.Op("Tanh", x) },
	} {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		x := b.Op("Tanh", b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, 2, 2, 2})))
		b.Output("y", build(b, x))
		n := open(t, testPool(t, 4), encoded(t, b), NetworkOptions{})
		switch name {
		case "bypassed", "none":
			_, err := n.Planted()
			must.Refuse(t, err, "no last linear layer")
		case "narrow":
			_, err := n.Planted()
			must.Refuse(t, err, "its last linear layer has 2 values, for 5 classes")
		case "scaled":
			p, z := plantedIn(t, n), make([]float32, 5)
			r := p.Blank()
			r.Base = []float32{1, 2, 3, 4, 5}
			x, _ := randomImage(1, p.Shape().Size())
			must.Do(t, p.With(r).Logits(t.Context(), x, z))
			if !slices.Equal(z, []float32{100, 200, 300, 400, 500}) {
				t.Errorf("scaled: %v", z)
			}
		default:
			checkPlanted(t, name, n, true)
		}
	}
}

// A controlled network's features are controlled ones, whatever the solver and its place.
func TestPlantedUnderControl(t *testing.T) {
	for _, s := range solvers {
		for _, places := range [][]int{{0}, {3}, {0, 2}} {
			for _, k := range []Knowledge{Through, Detached} {
				d := whiteBox(t, defended(t, s, places...), k)
				checkPlanted(t, fmt.Sprintf("%v at %v, %v", s.Method, places, k), d, k == Through)
			}
		}
	}
}
