package attacks

import "context"

// sigmaZero is σ-zero (Cinà et al. 2024, algorithm 1), which minimises the number of changed values. Adam lowers
// max(z_y − max_{j≠y} z_j, 0) + 1/d·Σ δᵢ²/(δᵢ² + σ) by gradients scaled to a largest value of 1. The second term is a
// smooth count of the changed values, of d in all. After each step values below a threshold τ become 0. τ rises by
// ThresholdFactor times the step if the point was misclassified and falls by as much if not.
type sigmaZero struct {
	descent
	Rate            float64 // η₀ of Adam, falling by a cosine to a tenth
	Sigma           float64 // σ: a smaller one makes the count sharper
	Threshold       float64 // τ₀
	ThresholdFactor float64 // how far τ moves, as a fraction of the step
}

func (a sigmaZero) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	r := newNearest(a.common, o, im, how)
	x0, n := im.Pixels, len(im.Pixels)
	delta, descent := make([]float32, n), newAdam(n)
	rate, threshold, sigma := a.Rate, a.Threshold, float32(a.Sigma)
	return r.descend(ctx, a.descent, delta, func(i int, wrong bool) {
		g := r.eval.Gradient // of max_{j≠y} z_j − z_y
		if wrong {
			clear(g)
		}
		for k, d := range delta { // d/dδ of the smooth count is 2δσ/(δ²+σ)²
			soft := d*d + sigma
			g[k] = -g[k] + 2*d*sigma/(soft*soft*float32(n))
		}
		descent.step(delta, g, 1/max(Linf.Length(g), 1e-12), rate)
		insideBox(x0, delta)

		rate = cosine(a.Rate, a.Rate/10, i, a.Steps)
		if wrong {
			threshold += a.ThresholdFactor * rate
		} else {
			threshold -= a.ThresholdFactor * rate
		}
		threshold = min(max(threshold, 0), 1)
		least := float32(threshold)
		for k, d := range delta {
			if abs32(d) < least {
				delta[k] = 0
			}
		}
	})
}
