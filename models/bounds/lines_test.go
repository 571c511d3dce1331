package bounds

import (
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// activationNodes are the activations' networks.
var activationNodes = map[string]string{
	"Relu": "Relu x → y", "LeakyRelu": "LeakyRelu x → y alpha=0.2", "Sigmoid": "Sigmoid x → y",
	"Tanh": "Tanh x → y",
	"Clip": "lo=-1.0; hi=2.0; Clip x lo hi → y", "HardSigmoid": "HardSigmoid x → y alpha=0.3 beta=-0.7",
	"Elu": "Elu x → y alpha=0.8", "Softplus": "Softplus x → y",
}

// eachActivation calls a function for every activation, with a network of it alone.
func eachActivation(t *testing.T, f func(t *testing.T, a activation, run func(x []float32) []float32)) {
	testinput.Runtime(t)
	for op := range activations {
		t.Run(op, func(t *testing.T) {
			g := onnxtest.Open(t, onnxtest.New(17, -1, 1).Node(activationNodes[op]).Bytes(-1, 1))
			s := must.Get(ort.Open(op, must.Get(g.Encode())(t)))(t)
			defer s.Close()
			a, ok := activations[op](g, g.Nodes[len(g.Nodes)-1])
			if !ok {
				t.Fatal("has no bounds")
			}
			f(t, a, func(x []float32) []float32 {
				return must.Get(s.Run([]ort.Tensor{{Shape: []int64{int64(len(x)), 1}, Data: x}}))(t)[0].Data
			})
		})
	}
}

// ONNX Runtime's values differ from the functions' by what is reckoned with.
func TestActivationsAreRounded(t *testing.T) {
	eachActivation(t, func(t *testing.T, a activation, run func(x []float32) []float32) {
		rng := rand.New(rand.NewPCG(7, 8))
		x := make([]float32, 1_000_000)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Exp(6*rng.Float64()-3))
		}
		worst := 0.0
		for i, y := range run(x) {
			want := a.f(float64(x[i]))
			off := math.Abs(float64(y) - want)
			worst = max(worst, off)
			if off > a.error+4*Unit*math.Abs(want) {
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
			if lower.a < 0 || upper.a < 0 {
				t.Fatalf("[%g, %g]: slopes %g, %g", l, u, lower.a, upper.a)
			}
			for k := range 101 {
				x := l + (u-l)*float64(k)/100
				if y := a.f(x); lower.at(x) > y+1e-12*(1+math.Abs(y)) || upper.at(x) < y-1e-12*(1+math.Abs(y)) {
					t.Fatalf("[%g, %g] at %g: %g is not in [%g, %g]", l, u, x, y, lower.at(x), upper.at(x))
				}
			}
		}
	})
}
