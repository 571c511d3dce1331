package theory

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// LinearLoop tests Theorem 1 on linear networks: the error of the greedily controlled state against its bound.
type LinearLoop struct {
	Draws  int         `json:"draws"`
	Points []LoopPoint `json:"points"` // for each system and time, the draw whose error is nearest its bound
	Runs   []LoopPoint `json:"runs"`   // one draw of each system, with a random perturbation
}

// LoopPoint is the error of one system at one time.
type LoopPoint struct {
	Layers string  `json:"layers"` // orthogonal, near-orthogonal, gaussian
	D      int     `json:"d"`
	R      int     `json:"r"`
	C      float64 `json:"c"`
	T      int     `json:"t"`
	Error  float64 `json:"error"` // ‖q̄_t − x_t‖² for ‖z‖ = 1
	Bound  float64 `json:"bound"`
}

// linearSystem is a sequence of linear layers θ_0 … θ_{T−1} and of the data's tangent spaces. V_{t+1} spans θ_t·V_t.
type linearSystem struct {
	layers []*mat.Dense // θ_t, [d, d]
	bases  []*mat.Dense // V_t, [d, r], orthonormal, t < T
	bars   []*mat.Dense // θ_{t−1}⋯θ_0, [d, d], t ≤ T
	norms  []float64    // spectral norms of bars
	gammas []float64    // γ_t
}

// newLinearSystem carries the space that the orthonormal columns of basis span through the layers.
func newLinearSystem(layers []*mat.Dense, basis *mat.Dense) *linearSystem {
	d, _ := basis.Dims()
	s := &linearSystem{layers: layers, bars: []*mat.Dense{identity(d)}, norms: []float64{1}, gammas: []float64{0}}
	for t, theta := range layers {
		s.bases = append(s.bases, basis)
		basis = orthonormal(product(theta, basis))
		bar := product(theta, s.bars[t])
		values := singular(bar)
		largest, smallest := values[0], values[d-1]
		// The eigenvalues of I − θ̄ᵀθ̄ are 1 − σ²; γ_t is a maximum over s ≤ t.
		off := max(math.Abs(1-largest*largest), math.Abs(1-smallest*smallest))
		condition := largest / smallest
		s.bars, s.norms = append(s.bars, bar), append(s.norms, largest)
		s.gammas = append(s.gammas, max(s.gammas[t], (1+condition*condition)*off))
	}
	return s
}

// outside returns (I − P_t)·x, with P_t the orthogonal projection onto the tangent space.
func (s *linearSystem) outside(t int, x []float64) []float64 {
	return minus(x, times(s.bases[t], times(s.bases[t].T(), x)))
}

// step returns x_{t+1} = θ_t(x_t + u_t) under the greedy control u_t = −(cI + Q)⁻¹Q·x_t = −(I − P_t)·x_t/(1 + c).
func (s *linearSystem) step(t int, x []float64, c float64) []float64 {
	return times(s.layers[t], plus(x, -1/(1+c), s.outside(t, x)))
}

// bound returns Theorem 1's bound on ‖q̄_t − x_t‖². outside and within are the squared norms of z's parts outside and
// within the first tangent space.
func (s *linearSystem) bound(t int, alpha, outside, within float64) float64 {
	g := s.gammas[t]
	before := 1 - math.Pow(alpha, float64(t-1))
	if t == 0 {
		before = 0 // γ_0 = 0 removes this term
	}
	at := math.Pow(alpha, float64(t))
	return s.norms[t] * s.norms[t] *
		(at*at*outside + within + g*(outside+within)*(g*alpha*alpha*before*before+2*max(alpha-at, 0)))
}

var layerKinds = []struct {
	name string
	draw func(rng *rand.Rand, d int) *mat.Dense
}{
	{"orthogonal", orthogonal},
	{"near-orthogonal", func(rng *rand.Rand, d int) *mat.Dense {
		e := identity(d)
		add(e, 0.05/math.Sqrt(float64(d)), gaussian(rng, d, d))
		return product(orthogonal(rng, d), e)
	}},
	{"gaussian", func(rng *rand.Rand, d int) *mat.Dense {
		g := gaussian(rng, d, d)
		g.Scale(1/math.Sqrt(float64(d)), g)
		return g
	}},
}

// regularisations of the control. The paper's experiments use 0.001.
var regularisations = []float64{0, 0.001, 0.1, 1}

// linearLoop runs the controlled and the clean system in parallel, with a random perturbation and with the worst one
// for the first step, for which the bound of that step is an equality.
func linearLoop(into *Result, o Options, rng *rand.Rand) []Check {
	l := &LinearLoop{Draws: o.pick(20, 4)}
	into.LinearLoop = l
	most := linearExtremes{first: math.Inf(1)}
	for _, kind := range layerKinds {
		for _, size := range [][2]int{{8, 1}, {8, 4}, {24, 3}, {24, 12}} {
			d, r := size[0], size[1]
			cells := make([][linearDepth]LoopPoint, len(regularisations))
			for draw := range l.Draws {
				layers := make([]*mat.Dense, linearDepth)
				for t := range layers {
					layers[t] = kind.draw(rng, d)
				}
				s := newLinearSystem(layers, orthonormal(gaussian(rng, d, r)))
				start := times(s.bases[0], normals(rng, r))
				random := unit(rng, d)
				for i, c := range regularisations {
					run := loopRun{s, LoopPoint{Layers: kind.name, D: d, R: r, C: c}, start, o}
					points := run.follow(random, false, &most)
					if draw == 0 {
						l.Runs = append(l.Runs, points...)
					}
					if c > 0 {
						points = append(points, run.follow(s.worstFirst(c), true, &most)...)
					}
					for _, p := range points {
						if old := &cells[i][p.T-1]; old.Bound == 0 || p.Error/p.Bound > old.Error/old.Bound {
							*old = p
						}
					}
				}
			}
			for _, row := range cells {
				l.Points = append(l.Points, row[:]...)
			}
		}
	}
	return []Check{
		atMost("feedback gain", "I − K_t = αI + (1−α)P_t with K_t = (cI+Q)⁻¹Q: largest entry of the difference",
			most.gain, 0, 1e-10),
		atMost("product form", "q̄_t − x_t = θ̄_t(αᵗI + (1−α)Σ αˢP_s^s)z: largest relative difference",
			most.formula, 0, 1e-9),
		atMost("error bound", "‖q̄_t − x_t‖² is at most its bound, for all layers, c, r, d and t ≥ 1: largest ratio",
			most.ratio, 1, 1e-9),
		atLeast("tight at t = 1",
			"the worst perturbation attains the bound after one step, for all layers: smallest ratio",
			most.first, 1, 1e-9),
		atMost("orthogonal layers", "‖q̄_t − x_t‖² = α²ᵗ‖z⊥‖² + ‖z∥‖²: largest relative difference",
			most.orthogonal, 0, 1e-9),
	}
}

// linearDepth is T, the number of layers.
const linearDepth = 6

// linearExtremes are the largest deviations from the claims, and the smallest ratio of error and bound of the worst
// perturbation after one step.
type linearExtremes struct{ gain, formula, ratio, orthogonal, first float64 }

// loopRun is a system under one control.
type loopRun struct {
	*linearSystem
	point LoopPoint // the fields that all of its points share
	start []float64 // x_0
	Options
}

// follow measures the errors of a perturbation and their bounds, for t from 1. It may be random or the worst for the
// first step.
func (r loopRun) follow(z []float64, worst bool, most *linearExtremes) (points []LoopPoint) {
	c, alpha := r.point.C, r.factor("alpha")*r.point.C/(1+r.point.C)
	out := r.outside(0, z)
	outside, within := norm(out)*norm(out), norm(minus(z, out))*norm(minus(z, out))
	x, q, off := r.start, plus(r.start, 1, z), z // the clean system, the controlled one, their difference
	for t, layer := range r.layers {
		x, q = times(layer, x), r.step(t, q, c)
		off = minus(q, x)
		p := r.point
		p.T, p.Error = t+1, norm(off)*norm(off)
		p.Bound = r.factor("linear bound") * r.bound(p.T, alpha, outside, within)
		most.ratio = max(most.ratio, p.Error/p.Bound)
		// The worst z may be nearly normal to the data's space; the rest of it is then rounding error.
		if p.Layers == "orthogonal" && !worst {
			at := math.Pow(alpha, float64(p.T))
			exact := at*at*outside + within
			most.orthogonal = max(most.orthogonal, math.Abs(p.Error/exact/r.factor("linear bound")-1))
		}
		points = append(points, p)
	}
	if worst {
		most.first = min(most.first, points[0].Error/points[0].Bound)
		return points
	}
	most.gain = max(most.gain, r.gainError(c, alpha))
	if r.point.Layers != "gaussian" { // products of Gaussian layers are too ill-conditioned to invert
		most.formula = max(most.formula, norm(minus(r.closedForm(linearDepth, alpha, z), off))/norm(off))
	}
	return points
}

// worstFirst returns the unit perturbation whose (I−K_0)z lies along θ_0's first right singular vector.
func (s *linearSystem) worstFirst(c float64) []float64 {
	var svd mat.SVD
	svd.Factorize(s.layers[0], mat.SVDThin)
	var v mat.Dense
	svd.VTo(&v)
	top := mat.Col(nil, 0, &v)
	out := s.outside(0, top)
	z := plus(minus(top, out), (1+c)/c, out) // (I−K)⁻¹ = P + (I−P)/α
	length := norm(z)
	for i := range z {
		z[i] /= length
	}
	return z
}

// gainError returns the largest entry of the difference between I − K, with the gain K solved from its definition,
// and its closed form αI + (1−α)P.
func (s *linearSystem) gainError(c, alpha float64) float64 {
	if c == 0 {
		return 0 // the definition's matrix is singular; its limit is P
	}
	v := s.bases[0]
	d, _ := v.Dims()
	p, q, regular, closed := product(v, v.T()), identity(d), scaled(d, c), scaled(d, alpha)
	add(q, -1, p)
	add(regular, 1, q)
	add(closed, 1-alpha, p)
	var k mat.Dense
	if err := k.Solve(regular, q); err != nil {
		return math.NaN()
	}
	off := identity(d)
	add(off, -1, &k)
	add(off, -1, closed)
	return max(mat.Max(off), -mat.Min(off))
}

// closedForm returns θ̄_t(αᵗI + (1−α)Σ_{s<t} αˢP_s^s)z with the oblique P_s^s = θ̄_s⁻¹P_sθ̄_s.
func (s *linearSystem) closedForm(t int, alpha float64, z []float64) []float64 {
	sum := scale(math.Pow(alpha, float64(t)), z)
	for i := range t {
		moved := times(s.bars[i], z)
		within := mat.NewVecDense(len(z), minus(moved, s.outside(i, moved)))
		var back mat.VecDense
		if err := back.SolveVec(s.bars[i], within); err != nil {
			return plus(z, math.NaN(), z)
		}
		sum = plus(sum, (1-alpha)*math.Pow(alpha, float64(i)), back.RawVector().Data)
	}
	return times(s.bars[t], sum)
}
