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

// smooth returns a small network of tanh layers, so that differences converge, with a convolution in front and cuts
// after each layer, and embeddings of its states that are not projections.
func smooth(b *onnx.Builder) (at []string) {
	r := rand.New(rand.NewPCG(11, 12))
	draw := func(deviation float64, shape ...int64) string { return b.Const(weights(r, deviation, shape...)) }
	padded := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
	x := b.Input("x", onnx.Shape{onnx.Batch, 2, 4, 4})
	x = b.Op("Tanh", b.OpWith("Conv", padded, x, draw(0.5, 3, 2, 3, 3)))
	at = append(at, x)
	x = b.Op("Tanh", b.OpWith("Conv", padded, x, draw(0.4, 3, 3, 3, 3)))
	at = append(at, x)
	x = b.Op("Tanh", b.OpWith("Gemm", nil, b.OpWith("Flatten", onnx.Attrs{"axis": 1}, x), draw(0.3, 48, 8)))
	at = append(at, x)
	b.Output("logits", b.OpWith("Gemm", nil, x, draw(0.8, 8, 5)))
	return at
}

// bottleneck returns the embedding z + small·tanh(W z) of a state.
func bottleneck(t *testing.T, state onnx.Shape, seed uint64) *onnx.Graph {
	t.Helper()
	b := &onnx.Builder{G: onnx.NewGraph("bottleneck")}
	z := b.Input("z", state)
	n := state.Items()
	w := weights(rand.New(rand.NewPCG(seed, 13)), 1/math.Sqrt(float64(n)), n, n)
	flat := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, z)
	h := b.Op("Tanh", b.OpWith("Gemm", nil, flat, b.Const(w)))
	e := b.Op("Add", b.Op("Mul", flat, b.Float(0.6)), b.Op("Mul", h, b.Float(0.3)))
	b.Output("e", b.Reshape(e, state))
	return must.Get(b.Done())(t)
}

// projection returns a linear embedding of a state.
func projection(t *testing.T, state onnx.Shape, seed uint64) *onnx.Graph {
	t.Helper()
	return drawLinear(t, rand.New(rand.NewPCG(seed, 15)), state, int(state.Items()+1)/2, 0.25).g
}

type embedder func(t *testing.T, state onnx.Shape, seed uint64) *onnx.Graph

// defended opens the smooth network under a solver with auto-encoders at some stages.
func defended(t *testing.T, s Solver, places ...int) *Controller {
	t.Helper()
	return defendedBy(t, bottleneck, s, places...)
}

// defendedBy is [defended] with embeddings of a given kind.
func defendedBy(t *testing.T, embed embedder, s Solver, places ...int) *Controller {
	t.Helper()
	b := &onnx.Builder{G: onnx.NewGraph("smooth")}
	at := smooth(b)
	chain := must.Get(open(t, testPool(t, 4), encoded(t, b), NetworkOptions{At: at}).Cut())(t)
	var layers []Layer
	for _, p := range places {
		layers = append(layers, Layer{T: p, Embedding: embed(t, chain.StateShape(p), uint64(p))})
	}
	return loop(t, chain, s, layers...)
}

func whiteBox(t *testing.T, c *Controller, k Knowledge) *Defended {
	t.Helper()
	d := must.Get(c.WhiteBox(k))(t)
	t.Cleanup(d.Close)
	return d
}

func gradient(t *testing.T, o attacks.Oracle, x []float32, loss attacks.Loss, label,
	target int) (e attacks.Evaluation) {
	t.Helper()
	must.Do(t, o.Gradient(t.Context(), x, loss, label, target, &e))
	return e
}

var solvers = []Solver{
	{Method: Greedy, Regularization: 0.001},
	{Method: MSA, Outer: 3, Inner: 4, Regularization: 0.01, LearningRate: 0.05, Momentum: 0.5},
	{Method: PMP, Outer: 4, Regularization: 0.001, LearningRate: 0.1, Momentum: 0.5},
}

// The through-control gradient differentiates the whole controlled loss, solver included: it equals central
// differences along random directions.
func TestThroughAgreesWithDifferences(t *testing.T) {
	for _, places := range [][]int{{0}, {1}, {3}, {0, 3}, {0, 1, 2, 3}} {
		for _, s := range solvers {
			for name, embed := range map[string]embedder{"auto-encoders": bottleneck, "linear": projection} {
				d := whiteBox(t, defendedBy(t, embed, s, places...), Through)
				for seed := range uint64(3) {
					x, _ := randomImage(seed, d.Shape().Size())
					for _, loss := range []attacks.Loss{attacks.CrossEntropy, attacks.LogitDifference} {
						checkDirection(t, d, x, loss, seed, 2e-3, fmt.Sprintf("%v, %s at %v", s.Method, name, places))
					}
				}
			}
		}
	}
}

// checkDirection compares the gradient with a central difference of the loss at the
// oracle's own logits, in a random direction of length 1.
func checkDirection(t *testing.T, d *Defended, x []float32, loss attacks.Loss, seed uint64, bound float64,
	name string) {
	t.Helper()
	const label, target, h = 1, 3, 0.05
	e := gradient(t, d, x, loss, label, target)
	r := rand.New(rand.NewPCG(seed, 14))
	direction, length, slope, size := make([]float64, len(x)), 0.0, 0.0, 0.0
	for i := range direction {
		direction[i] = r.NormFloat64()
		length += direction[i] * direction[i]
	}
	value := func(step float64) float64 {
		y := make([]float32, len(x))
		for i := range y {
			y[i] = x[i] + float32(step*direction[i])
		}
		z := make([]float32, d.Classes())
		must.Do(t, d.Logits(t.Context(), y, z))
		return loss.Value(z, label, target)
	}
	for i := range direction {
		direction[i] /= math.Sqrt(length)
		slope += direction[i] * float64(e.Gradient[i])
		size += float64(e.Gradient[i]) * float64(e.Gradient[i])
	}
	// Richardson: the error of the differences is of order h⁴.
	difference := (8*(value(h)-value(-h)) - (value(2*h) - value(-2*h))) / (12 * h)
	if diff := math.Abs(difference - slope); !(diff <= bound*math.Sqrt(size)) || size == 0 {
		t.Errorf("%s, %v: slope %.6g by the gradient, %.6g by differences, |gradient| %.3g", name, loss, slope,
			difference, math.Sqrt(size))
	}
	if math.Abs(float64(e.Loss)-value(0)) > 1e-5 {
		t.Errorf("%s, %v: the loss is %v, at the logits it is %v", name, loss, e.Loss, value(0))
	}
}

// The detached gradient holds the controls: it equals differences of the undefended network at shifted states.
func TestDetachedHoldsTheControls(t *testing.T) {
	for _, s := range solvers {
		c := defended(t, s, 0, 2)
		detached, through := whiteBox(t, c, Detached), whiteBox(t, c, Through)
		x, _ := randomImage(3, detached.Shape().Size())
		e := gradient(t, detached, x, attacks.CrossEntropy, 1, 0)
		f := gradient(t, through, x, attacks.CrossEntropy, 1, 0)
		if math.Abs(float64(e.Loss-f.Loss)) > 1e-5 {
			t.Errorf("%v: the loss is %v detached and %v through", s.Method, e.Loss, f.Loss)
		}
		o := must.Get(c.Run(t.Context(), x))(t)
		held := func(state []float32) float64 {
			n := numbers{c, t.Context()}
			for i, u := range o.Controls {
				if u != nil {
					state = n.sum(term[[]float32]{1, state}, term[[]float32]{1, u})
				}
				state = must.Get(n.ask(segment, i, state, nil))(t)
			}
			return attacks.CrossEntropy.Value(state, 1, 0)
		}
		const h = 0.004
		apart := 0.0
		for i := 0; i < len(x); i += 5 {
			y := append([]float32(nil), x...)
			y[i] = x[i] + h
			up := held(y)
			y[i] = x[i] - h
			if got := (up - held(y)) / (2 * h); math.Abs(got-float64(e.Gradient[i])) > 1e-3 {
				t.Errorf("%v: pixel %d has slope %v by differences, %v by the gradient", s.Method, i, got,
					e.Gradient[i])
			}
			apart = math.Max(apart, math.Abs(float64(e.Gradient[i]-f.Gradient[i])))
		}
		if apart < 1e-3 {
			t.Errorf("%v: detached and through gradients are the same", s.Method)
		}
	}
}

// An oracle's logits equal the controller's, and its stated cost equals the passes it makes.
func TestDefendedCost(t *testing.T) {
	for _, s := range solvers {
		for _, k := range []Knowledge{Detached, Through} {
			c := defended(t, s, 0, 2)
			d := whiteBox(t, c, k)
			x, _ := randomImage(4, d.Shape().Size())
			o := must.Get(c.Run(t.Context(), x))(t)
			z := make([]float32, d.Classes())
			before := c.made()
			must.Do(t, d.Logits(t.Context(), x, z))
			asked := float64(c.made() - before)
			if !slices.Equal(z, o.Logits) {
				t.Errorf("%v: logits %v, the controller says %v", s.Method, z, o.Logits)
			}
			cost := must.Get(d.Cost())(t)
			loss, plain := must.Get(d.flops())(t), must.Get(c.net.flops())(t)
			before = c.made() - loss
			gradient(t, d, x, attacks.CrossEntropy, 1, 0)
			own := float64(c.made() - before)
			for _, b := range d.backwards {
				own += float64(b.passes.made())
			}
			unit := float64(c.net.FLOPs())
			if math.Abs(cost.Logits*unit-asked) > 1e-6*asked {
				t.Errorf("%v, %v: logits cost %v FLOPs, %v stated", s.Method, k, asked, cost.Logits*unit)
			}
			if stated := cost.Forward*unit + cost.Backward*(float64(plain)-unit); math.Abs(stated-own) > 1e-6*own {
				t.Errorf("%v, %v: %v FLOPs stated, %v made", s.Method, k, stated, own)
			}
		}
	}
}
