package theory

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// NonlinearLoop tests Theorem 2 on small smooth networks: the error of the controlled state and its distance from the
// linearised system, against their bounds.
type NonlinearLoop struct {
	Dimension int              `json:"dimension"` // d
	Rank      int              `json:"rank"`      // r
	Depth     int              `json:"depth"`     // T
	Points    []NonlinearPoint `json:"points"`
	Slopes    []float64        `json:"slopes"` // slopes of log e_T by log ε, one for each network, c and direction
}

// NonlinearPoint is one controlled run at one time.
type NonlinearPoint struct {
	Net         int     `json:"net"`
	Gain        float64 `json:"gain"`      // of the layers' tanh
	Bend        float64 `json:"bend"`      // curvature of the first manifold
	C           float64 `json:"c"`         // control regularisation
	Direction   string  `json:"direction"` // of z: random, tangent, normal
	Epsilon     float64 `json:"epsilon"`   // ‖z‖
	Limit       float64 `json:"limit"`     // the largest ε that satisfies the theorem's condition; 0 if any ε does
	T           int     `json:"t"`
	Error       float64 `json:"error"`  // ‖x̄_t − x_t‖
	Linear      float64 `json:"linear"` // the bound's part linear in ε
	Bound       float64 `json:"bound"`
	Curved      float64 `json:"curved"`       // e_t, the distance from the linearised system's error
	CurvedBound float64 `json:"curved_bound"` // the bound's part in ε²
}

// shares are the fractions of the theorem's largest ε at which it is tested.
var shares = []float64{1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01}

// nonlinearLoop measures errors for every ε that satisfies the theorem's condition, in a random, a tangent and a
// normal direction.
func nonlinearLoop(into *Result, o Options, rng *rand.Rand) []Check {
	const d, r, depth = 6, 2, 4
	l := &NonlinearLoop{Dimension: d, Rank: r, Depth: depth}
	into.NonlinearLoop = l
	var worst, tight, curved, flat, controls, slope, sum float64
	for net := range 3 * o.pick(4, 1) {
		gain, bend := []float64{0, 0.05, 0.2}[net%3], []float64{0, 0.1, 0.3}[net%3]
		n := randomNet(rng, d, r, depth, gain, bend)
		free := unit(rng, d)
		a, b := n.manifolds[0].tangent, n.manifolds[0].normal
		directions := []struct {
			name string
			v    []float64
		}{{"random", free}, {"tangent", mat.Col(nil, 0, a)}, {"normal", times(b, unit(rng, d-r))}}
		for _, c := range []float64{0.001, 0.1, 1} {
			for _, dir := range directions {
				alpha := o.factor("alpha") * c / (1 + c)
				growth := n.growth(alpha, dir.v)
				limit, largest := 0.0, 1.0
				if growth[depth] > 0 {
					limit = 1 / math.Sqrt(growth[depth])
					largest = limit
				}
				var logs [2][]float64
				for _, share := range shares {
					epsilon := share * largest
					z := scale(epsilon, dir.v)
					run := n.run(z, c, o.factor("linearised system")*c)
					controls, sum = max(controls, run.controls), max(sum, run.sum)
					for t := 1; t <= depth; t++ {
						p := NonlinearPoint{Net: net, Gain: gain, Bend: bend, C: c, Direction: dir.name, Limit: limit,
							T: t, Epsilon: epsilon, Error: run.errors[t], Linear: n.linearPart(t, alpha, z),
							Curved: run.curved[t]}
						p.CurvedBound = o.factor("linearisation") * growth[t] * epsilon * epsilon
						p.Bound = o.factor("nonlinear bound") * (p.Linear + growth[t]*epsilon*epsilon)
						worst = max(worst, p.Error/p.Bound)
						if limit > 0 {
							curved = max(curved, p.Curved/p.CurvedBound)
						} else if flat = max(flat, p.Curved); dir.name == "tangent" {
							tight = max(tight, math.Abs(p.Error/p.Bound-1))
						}
						l.Points = append(l.Points, p)
					}
					if limit > 0 && share <= 0.1 && dir.name == "random" {
						logs[0] = append(logs[0], math.Log(epsilon))
						logs[1] = append(logs[1], math.Log(run.curved[depth]))
					}
				}
				if len(logs[0]) > 0 {
					_, order := stat.LinearRegression(logs[0], logs[1], nil, false)
					l.Slopes = append(l.Slopes, order)
					slope = max(slope, math.Abs(order-2*o.factor("order")))
				}
			}
		}
	}
	return []Check{
		atMost("error bound",
			"‖x̄_t − x_t‖ is at most its bound where ε satisfies the condition: largest ratio", worst, 1, 1e-9),
		atMost("tight in the flat case",
			"linear layers, flat manifolds, z in the tangent space: largest relative distance of error and bound",
			tight, 0, 1e-6),
		atMost("linearisation error", "e_t is at most the ε² term: largest ratio", curved, 1, 1e-9).within(26),
		atMost("no linearisation error", "e_t = 0 for linear layers and flat manifolds: largest e_t", flat, 0, 1e-12),
		atMost("order", "log e_T by log ε has slope 2: largest deviation", slope, 0, 0.1),
		atMost("manifold and tangent control",
			"‖u^M − u^P‖ ≤ 4σ(1+2σ)·‖x̄_t − x_t‖² along all runs: largest ratio", controls/o.factor("control"), 1, 0).
			within(13),
		// The proof has 1 in place of 2: (a + b)² is at most 2(a² + b²), not a² + b².
		atMost("squares of a sum",
			"‖x̄_t − x_t‖² ≤ 2(e_t² + ‖θ_{t−1}(I − K_{t−1})⋯z‖²), twice the proof's: largest ratio",
			sum/o.factor("square"), 2, 0).within(2),
	}
}

// growth returns the factor of ε² in the bound at each t ≤ T: Σ_i δ_i(k_i‖θ_i‖ + 2β_i)·Π_{j>i}(‖θ_j‖ + k_j‖θ_j‖ +
// 2β_j), by its recursion.
func (n *smoothNet) growth(alpha float64, v []float64) []float64 {
	out := n.linear.outside(0, v)
	outside := norm(out) * norm(out)
	within := floats.Dot(v, v) - outside
	sums := []float64{0}
	for t, l := range n.linear.layers {
		theta := spectral(l)
		curvature := n.manifolds[t].k()*theta + 2*n.layers[t].hessianBound()
		delta := n.linear.bound(t, alpha, outside, within)
		sums = append(sums, (theta+curvature)*sums[t]+delta*curvature)
	}
	return sums
}

// linearPart returns the part of Theorem 2's bound on ‖x̄_t − x_t‖ that is linear in z.
func (n *smoothNet) linearPart(t int, alpha float64, z []float64) float64 {
	out := n.linear.outside(0, z)
	at, before := math.Pow(alpha, float64(t)), math.Pow(alpha, float64(t-1))
	g := n.linear.gammas[t]
	return n.linear.norms[t] * (at*norm(out) + norm(minus(z, out)) +
		norm(z)*(g*alpha*(1-before)+math.Sqrt(2*g*max(alpha-at, 0))))
}

// controlled is one run of the controlled network in parallel with the clean one.
type controlled struct {
	errors   []float64 // ‖x̄_t − x_t‖
	curved   []float64 // e_t
	sum      float64   // largest ‖x̄_t − x_t‖² / (e_t² + the squared length of the linearised difference)
	controls float64   // largest ‖u^M − u^P‖ / (4σ(1+2σ)‖x̄_t − x_t‖²) over the curved manifolds
}

// farFromRounding is the least deviation whose square, 1e-10, stands out from the rounding of states, some 1e-15.
const farFromRounding = 1e-5

// run perturbs the first state by z. It follows x̄_{t+1} = F_t(x̄_t + u^M(x̄_t)) and, in parallel, the linearised
// difference θ_t(I − K_t)⋯θ_0(I − K_0)z, whose gain has the regularisation linearC.
func (n *smoothNet) run(z []float64, c, linearC float64) controlled {
	x, linear := plus(n.states[0], 1, z), z
	r := controlled{errors: []float64{norm(z)}, curved: []float64{0}}
	for t, l := range n.layers {
		f := n.manifolds[t]
		u := f.control(x, c)
		if k := f.k(); k > 0 {
			if away := norm(minus(x, n.states[t])); away > farFromRounding {
				r.controls = max(r.controls, norm(minus(u, f.linearControl(x, c)))/(k*away*away))
			}
		}
		x = l.apply(plus(x, 1, u))
		linear = n.linear.step(t, linear, linearC)
		off := minus(x, n.states[t+1])
		r.errors = append(r.errors, norm(off))
		e := norm(minus(off, linear))
		r.curved = append(r.curved, e)
		r.sum = max(r.sum, norm(off)*norm(off)/(e*e+norm(linear)*norm(linear)))
	}
	return r
}
