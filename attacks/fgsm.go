package attacks

import (
	"context"

	"selfheal/internal/vector"
)

// fgsm takes one step from the clean image, the best one for a linear loss: ε·sign(g) in ℓ∞ (Goodfellow et al. 2015,
// section 4) and ε·g/‖g‖₂ in ℓ2. In ℓ1 it moves the values of largest |g| to their face of [0,1], one after another,
// until ε is spent. The result is clamped to [0,1].
type fgsm struct{ common }

// Passes returns one gradient and one forward pass that checks the step.
func (fgsm) Passes(int) (forward, backward int) { return 2, 1 }

func (a fgsm) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	c := newClimb(pgd{common: a.common, Steps: 1}, o, im, how)
	c.step = func(g []float32, _ float64) {
		switch x := im.Pixels; a.Norm {
		case Linf:
			c.Follow(g, 2*a.Epsilon) // to the ends of the box, without the rounding of a sum
		case L2:
			vector.AddScaledClamped(x, g, float32(a.Epsilon/(L2.Length(g)+1e-12)), c.cur)
		default: // the point of the ℓ1 ball ∩ [0,1] farthest along g
			space := borrow(len(x))
			defer space.giveBack()
			f := newFiller(space)
			f.measure(x, g, -1, 0)
			f.fill(vector.Uniform, a.Epsilon, c.cur)
			vector.AddScaledClamped(x, c.cur, 1, c.cur)
		}
	}
	err := c.run(ctx)
	return c.claim(c.adv, a.Norm, a.Epsilon), err
}
