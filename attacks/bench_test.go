package attacks

import (
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkStep measures what an attack itself spends on an iteration (a query of Square) at 3×32×32: the model costs
// nothing and is never fooled. A pass of a small ResNet takes about a millisecond.
//
//	go test ./attacks -run '^$' -bench Step
func BenchmarkStep(b *testing.B) {
	for _, n := range classic {
		eps := []float64{8. / 255, 0.5, 12}[n]
		for _, a := range []Attack{
			component("apgd-ce", n, eps, nil),
			component("apgd-ce", n, eps, given{"eot_iter": 5}),
			component("fab-t", n, eps, given{"targets": 1}),
			component("square", n, eps, nil),
			component("pgd", n, eps, given{"steps": 100}),
			component("fgsm", n, eps, nil),
			component("bisection", n, eps, nil),
		} {
			name := a.Name()
			if apgd, ok := a.(apgd); ok && apgd.EOTIter > 1 {
				name += "-eot"
			}
			b.Run(name+"/"+n.String(), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 1))
				shape := Shape{C: 3, H: 32, W: 32}
				im, gradient := Image{Pixels: make([]float32, shape.Size())}, make([]float32, shape.Size())
				for i := range im.Pixels { // the values of a picture: many at 0 and 1
					im.Pixels[i] = float32(math.Round(255*min(max(0.5+0.4*rng.NormFloat64(), 0), 1)) / 255)
					gradient[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()))
				}
				o := &scripted{shape: shape, logits: []float32{10, 0}, answer: func(call int, e *Evaluation) {
					copy(e.Gradient, gradient)
					e.Loss = float32(call % 3)
				}}
				steps := 0
				b.ReportAllocs()
				for b.Loop() {
					res, err := a.Perturb(b.Context(), o, im, Options{Seed: 1})
					if err != nil {
						b.Fatal(err)
					}
					steps += res.Iterations
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
			})
		}
	}
}
