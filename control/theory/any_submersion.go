package theory

import (
	"math"
	"math/rand/v2"
)

// AnySubmersion tests the constant k = 4σ‖(f'f'ᵀ)⁻¹‖(‖f'‖ + 2σ) of Theorem 2 for submersions whose f' is not
// orthonormal.
type AnySubmersion struct {
	Points []MixedPoint `json:"points"`
}

// MixedPoint is one submersion S·f under one c.
type MixedPoint struct {
	Largest  float64 `json:"largest"` // singular values of f' at the base point
	Smallest float64 `json:"smallest"`
	Sigma    float64 `json:"sigma"`
	C        float64 `json:"c"`
	K        float64 `json:"k"`
	Measured float64 `json:"measured"` // largest ‖u^M − u^P‖/ε² over directions
}

// anySubmersion measures ‖u^M − u^P‖/ε² over random directions, for small ε.
func anySubmersion(into *Result, o Options, rng *rand.Rand) []Check {
	const d, r, epsilon = 5, 2, 1e-4
	a := &AnySubmersion{}
	into.AnySubmersion = a
	worst, normal := 0.0, 0.0
	for range o.pick(12, 4) {
		tangent, across := frame(gaussian(rng, d, r))
		forms := randomForms(rng, r, d-r, 0.5)
		for _, spread := range []float64{1, 3, 10} {
			values := identity(d - r)
			for i := range d - r {
				values.Set(i, i, math.Pow(spread, float64(i)/float64(d-r-1)-0.5))
			}
			mix := product(orthogonal(rng, d-r), product(values, orthogonal(rng, d-r)))
			f := &submersion{base: make([]float64, d), tangent: tangent, normal: across, forms: forms, mix: mix}
			f.sigma, _ = f.steepest()
			plain := newSubmersion(f.base, tangent, across, forms)
			for _, c := range []float64{0.001, 0.1, 1} {
				of := singular(mix)
				p := MixedPoint{Largest: of[0], Smallest: of[d-r-1], Sigma: f.sigma, C: c, K: f.k()}
				for range 50 {
					x := scale(epsilon, unit(rng, d))
					p.Measured = max(p.Measured, norm(minus(f.control(x, c), f.linearControl(x, c)))/(epsilon*epsilon))
					if spread == 1 { // an orthogonal S changes neither control
						normal = max(normal, norm(minus(f.control(x, c), plain.control(x, c)))/epsilon)
					}
				}
				worst = max(worst, p.Measured/(o.factor("general constant")*p.K))
				a.Points = append(a.Points, p)
			}
		}
	}
	return []Check{
		atMost("error constant", "‖u^M − u^P‖/ε² ≤ k = 4σ‖(f'f'ᵀ)⁻¹‖(‖f'‖ + 2σ) for any f': largest ratio",
			worst, 1, 0).within(40),
		atMost("orthogonal mixtures", "S·f with an orthogonal S has the controls of f: largest difference, by ε",
			normal/o.factor("mixture"), 0, 1e-9),
	}
}
