package theory

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// GlobalControl compares greedy control of linear networks with the controls that minimise the whole objective
// Σ_t ½‖Q_t(x_t + u_t)‖² + (c/2)‖u_t‖². The remark after Theorem 1 says that these, by a Riccati equation, may reach a
// lower objective for c ≠ 0.
type GlobalControl struct {
	Dimension int           `json:"dimension"` // d
	Rank      int           `json:"rank"`      // r
	Depth     int           `json:"depth"`     // T
	Points    []GlobalPoint `json:"points"`
}

// GlobalPoint is one system under one c, with a random perturbation of length 1.
type GlobalPoint struct {
	Layers  string  `json:"layers"`
	C       float64 `json:"c"`
	Greedy  float64 `json:"greedy"`  // the objective under greedy control
	Optimal float64 `json:"optimal"` // the least one
	// Errors are ‖q̄_T − x_T‖ under both.
	GreedyError  float64 `json:"greedy_error"`
	OptimalError float64 `json:"optimal_error"`
}

// globalControl computes the least objective by the recursion and, for all controls at once, by least squares.
func globalControl(into *Result, o Options, rng *rand.Rand) []Check {
	const d, r, depth = 8, 3, 5
	g := &GlobalControl{Dimension: d, Rank: r, Depth: depth}
	into.GlobalControl = g
	var apart, above, vanishing float64
	best := math.Inf(1)
	for range o.pick(20, 4) {
		for _, kind := range layerKinds {
			layers := make([]*mat.Dense, depth)
			for t := range layers {
				layers[t] = kind.draw(rng, d)
			}
			s, z := newLinearSystem(layers, orthonormal(gaussian(rng, d, r))), unit(rng, d)
			for _, c := range []float64{1e-9, 0.001, 0.1, 1, 10} {
				p := GlobalPoint{Layers: kind.name, C: c}
				optimal, end := s.objective(z, c, s.riccati(c))
				greedy, last := s.objective(z, c, s.greedyGains(c))
				p.Greedy, p.Optimal, p.GreedyError, p.OptimalError = greedy, optimal, norm(last), norm(end)
				g.Points = append(g.Points, p)
				least := s.leastSquares(z, c)
				apart = max(apart, math.Abs(o.factor("recursion")*optimal/least-1))
				if above = max(above, optimal/(o.factor("greedy objective")*greedy)); c > 1e-3 {
					best = min(best, optimal/greedy)
				} else if c < 1e-6 {
					vanishing = max(vanishing, math.Abs(o.factor("small c")*optimal/greedy-1))
				}
			}
		}
	}
	return []Check{
		atMost("recursion", "S_t = c(I − c(Q_t + θ_tᵀS_{t+1}θ_t + cI)⁻¹) gives the least objective of all controls, "+
			"by least squares: largest relative difference", apart, 0, 1e-6),
		atMost("no worse than greedy", "the least objective is at most that of greedy control: largest ratio", above, 1,
			1e-9),
		atMost("lower for c ≠ 0", "and lower for some c: smallest ratio", best/o.factor("gain of the whole"), 0.9, 0),
		atMost("greedy for c → 0", "both agree at c = 10⁻⁹: largest relative difference", vanishing, 0, 1e-6),
	}
}

// greedyGains returns the maps from x_t to x_t + u_t under greedy control: αI + (1 − α)P_t.
func (s *linearSystem) greedyGains(c float64) (gains []*mat.Dense) {
	for _, v := range s.bases {
		d, _ := v.Dims()
		k := scaled(d, c/(1+c))
		add(k, 1/(1+c), product(v, v.T()))
		gains = append(gains, k)
	}
	return gains
}

// riccati returns the maps from x_t to x_t + u_t under the optimal controls, c(Q_t + θ_tᵀS_{t+1}θ_t + cI)⁻¹. The
// objective from x_t on is ½x_tᵀS_t x_t, with S_T = 0.
func (s *linearSystem) riccati(c float64) []*mat.Dense {
	gains := make([]*mat.Dense, len(s.layers))
	d, _ := s.bases[0].Dims()
	rest := mat.NewDense(d, d, nil)
	for t := len(s.layers) - 1; t >= 0; t-- {
		m := product(s.layers[t].T(), product(rest, s.layers[t]))
		add(m, 1, scaled(d, 1+c))
		add(m, -1, product(s.bases[t], s.bases[t].T()))
		gains[t] = mat.NewDense(d, d, nil)
		if err := gains[t].Solve(m, scaled(d, c)); err != nil {
			gains[t].Scale(math.NaN(), gains[t])
		}
		rest = scaled(d, c)
		add(rest, -c, gains[t])
	}
	return gains
}

// objective returns the objective under controls that map a deviation x_t to gains[t]·x_t = x_t + u_t, and the
// deviation at the end.
func (s *linearSystem) objective(z []float64, c float64, gains []*mat.Dense) (sum float64, end []float64) {
	x := z
	for t, layer := range s.layers {
		held := times(gains[t], x)
		out, u := norm(s.outside(t, held)), norm(minus(held, x))
		sum += out*out/2 + c*u*u/2
		x = times(layer, held)
	}
	return sum, x
}

// leastSquares returns the least objective over all controls u_0 … u_{T−1} at once: a least-squares problem, as each
// state is linear in them.
func (s *linearSystem) leastSquares(z []float64, c float64) float64 {
	d, depth := len(z), len(s.layers)
	a, b := mat.NewDense(2*d*depth, d*depth, nil), make([]float64, 2*d*depth)
	free := z                              // x_t without any control
	moved := mat.NewDense(d, d*depth, nil) // x_t by the controls
	put := func(row int, from mat.Matrix, scale float64) {
		block := a.Slice(row, row+d, 0, d*depth).(*mat.Dense)
		block.Scale(scale, from)
	}
	for t, layer := range s.layers {
		held := mat.DenseCopyOf(moved) // x_t + u_t
		for i := range d {
			held.Set(i, t*d+i, held.At(i, t*d+i)+1)
		}
		q := identity(d)
		add(q, -1, product(s.bases[t], s.bases[t].T()))
		put(2*t*d, product(q, held), 1)
		copy(b[2*t*d:], scale(-1, s.outside(t, free)))
		only := mat.NewDense(d, d*depth, nil)
		for i := range d {
			only.Set(i, t*d+i, 1)
		}
		put((2*t+1)*d, only, math.Sqrt(c))
		free, moved = times(layer, free), product(layer, held)
	}
	var u mat.VecDense
	if err := u.SolveVec(a, mat.NewVecDense(len(b), b)); err != nil {
		return math.NaN()
	}
	off := norm(minus(times(a, u.RawVector().Data), b))
	return off * off / 2
}
