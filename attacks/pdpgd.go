package attacks

import (
	"context"
	"math"

	"selfheal/internal/vector"
)

// pdpgd is the primal-dual proximal gradient descent attack (Matyasko & Chau 2021, algorithm 1). It looks for a saddle
// point of λ₀·‖δ‖ + λ₁·softplus(z_y − max_{j≠y} z_j). Proximal Adam (Melchior et al. 2019) lowers it in δ. The
// logarithm of λ₁/λ₀ rises while the image is classified right and falls while it is not.
type pdpgd struct {
	descent
	PrimalRate, PrimalDecrease float64 // rate of Adam, and its exponential decrease
	DualRatio                  float64 // λ₀/λ₁ at the start
	DualRate, DualDecrease     float64 // rate of the dual variable, and its linear decrease
	DualAverage                float64 // weight of the old values in the exponential average of the multipliers
	ProximalSteps              int
}

const (
	leastDualRatio = 1e-6 // lower bound of λ₀/λ₁ and of λ₁/λ₀
	proximalEnd    = 1e-2 // relative change of δ at which proximal steps end
)

func (a pdpgd) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	r := newNearest(a.common, o, im, how)
	x0, n := im.Pixels, len(im.Pixels)
	delta := make([]float32, n)
	primal := newAdam(n)
	dual := -math.Log(a.DualRatio) // log λ₁/λ₀
	weight := logistic(dual)       // λ₁ of λ₀ + λ₁ = 1, averaged
	return r.descend(ctx, a.descent, delta, func(i int, wrong bool) {
		margin := -float64(r.eval.Loss)
		at := float64(i) / float64(a.Steps)
		rate := a.PrimalRate * math.Pow(a.PrimalDecrease, at)
		largest := float64(primal.step(delta, r.eval.Gradient, -logistic(margin), rate))
		a.proximal(x0, delta, primal.scale, largest, (1-weight)/weight*rate/largest)

		left := float64(a.Steps-1-i) / float64(a.Steps-1)
		step := a.DualRate * (left*(1-a.DualDecrease) + a.DualDecrease)
		switch {
		case margin > 0:
			dual += step
		case margin < 0:
			dual -= step
		}
		dual = min(max(dual, math.Log(leastDualRatio)), -math.Log(leastDualRatio))
		weight += (1 - a.DualAverage) * (logistic(dual) - weight)
	})
}

// proximal moves delta within [0,1] to the minimum of mu·‖δ‖ plus half its squared distance in Adam's metric.
func (a pdpgd) proximal(x0, delta, scale []float32, largest, mu float64) {
	w := borrow(len(delta))
	defer w.giveBack()
	from, now, next := w.v[0], w.v[1], w.v[2]
	insideBox(x0, delta)
	copy(from, delta)
	copy(now, delta)
	for range a.ProximalSteps {
		inverse := float32(1 / largest)
		for i := range next {
			next[i] = now[i] - scale[i]*inverse*(now[i]-from[i])
		}
		shrinkBy(a.Norm, next, mu)
		insideBox(x0, next)
		change := L2.Distance(next, now) / L2.Length(next)
		now, next = next, now
		if !(change >= proximalEnd) {
			break
		}
	}
	copy(delta, now)
}

// shrinkBy is the proximal operator of mu times a norm.
func shrinkBy(n Norm, v []float32, mu float64) {
	switch n {
	case L1:
		soften(v, mu)
	case L2:
		vector.Scaled(v, float32(max(1-mu/max(L2.Length(v), 1e-30), 0)), v)
	case Linf: // v less its projection onto the ℓ1 ball of radius mu
		shrinkInto(Linf, v, softThreshold(v, mu))
	}
}

// insideBox clips a perturbation so that x0 + delta lies in [0,1].
func insideBox(x0, delta []float32) {
	for i, v := range x0 {
		delta[i] = min(max(v+delta[i], 0), 1) - v
	}
}

func logistic(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
