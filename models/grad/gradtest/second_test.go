package gradtest_test

import (
	"fmt"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
)

// second returns the graph of S(x, w) = Σ u·y(x) + Σ v·dx(x, w) and its gradients: inputs x, w, u, v; outputs dx, y,
// S's gradients by x and by w. For a head there is no w, and y is the loss.
func second(t *testing.T, g *Golden) *onnx.Graph {
	t.Helper()
	first := derived(t, g)
	b := &onnx.Builder{G: onnx.NewGraph(g.Name + "/second")}
	bind, wrt := map[string]string{}, []string{}
	for i, in := range first.Inputs {
		bind[in.Name] = b.Input(in.Name, in.Shape)
		if i == 0 || g.Head == "" {
			wrt = append(wrt, bind[in.Name])
		}
	}
	value, slope := "y", "dx"
	if g.Head != "" {
		value, slope = grad.LossValue, grad.Gradient
	}
	out := b.Inline(first, bind)
	u := b.Input("u", b.Shape(out[value]))
	v := b.Input("v", b.Shape(out[slope]))
	gs := must.Get(grad.Backward(b, map[string]string{out[value]: u, out[slope]: v}, wrt))(t)
	b.Output("first/value", out[value])
	b.Output("first/slope", out[slope])
	for i, w := range wrt {
		b.Output(fmt.Sprint("second/", i), gs[w])
	}
	must.Do(t, b.Err())
	b.G.Prune()
	must.Do(t, b.G.Verify())
	return b.G
}

// A gradient can be differentiated again: every rule emits operators with
// rules, and the second gradient agrees with differences of the first.
func TestSecondDerivative(t *testing.T) {
	pool := newPool(t, 1)
	each(t, func(t *testing.T, g *Golden) {
		graph := second(t, g)
		if g.Kink {
			return
		}
		p := compile(t, pool, graph)
		r := gradtest.Rand(g.Name, "second")
		for i := range g.Items() {
			in := append([][]float32{g.Item(g.X, i)}, inputs(g, i)...)
			u, v := gradtest.Vector(r, p.out[0]), gradtest.Vector(r, p.out[1])
			vary := 2 // x and w
			if g.Head != "" {
				vary = 1
			}
			all := func(in [][]float32) [][]float32 { return append(slices.Clone(in), u, v) }
			out := p.mustRun(t, all(in)...)
			gradient := make([][]float32, len(in))
			copy(gradient, out[2:2+vary])
			f := func(in [][]float32) (float64, error) {
				out, err := p.run(all(in)...)
				if err != nil {
					return 0, err
				}
				return dot(u, out[0]) + dot(v, out[1]), nil
			}
			e := must.Get(gradtest.Directional(f, in, gradient, r, 3))(t)
			if !(e <= gradtest.Tolerance) {
				t.Errorf("item %d: the difference quotient is off by %.2g of the gradient's norm", i, e)
			}
		}
	})
}

// hessianTolerance bounds the error of a Hessian-vector product relative to its norm.
const hessianTolerance = 1e-5

// Differentiating the gradient graph gives PyTorch's Hessian-vector products: h = ∂⟨v, Jᵀw⟩/∂x, and zeros for piecewise
// linear networks.
func TestHessianVector(t *testing.T) {
	pool, curved := newPool(t, 1), 0
	each(t, func(t *testing.T, g *Golden) {
		if g.Kink {
			t.Skip("at a kink there is no second derivative")
		}
		if len(g.V) != len(g.X) || len(g.H) != len(g.X) {
			t.Fatalf("golden has %d and %d values of v and h for %d of x", len(g.V), len(g.H), len(g.X))
		}
		p := compile(t, pool, second(t, g))
		for i := range g.Items() {
			in := append([][]float32{g.Item(g.X, i)}, inputs(g, i)...)
			out := p.mustRun(t, append(in, make([]float32, p.out[0]), g.Item(g.V, i))...)
			want := g.Item(g.H, i)
			if dot(want, want) > 0 {
				curved++
			}
			if e := distance(out[2], want); !(e <= hessianTolerance) {
				t.Errorf("item %d: off by %.2g of its norm\n got %v\nwant %v", i, e, out[2], want)
			}
		}
	})
	if curved < 250 {
		t.Errorf("only %d products are not zero", curved)
	}
}
