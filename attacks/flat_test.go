package attacks

import (
	"context"
	"math"
	"math/rand/v2"
)

// flat is a two-class model that costs nothing and is never fooled; every other query improves on the one before.
type flat struct {
	shape Shape
	calls int
	grad  []float32
}

func (f *flat) Shape() Shape { return f.shape }
func (f *flat) Classes() int { return 2 }

func (f *flat) Logits(_ context.Context, _, out []float32) error {
	f.calls++
	out[0], out[1] = 10, 0
	if f.calls%4 == 0 {
		out[0] = 1 + 9/(1+float32(f.calls)*1e-5)
	}
	return nil
}

func (f *flat) Gradient(_ context.Context, x []float32, _ Loss, _, _ int, e *Evaluation) error {
	f.calls++
	if f.grad == nil {
		f.grad = make([]float32, len(x))
		rng := rand.New(rand.NewPCG(2, 1))
		for i := range f.grad {
			f.grad[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()))
		}
		e.Gradient = make([]float32, len(x))
	}
	e.Logits, e.Loss = []float32{10, 0}, float32(f.calls%3)
	if len(e.Gradient) != len(x) {
		e.Gradient = make([]float32, len(x))
	}
	copy(e.Gradient, f.grad)
	return nil
}
