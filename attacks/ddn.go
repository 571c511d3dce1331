package attacks

import (
	"context"

	"selfheal/internal/vector"
)

// ddn is the Decoupled Direction and Norm attack (Rony et al. 2019, algorithm 1). It steps along the normalised
// gradient of the cross-entropy. After each step the perturbation is scaled to a norm that shrinks by Gamma if the
// point was misclassified and grows by Gamma if not. The first norm is InitNorm, and steps shrink from 1 to 0.01.
//
// The paper rounds every point to the 256 levels of stored images; here Setup.Pixels decides that. If the gradient
// vanishes, the step is random.
type ddn struct {
	descent
	Gamma    float64
	InitNorm float64
}

func (a ddn) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	r := newNearest(a.common, o, im, how)
	rng := generator(how.Seed, a.name, 0, 0, im.ID)
	delta, norm, most := make([]float32, len(im.Pixels)), a.InitNorm, reachOf(L2, im.Pixels)
	return r.descend(ctx, a.descent, delta, func(i int, wrong bool) {
		g := r.eval.Gradient
		length := L2.Length(g)
		if length < 1e-12 {
			direction(L2, rng, g)
			length = 1
		}
		vector.AddScaled(delta, g, float32(cosine(1, 0.01, i, a.Steps)/length), delta)
		if wrong {
			norm *= 1 - a.Gamma
		} else {
			norm = min(norm*(1+a.Gamma), most)
		}
		vector.Scaled(delta, float32(norm/max(L2.Length(delta), 1e-12)), delta)
	})
}

// reachOf returns the norm of the perturbation that takes every value to the farther end of [0,1].
func reachOf(n Norm, x []float32) float64 {
	far := make([]float32, len(x))
	for i, v := range x {
		far[i] = max(v, 1-v)
	}
	return n.Length(far)
}
