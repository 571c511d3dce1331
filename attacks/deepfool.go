package attacks

import (
	"context"
	"math"

	"selfheal/internal/vector"
)

// deepFool looks for the nearest misclassified point (Moosavi-Dezfooli, Fawzi & Frossard 2016, algorithm 2). Each step
// goes onto the nearest linearised decision boundary, at distance |f|/‖w‖_dual, by |f|/‖w‖₂²·w in ℓ2 and
// |f|/‖w‖₁·sign(w) in ℓ∞. The next point is the sum of the steps, stretched by 1 + Overshoot and clamped to [0,1]. The
// first misclassified point is the result; it is a success if it lies within Epsilon. As in the authors' code a step is
// 1e-4 longer than the formula's, or points near a boundary would not cross it.
type deepFool struct {
	common
	Steps     int
	Overshoot float64 // η of section 3.2
}

// Passes returns a gradient for each step and rival class, and a forward pass after the last step.
func (a deepFool) Passes(classes int) (forward, backward int) {
	backward = a.Steps * (classes - 1)
	return backward + 1, backward
}

func (a deepFool) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	r := newBoundaryWalk(fab{common: a.common}, o, im, how)
	sum := make([]float32, len(im.Pixels))
	wrong, err := false, error(nil)
	for range a.Steps {
		if wrong, err = r.linearize(ctx, true); wrong || err != nil {
			break
		}
		size := r.Norm.Dual().Length(r.w) + 1e-8
		length := math.Abs(r.f)/size + 1e-4
		if r.Norm == Linf {
			for i, w := range r.w {
				sum[i] += along(w, float32(length))
			}
		} else {
			vector.AddScaled(sum, r.w, float32(length/size), sum)
		}
		vector.AddScaledClamped(im.Pixels, sum, float32(1+a.Overshoot), r.x1)
		r.res.Iterations++
	}
	if !wrong && err == nil {
		wrong, err = r.wrong(ctx, r.x1)
	}
	r.meet(r.x1, wrong)
	return r.result(), err
}
