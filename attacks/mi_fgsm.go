package attacks

import (
	"cmp"
	"context"

	"selfheal/internal/vector"
)

// miFGSM is the momentum iterative fast gradient sign method (Dong et al. 2018, algorithm 1). From the clean image it
// steps along a momentum g ← Decay·g + ∇/‖∇‖₁ (Eq. 6): by its sign in ℓ∞, by g/‖g‖₂ in ℓ2 (Eq. 7), and in ℓ1, which the
// paper lacks, as PGD steps along a gradient. It makes every step (but see [Options]) and returns its last
// misclassified iterate.
type miFGSM struct {
	common
	Steps    int
	Decay    float64 // μ: the factor of the old momentum at each step
	StepSize float64 // length of a step in the norm
}

// Passes returns a gradient per step and a forward pass after the last one.
func (a miFGSM) Passes(int) (forward, backward int) {
	return a.Steps + 1, a.Steps
}

func (a miFGSM) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	length := cmp.Or(a.StepSize, a.Epsilon/float64(a.Steps))
	c := newClimb(pgd{common: a.common, Steps: a.Steps, StepSize: length}, o, im, how)
	momentum := make([]float32, len(im.Pixels))
	c.step = func(gradient []float32, length float64) {
		vector.Scaled(momentum, float32(a.Decay), momentum)
		vector.AddScaled(momentum, gradient, float32(1/max(L1.Length(gradient), 1e-30)), momentum)
		c.Follow(momentum, length)
	}
	err := c.run(ctx)
	return c.claim(c.adv, a.Norm, a.Epsilon), err
}
