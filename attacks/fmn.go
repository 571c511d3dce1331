package attacks

import (
	"context"
	"math"

	"selfheal/internal/vector"
)

// fmn is the Fast Minimum-Norm attack (Pintor et al. 2021, algorithm 1). It makes steps of length StepSize along the
// gradient of the margin. After each it projects onto a ball around the clean image, whose radius shrinks by Gamma if
// the point was misclassified and grows if not. Before the first misclassified point the radius is the distance at
// which the linearised margin is 0, times 1 + GammaFinal. The authors' program lacks that factor: where a network is
// nearly linear, points would end on the boundary and never cross it. StepSize and Gamma fall by a cosine, to
// StepSize/100 and GammaFinal.
//
// In ℓ0 the radius counts values, begins at 1 and changes by at least one.
type fmn struct {
	descent
	StepSize          float64 // α₀, in ℓ2
	Gamma, GammaFinal float64 // γ₀ and γ_K
}

func (a fmn) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	r := newNearest(a.common, o, im, how)
	delta, most := make([]float32, len(im.Pixels)), reachOf(a.Norm, im.Pixels)
	radius, nearest := math.Inf(1), most // radius of the ball; distance of the nearest misclassified point
	if a.Norm == L0 {
		radius = 1
	}
	return r.descend(ctx, a.descent, delta, func(i int, wrong bool) {
		nearest = min(nearest, r.distance)
		g := r.eval.Gradient
		gamma := cosine(a.Gamma, a.GammaFinal, i, a.Steps)
		switch {
		case a.Norm == L0 && wrong: // a whole number, so one less at least
			radius = min(math.Floor(radius*(1-gamma)), nearest)
		case a.Norm == L0:
			radius = max(radius+1, math.Floor(radius*(1+gamma)))
		case wrong:
			radius = min(radius*(1-gamma), nearest)
		case r.adv != nil:
			radius *= 1 + gamma
		default:
			away := math.Abs(float64(r.eval.Loss)) / max(a.Norm.Dual().Length(g), 1e-12)
			radius = (a.Norm.Length(delta) + away) * (1 + a.GammaFinal)
		}
		radius = min(radius, most)
		length := cosine(a.StepSize, a.StepSize/100, i, a.Steps)
		vector.AddScaled(delta, g, float32(length/max(L2.Length(g), 1e-12)), delta)
		shrinkInto(a.Norm, delta, radius)
	})
}

// shrinkInto projects a perturbation onto the ball of a radius. In ℓ0 the largest values stay; among equals, the first.
func shrinkInto(n Norm, delta []float32, radius float64) {
	switch n {
	case Linf:
		most := float32(radius)
		for i, v := range delta {
			delta[i] = min(max(v, -most), most)
		}
	case L2:
		if length := L2.Length(delta); length > radius {
			vector.Scaled(delta, float32(radius/length), delta)
		}
	case L1:
		if by := softThreshold(delta, radius); by > 0 {
			soften(delta, by)
		}
	case L0:
		keepLargest(delta, int(radius))
	}
}

// softThreshold returns the least t ≥ 0 for which Σ max(|vᵢ| − t, 0) is at most radius: the shrinkage of the projection
// onto the ℓ1 ball. Newton's method finds it; each step leaves out the values that t has passed.
func softThreshold(v []float32, radius float64) float64 {
	t := 0.0
	for {
		sum, n := 0.0, 0
		for _, x := range v {
			if a := math.Abs(float64(x)); a > t {
				sum += a
				n++
			}
		}
		next := (sum - radius) / float64(max(n, 1))
		if n == 0 || !(next > t*(1+1e-12)) {
			return t
		}
		t = next
	}
}

// soften moves every value by at most by towards 0.
func soften(v []float32, by float64) {
	for i, x := range v {
		v[i] = float32(math.Copysign(max(math.Abs(float64(x))-by, 0), float64(x)))
	}
}

// keepLargest sets all but the k values of largest size to 0; among equals the first stay.
func keepLargest(v []float32, k int) {
	if k >= len(v) {
		return
	}
	if k <= 0 {
		clear(v)
		return
	}
	least := vector.Smallest(v, len(v)-k) // the k-th largest
	equal := k
	for _, x := range v {
		if abs32(x) > least {
			equal--
		}
	}
	for i, x := range v {
		switch a := abs32(x); {
		case a < least:
			v[i] = 0
		case a == least:
			if equal--; equal < 0 {
				v[i] = 0
			}
		}
	}
}

func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
