package gradtest_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// with makes an operator with attributes.
func with(op string, attrs onnx.Attrs) func(b *onnx.Builder, x string) string {
	return func(b *onnx.Builder, x string) string { return b.OpWith(op, attrs, x) }
}

// edges are networks with attributes that no exporter writes but a file may contain.
var edges = map[string]func(b *onnx.Builder, x string) string{
	"Elu of negative alpha":              with("Elu", onnx.Attrs{"alpha": float32(-0.7)}),
	"Elu of alpha 0":                     with("Elu", onnx.Attrs{"alpha": float32(0)}),
	"Celu of negative alpha":             with("Celu", onnx.Attrs{"alpha": float32(-0.7)}),
	"Selu of negative gamma":             with("Selu", onnx.Attrs{"gamma": float32(-0.7)}),
	"Selu of negative alpha":             with("Selu", onnx.Attrs{"alpha": float32(-0.7)}),
	"Selu of both negative":              with("Selu", onnx.Attrs{"alpha": float32(-0.7), "gamma": float32(-1.2)}),
	"Selu of negative gamma and alpha 1": with("Selu", onnx.Attrs{"gamma": float32(-0.7), "alpha": float32(1)}),
	"Clip with crossed bounds": func(b *onnx.Builder, x string) string {
		return b.Op("Add", x, b.Op("Clip", x, b.Float(0.6), b.Float(-0.6)))
	},
	"LayerNormalization whose mean is used": func(b *onnx.Builder, x string) string {
		out := b.Multi("LayerNormalization", onnx.Attrs{"axis": -1}, 2, x, b.Const(onnx.Filled(1.5, 10)))
		return b.Op("Add", out[0], b.Op("Mul", out[1], out[1]))
	},
	"Pow of integers": func(b *onnx.Builder, x string) string {
		return b.Op("Pow", x, b.Ints(1, 2, 3, 0, 2, 3, 1, 2, 3, 2))
	},
}

// Gradients of such networks agree with central differences.
func TestEdges(t *testing.T) {
	pool := newPool(t, 1)
	for name, op := range edges {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		b.Output("y", op(b, b.Input("x", onnx.Shape{onnx.Batch, 10})))
		t.Run(name, func(t *testing.T) { checkGradient(t, pool, b) })
	}
}

// A Resize's gradient uses the same scales and sizes as ONNX Runtime.
func TestResizeGradients(t *testing.T) {
	pool := newPool(t, 1)
	for _, scale := range []float32{0.3, 0.7, 1.05, 1.1, 1.4} {
		for _, how := range []onnx.Attrs{
			{"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
			{"mode": "cubic", "coordinate_transformation_mode": "half_pixel"},
			{"mode": "cubic", "exclude_outside": 1},
			{"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
			{"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
		} {
			b := &onnx.Builder{G: onnx.NewGraph(fmt.Sprint(scale, how))}
			x := b.Input("x", onnx.Shape{onnx.Batch, 1, 10, 10})
			b.Output("y", b.OpWith("Resize", how, x, "",
				b.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, scale, scale}))))
			t.Run(b.G.Name, func(t *testing.T) { checkGradient(t, pool, b) })
		}
	}
}

// checkGradient simplifies a network and compares its gradient at a random item,
// away from kinks, with central differences.
func checkGradient(t *testing.T, pool *ort.Pool, b *onnx.Builder) {
	t.Helper()
	must.Do(t, b.Err())
	must.Do(t, simplify.Graph(b.G))
	d := must.Get(grad.VJP(b.G))(t)
	p, r := compile(t, pool, d), gradtest.Rand(b.G.Name, "edge")
	x, w := gradtest.Vector(r, int(d.Inputs[0].Shape.Items())), gradtest.Vector(r, int(d.Inputs[1].Shape.Items()))
	f := func(in [][]float32) (float64, error) {
		out, err := p.run(in[0], w)
		return dot(out[0], w), err
	}
	e, err := gradtest.Directional(f, [][]float32{x}, [][]float32{p.mustRun(t, x, w)[1]}, r, 3)
	if err != nil || !(e <= gradtest.Tolerance) {
		t.Errorf("%s: the difference quotient is off by %.2g of the gradient's norm, %v", b.G.Name, e, err)
	}
}

// A loss that is not selected has no effect, even if it is infinite.
func TestLossesOfInfiniteDifferences(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("scaled")}
	b.Output("y", b.Op("Mul", b.Input("x", onnx.Shape{onnx.Batch, 4}), b.Float(1)))
	pool, heads := newPool(t, 1), slices.Sorted(maps.Keys(grad.Heads))
	all := compile(t, pool, must.Get(grad.Losses(b.G, heads))(t))
	label, target := []float32{1, 0, 0, 0}, []float32{0, 1, 0, 0}
	for i, head := range heads {
		own := compile(t, pool, must.Get(grad.Loss(b.G, head))(t))
		for _, z := range [][]float32{{3e38, -3e38, 0, 1}, {-3e38, 3e38, 3e38, 3e38}, {3e38, -3e38, -3e38, -3e38},
			{1, 1, 1, 1}, {1e30, 0, 0, 0}} {
			choice := make([]float32, len(heads))
			choice[i] = 1
			in := [][]float32{z, label}
			if grad.Heads[head].Targeted {
				in = append(in, target)
			}
			got, want := all.mustRun(t, z, label, target, choice), own.mustRun(t, in...)
			for k := range want {
				for j, v := range want[k] {
					if g := got[k][j]; g != v && !(g != g && v != v) { // NaN in both is as equal
						t.Errorf("%s of %v, output %d: %v, alone %v", head, z, k, got[k], want[k])
						break
					}
				}
			}
		}
	}
}
