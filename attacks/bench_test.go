package attacks_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/attacks"
)

// BenchmarkStep measures what an attack itself spends on an iteration (a query of
// Square) at 3×32×32: the model costs nothing and is never fooled. A pass of a
// small ResNet takes about a millisecond.
//
//	go test ./attacks -run '^$' -bench Step
func BenchmarkStep(b *testing.B) {
	for _, n := range attacks.Norms() {
		eps := []float64{8. / 255, 0.5, 12}[n]
		for _, a := range []attacks.Attack{
			attacks.APGD{Norm: n, Epsilon: eps},
			attacks.APGD{Norm: n, Epsilon: eps, EOT: 5},
			attacks.FAB{Norm: n, Epsilon: eps, Targeted: true, Targets: 1},
			attacks.Square{Norm: n, Epsilon: eps},
			attacks.PGD{Norm: n, Epsilon: eps, Steps: 100},
			attacks.FGSM{Norm: n, Epsilon: eps},
			attacks.Bisection{Norm: n, Epsilon: eps},
		} {
			name := a.Name()
			if apgd, ok := a.(attacks.APGD); ok && apgd.EOT > 1 {
				name += "-eot"
			}
			b.Run(name+"/"+n.String(), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 1))
				o := &flat{shape: attacks.Shape{C: 3, H: 32, W: 32}}
				im := attacks.Image{Pixels: make([]float32, o.shape.Size())}
				for i := range im.Pixels { // the values of a picture: many at 0 and 1
					im.Pixels[i] = float32(math.Round(255*min(max(0.5+0.4*rng.NormFloat64(), 0), 1)) / 255)
				}
				steps := 0
				b.ReportAllocs()
				for b.Loop() {
					res, err := a.Perturb(b.Context(), o, im, attacks.Options{Seed: 1})
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
