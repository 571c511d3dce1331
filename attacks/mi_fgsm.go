package attacks

import (
	"context"

	"selfheal/internal/vector"
)

// MIFGSM is the momentum iterative fast gradient sign method (Dong et al. 2018, algorithm 1):
// from the clean image it steps along a momentum g ← Decay·g + ∇/‖∇‖₁ (Eq. 6), by its sign in
// ℓ∞, g/‖g‖₂ in ℓ2 (Eq. 7), and in ℓ1, which the paper does not have, as PGD does along a
// gradient. It makes every step (but see [Options]) and returns its last misclassified
// iterate. Numbers left zero have the defaults of [Specs].
type MIFGSM struct {
	Norm     Norm
	Epsilon  float64 // radius in the norm, in pixel units of [0,1]
	Loss     Loss    // untargeted
	Steps    int
	Decay    float64 // μ: what is kept of the momentum from step to step
	StepSize float64 // length of a step in the norm
}

// Name returns "mi-fgsm".
func (MIFGSM) Name() string { return "mi-fgsm" }

// Check reports too few classes for the loss, and parameters outside their ranges.
func (a MIFGSM) Check(classes int, shape Shape) error {
	return check(a, a.Norm, a.Epsilon, a.Loss, classes, shape, miFGSMParameters)
}

// Passes returns a gradient per step and a forward pass after the last one.
func (a MIFGSM) Passes(int) (forward, backward int) {
	steps := withDefaults(a, miFGSMParameters).Steps
	return steps + 1, steps
}

// Perturb makes the steps; it draws no random numbers.
func (a MIFGSM) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	a = withDefaults(a, miFGSMParameters)
	c := newClimb(PGD{Norm: a.Norm, Epsilon: a.Epsilon, Loss: a.Loss, Steps: a.Steps, StepSize: a.StepSize}, o, im, how)
	momentum := make([]float32, len(im.Pixels))
	c.step = func(gradient []float32, length float64) {
		vector.Scaled(momentum, float32(a.Decay), momentum)
		vector.AddScaled(momentum, gradient, float32(1/max(L1.Length(gradient), 1e-30)), momentum)
		c.follow(momentum, length)
	}
	err := c.run(ctx)
	return c.claim(c.adv, a.Norm, a.Epsilon), err
}
