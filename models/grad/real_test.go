package grad

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// cifar is roughly the normalisation of CIFAR-10.
var cifar = simplify.Options{Mean: []float32{0.49, 0.48, 0.45}, Std: []float32{0.25}}

func compile(t testing.TB, pool *ort.Pool, g *onnx.Graph) *ort.Program {
	t.Helper()
	return must.Get(pool.Compile(g.Name, must.Get(g.Encode())(t)))(t)
}

// The gradients of every loss on two real networks agree with central differences.
func TestLossGradientsOnRealNetworks(t *testing.T) {
	testinput.Runtime(t)
	pool := ort.NewPool(1, 4)
	defer pool.Close()
	for _, m := range []string{"resnet_2b.onnx", "rn18w16_standard.onnx"} {
		net, _ := must.Get2(simplify.Load(testinput.Real(t, m), cifar))(t)
		for h := range Heads {
			p := compile(t, pool, must.Get(Loss(net, h))(t))
			r := rand.New(rand.NewPCG(1, 2))
			x, d := make([]float32, 3072), make([]float32, 3072)
			for i := range x {
				x[i], d[i] = r.Float32(), float32(r.NormFloat64())
			}
			label, target := make([]float32, 10), make([]float32, 10)
			label[3], target[5] = 1, 1
			in := [][]float32{x, label}
			if Heads[h].Targeted {
				in = append(in, target)
			}
			eval := func(step float32) (float64, []float32) {
				at := make([]float32, len(x))
				for i := range x {
					at[i] = x[i] + step*d[i]
				}
				in[0] = at
				z, loss, g := make([]float32, 10), make([]float32, 1), make([]float32, 3072)
				must.Do(t, pool.Run(context.Background(), p, in, [][]float32{z, loss, g}))
				return float64(loss[0]), g
			}
			_, g := eval(0)
			// Along the gradient, with some noise: a random direction in 3072
			// dimensions changes the loss by little more than its rounding.
			norm, want := 0.0, 0.0
			for _, v := range g {
				norm += float64(v) * float64(v)
			}
			for i := range d {
				d[i] = g[i]/float32(math.Sqrt(norm)) + 0.3*d[i]/float32(math.Sqrt(3072))
			}
			for i := range g {
				want += float64(g[i]) * float64(d[i])
			}
			const step = 2e-3
			up, _ := eval(step)
			down, _ := eval(-step)
			got := (up - down) / (2 * step)
			if math.Abs(got-want) > 0.03*(math.Abs(want)+0.1) {
				t.Errorf("%s %s: difference quotient %g, gradient %g", m, h, got, want)
			}
		}
	}
}
