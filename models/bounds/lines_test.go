package bounds

import (
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

// activationNodes are the activations' networks.
var activationNodes = map[string]string{
	"Relu": "Relu x → y", "LeakyRelu": "LeakyRelu x → y alpha=0.2", "Sigmoid": "Sigmoid x → y",
	"Tanh": "Tanh x → y",
	"Clip": "lo=-1.0; hi=2.0; Clip x lo hi → y", "HardSigmoid": "HardSigmoid x → y alpha=0.3 beta=-0.7",
	"Elu": "Elu x → y alpha=0.8", "Softplus": "Softplus x → y", "Exp": "Exp x → y", "Erf": "Erf x → y",
	"HardSwish": "HardSwish x → y", "Gelu": "Gelu x → y",
}

// gateNodes are the networks of the functions x·gate(x).
var gateNodes = map[string]string{
	"Sigmoid": "Sigmoid x → s; Mul x s → y", "HardSigmoid": "HardSigmoid x → s alpha=0.3 beta=0.6; Mul s x → y",
}

// eachActivation calls a function for every activation, with a network of it alone.
func eachActivation(t *testing.T, f func(t *testing.T, a activation, run func(x []float32) []float32)) {
	testinput.Runtime(t)
	try := func(name, nodes string, of func(g *onnx.Graph, n *onnx.Node) (activation, bool)) {
		t.Run(name, func(t *testing.T) {
			g := onnxtest.Open(t, onnxtest.New(20, -1, 1).Node(nodes).Bytes(-1, 1))
			run := asked(t, g)
			a, ok := of(g, g.Nodes[len(g.Nodes)-1])
			if !ok {
				t.Fatal("has no bounds")
			}
			f(t, a, func(x []float32) []float32 { return run(x)[0].Data })
		})
	}
	for op, of := range activations {
		try(op, activationNodes[op], of)
	}
	try("Gelu by tanh", "Gelu x → y approximate=tanh", activations["Gelu"])
	for op := range gates {
		try("gate "+op, gateNodes[op], func(g *onnx.Graph, n *onnx.Node) (activation, bool) {
			_, a, ok := gated(g, n)
			return a, ok
		})
	}
}

// ONNX Runtime's values differ from the functions' by at most the stated error.
func TestActivationsAreRounded(t *testing.T) {
	eachActivation(t, func(t *testing.T, a activation, run func(x []float32) []float32) {
		rng := rand.New(rand.NewPCG(7, 8))
		x := make([]float32, 300_000)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Exp(6*rng.Float64()-3))
		}
		worst := 0.0
		for i, y := range run(x) {
			want := a.f(float64(x[i]))
			off := math.Abs(float64(y) - want)
			worst = max(worst, off)
			if off > a.error+a.perInput*math.Abs(float64(x[i]))+4*Unit*math.Abs(want) {
				t.Fatalf("%g is mapped to %g, not %g", x[i], y, want)
			}
		}
		t.Logf("off by at most %.2g, reckoned with %.2g", worst, a.error)
	})
}

// Between its ends a function lies between its lines.
func TestLines(t *testing.T) {
	eachActivation(t, func(t *testing.T, a activation, _ func(x []float32) []float32) {
		rng := rand.New(rand.NewPCG(9, 10))
		for range 3000 {
			scale := math.Exp(6*rng.Float64() - 4)
			l := scale * rng.NormFloat64()
			u := l + scale*rng.ExpFloat64()
			if !a.bends(l, u) {
				continue
			}
			lower, upper := a.lines(l, u)
			low, high := a.f(l), a.f(u)
			if a.span != nil {
				low, high = a.span(l, u)
			}
			for k := range 101 {
				x := l + (u-l)*float64(k)/100
				tiny := 1e-12 * (1 + max(math.Abs(a.f(l)), math.Abs(a.f(u))))
				if y := a.f(x); lower.at(x) > y+tiny || upper.at(x) < y-tiny {
					t.Fatalf("[%g, %g] at %g: %g is not in [%g, %g]", l, u, x, y, lower.at(x), upper.at(x))
				} else if y < low-tiny || y > high+tiny {
					t.Fatalf("[%g, %g] at %g: %g is not from %g to %g", l, u, x, y, low, high)
				}
			}
		}
	})
}
