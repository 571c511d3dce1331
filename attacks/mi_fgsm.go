package attacks

import (
	"context"

	"selfheal/internal/vector"
)

// MIFGSM is the momentum iterative fast gradient sign method (Dong et al. 2018, algorithm 1):
// from the clean image it steps along a momentum g ← Decay·g + ∇/‖∇‖₁ (Eq. 6), by its sign in
// ℓ∞, g/‖g‖₂ in ℓ2 (Eq. 7), and in ℓ1, which the paper does not have, as PGD does along a
// gradient. It makes every step (but see StopAtSuccess) and returns its last misclassified
// iterate. Numbers left zero have the defaults of [Specs].
type MIFGSM struct {
	Norm     Norm
	Epsilon  float64 // radius in the norm, in pixel units of [0,1]
	Loss     Loss    // untargeted
	Steps    int
	Decay    float64 // μ: what is kept of the momentum from step to step
	StepSize float64 // length of a step in the norm
	// StopAtSuccess ends the attack at the first misclassified iterate. See [VerdictOnly].
	StopAtSuccess bool
}

func (a MIFGSM) verdictOnly() Attack {
	a.StopAtSuccess = true
	return a
}

func (a MIFGSM) withDefaults() MIFGSM { return withDefaults(a, miFGSMParameters) }

// Name returns "mi-fgsm".
func (MIFGSM) Name() string { return "mi-fgsm" }

// Check reports too few classes for the loss, and parameters outside their ranges.
func (a MIFGSM) Check(classes int, shape Shape) error {
	a = a.withDefaults()
	if err := checkCommon(a.Name(), a.Norm, a.Epsilon, a.Loss, classes, shape); err != nil {
		return err
	}
	return checkParameters(a, a.Norm, miFGSMParameters)
}

// Passes returns a gradient per step and a forward pass after the last one.
func (a MIFGSM) Passes(int) (forward, backward int) {
	steps := a.withDefaults().Steps
	return steps + 1, steps
}

// Perturb makes the steps; it draws no random numbers.
func (a MIFGSM) Perturb(ctx context.Context, o Oracle, im Image, _ uint64) (Result, error) {
	a = a.withDefaults()
	c := newClimb(PGD{Norm: a.Norm, Epsilon: a.Epsilon, Loss: a.Loss, Steps: a.Steps, StepSize: a.StepSize,
		StopAtSuccess: a.StopAtSuccess}, im)
	copy(c.cur, im.Pixels)
	momentum := make([]float32, len(im.Pixels))
	c.follow = func(gradient []float32) []float32 {
		vector.Scaled(momentum, float32(a.Decay), momentum)
		vector.AddScaled(momentum, gradient, float32(1/max(L1.Length(gradient), 1e-30)), momentum)
		return momentum
	}
	if err := c.run(ctx, o); err != nil {
		return Result{}, err
	}
	return c.result(), nil
}
