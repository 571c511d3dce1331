package attacks

import (
	"context"

	"selfheal/internal/vector"
)

// FGSM takes the one step from the clean image that a linear loss would want:
// ε·sign(g) in ℓ∞ (Goodfellow et al. 2015, section 4), ε·g/‖g‖₂ in ℓ2, and in
// ℓ1 the values of largest |g| are moved to their face of [0,1], one after
// another, until ε is spent. The result is clamped to [0,1].
type FGSM struct {
	Norm    Norm
	Epsilon float64 // radius in the norm, in pixel units of [0,1]
	Loss    Loss    // untargeted
}

// Name returns "fgsm".
func (FGSM) Name() string { return "fgsm" }

// Check reports too few classes for the loss, and a loss that needs a target.
func (a FGSM) Check(classes int, shape Shape) error {
	if err := checkCommon(a.Name(), a.Norm, a.Epsilon, a.Loss, classes, shape); err != nil {
		return err
	}
	return checkParameters(a, a.Norm, fgsmParameters)
}

// Passes returns one gradient and one forward pass to check its step.
func (FGSM) Passes(int) (forward, backward int) { return 2, 1 }

// Perturb makes the step; it draws no random numbers.
func (a FGSM) Perturb(ctx context.Context, o Oracle, im Image, _ uint64) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	res := newResult()
	var e Evaluation
	if err := gradient(ctx, o, im.Pixels, a.Loss, im.Label, -1, &e); err != nil {
		return Result{}, err
	}
	adv := make([]float32, len(im.Pixels))
	switch a.Norm {
	case Linf:
		lo, hi := make([]float32, len(adv)), make([]float32, len(adv))
		box(im.Pixels, a.Epsilon, lo, hi)
		for i, g := range e.Gradient {
			switch {
			case g > 0:
				adv[i] = hi[i]
			case g < 0:
				adv[i] = lo[i]
			default:
				adv[i] = im.Pixels[i]
			}
		}
	case L2:
		vector.AddScaledClamped(im.Pixels, e.Gradient, float32(a.Epsilon/(L2.Length(e.Gradient)+1e-12)), adv)
	default:
		spend(im.Pixels, e.Gradient, adv, a.Epsilon)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if err := o.Logits(ctx, adv, e.Logits); err != nil {
		return Result{}, err
	}
	res.Forward, res.Backward, res.Iterations = 2, 1, 1
	if !Right(e.Logits, im.Label) {
		confine(a.Norm, im.Pixels, adv, a.Epsilon)
		res.Adversarial = adv
		res.succeed(res.now())
	}
	return res, nil
}

// spend writes the point of the ℓ1 ball ∩ [0,1] furthest along g.
func spend(x, g, out []float32, eps float64) {
	var f filler
	f.measure(x, g, -1, 0)
	f.fill(vector.Uniform, eps, out)
	vector.AddScaledClamped(x, out, 1, out)
}
