package theory

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// ManifoldBending is the curvature of the embedding manifolds, and the growth of the error that Theorem 2 attributes
// to it.
type ManifoldBending struct {
	Curve     []CurveBend    `json:"curve"`     // of the curve of [Margins]
	Manifolds []ManifoldBend `json:"manifolds"` // of the smooth networks
	Growth    []BendingError `json:"growth"`    // of a parabola in the plane
	C         float64        `json:"c"`         // control regularisation of Growth
}

// CurveBend is the curvature at one parameter of the curve.
type CurveBend struct {
	S           float64 `json:"s"`
	Analytic    float64 `json:"analytic"`
	Differences float64 `json:"differences"`
}

// ManifoldBend is the norm of the second fundamental form of M_t at x_t.
type ManifoldBend struct {
	Gain        float64 `json:"gain"`
	T           int     `json:"t"`
	Sigma       float64 `json:"sigma"`       // σ_t, analytic
	Differences float64 `json:"differences"` // from nearest-point projections onto M_t
	Image       float64 `json:"image"`       // from images of M_{t−1}'s points under F_{t−1}; 0 for t = 0
	K           float64 `json:"k"`           // k_t
}

// BendingError is the difference between the control for the manifold and the control for its tangent space.
type BendingError struct {
	Sigma    float64 `json:"sigma"`
	Measured float64 `json:"measured"` // sup over directions of ‖u^M − u^P‖/ε² at a small ε
	Leading  float64 `json:"leading"`  // σ/(√3(1+c)), its limit for ε → 0
	K        float64 `json:"k"`        // 4σ(1+2σ), the theorem's bound
}

// bendStep is the step of the finite differences. Their error is of order bendStep².
const bendStep = 1e-3

func bending(into *Result, o Options, rng *rand.Rand) []Check {
	m := &ManifoldBending{C: 0.1}
	into.Curvature = m
	c := newCurve(curveBulge, curveEnd, 2*math.Pi-curveEnd, 2)
	var curveOff, netOff, imageOff, leadOff, overK float64
	for i := range 61 {
		s := c.param(0) + (c.param(1)-c.param(0))*float64(i)/60
		p := CurveBend{s, o.factor("curvature") * c.curvature(s), c.bendByDifferences(s, bendStep)}
		m.Curve = append(m.Curve, p)
		curveOff = max(curveOff, math.Abs(p.Differences/p.Analytic-1))
	}

	for net := range o.pick(6, 2) {
		gain := 0.2 * float64(1+net%2) / 2
		n := randomNet(rng, 6, 2, 4, gain, 0.3)
		for t, f := range n.manifolds {
			_, s := f.steepest()
			p := ManifoldBend{Gain: gain, T: t, Sigma: o.factor("curvature") * f.sigma,
				Differences: f.bendByDifferences(s, bendStep), K: f.k()}
			netOff = max(netOff, math.Abs(p.Differences/p.Sigma-1))
			if t > 0 {
				p.Image = n.imageBend(t, s, bendStep)
				imageOff = max(imageOff, math.Abs(p.Image/p.Sigma-1))
			}
			m.Manifolds = append(m.Manifolds, p)
		}
	}

	var logs [2][]float64
	for i := range 8 {
		sigma := 0.05 * math.Pow(80, float64(i)/7)
		p := bendingError(sigma, m.C)
		p.Leading *= o.factor("leading error")
		leadOff = max(leadOff, math.Abs(p.Measured/p.Leading-1))
		overK = max(overK, p.Measured/(o.factor("control")*p.K))
		logs[0], logs[1] = append(logs[0], math.Log(sigma)), append(logs[1], math.Log(p.Measured))
		m.Growth = append(m.Growth, p)
	}
	_, order := stat.LinearRegression(logs[0], logs[1], nil, false)
	return []Check{
		atMost("curvature of the curve", "|γ'×γ''|/|γ'|³ and second differences: largest relative difference",
			curveOff, 0, 1e-4),
		atMost("curvature of the manifolds",
			"σ_t and second differences of nearest-point projections: largest relative difference", netOff, 0, 1e-4),
		atMost("manifolds follow the layers",
			"σ_t and the curvature of F_{t−1}(M_{t−1}) at x_t: largest relative difference", imageOff, 0, 1e-4),
		atMost("error by curvature",
			"sup ‖u^M − u^P‖/ε² → σ/(√3(1+c)) on a parabola: largest relative difference", leadOff, 0,
			2e-3),
		atMost("error constant", "sup ‖u^M − u^P‖/ε² ≤ k = 4σ(1+2σ): largest ratio", overK, 1, 0).within(9),
		equal("grows with curvature", "the error constant by σ has slope 1 on logarithmic scales", order,
			o.factor("growth"), 0.01),
	}
}

// bendByDifferences returns the part of the second difference that is normal to the curve, over the squared speed.
func (c *curve) bendByDifferences(s, h float64) float64 {
	low, here, high := c.at(s-h), c.at(s), c.at(s+h)
	speed := high.minus(low)
	speed = Point{}.plus(1/(2*h), speed)
	second := Point{}.plus(1/(h*h), high.plus(-2, here).plus(1, low))
	return math.Abs(speed[0]*second[1]-speed[1]*second[0]) / math.Pow(speed.norm(), 3)
}

// bendByDifferences returns the norm of the second fundamental form at x* in the direction As, ‖s‖ = 1. E moves two
// points, a step away along the tangent in both directions, to the manifold; their mean leaves the tangent space by
// half the form.
func (f *submersion) bendByDifferences(s []float64, h float64) float64 {
	along := times(f.tangent, s)
	high, low := f.project(plus(f.base, h, along)), f.project(plus(f.base, -h, along))
	speed := norm(minus(high, low)) / (2 * h)
	return f.secondDifference(high, low) / (h * h * speed * speed)
}

// secondDifference returns the length, across the tangent space, of the second difference of points on both sides of
// x*.
func (f *submersion) secondDifference(high, low []float64) float64 {
	return norm(times(f.normal.T(), minus(plus(high, 1, low), plus(f.base, 1, f.base))))
}

// imageBend returns the norm of the second fundamental form of F_{t−1}(M_{t−1}) at x_t in the direction A_t·w, ‖w‖ =
// 1.
func (n *smoothNet) imageBend(t int, w []float64, h float64) float64 {
	before, f, l := n.manifolds[t-1], n.manifolds[t], n.layers[t-1]
	moved := product(n.linear.layers[t-1], before.tangent)
	var s mat.VecDense // moved·s = A_t·w, which has a solution as A_t spans moved's range
	if err := s.SolveVec(moved, mat.NewVecDense(len(f.base), times(f.tangent, w))); err != nil {
		return math.NaN()
	}
	along := s.RawVector().Data
	bent := before.bent(along)
	on := func(step float64) []float64 { // a point of M_{t−1}
		return plus(plus(before.base, step, times(before.tangent, along)), step*step/2, times(before.normal, bent))
	}
	return f.secondDifference(l.apply(on(h)), l.apply(on(-h))) / (h * h)
}

// bendingError measures the parabola y = ½σs² in the plane. To leading order in ε the difference of the two controls at
// ε(s, y), s² + y² = 1, is ε²σ(sy, s²/2)/(1 + c), and its largest norm is at s² = 2/3.
func bendingError(sigma, c float64) BendingError {
	f := newSubmersion([]float64{0, 0}, mat.NewDense(2, 1, []float64{1, 0}), mat.NewDense(2, 1, []float64{0, 1}),
		[]*mat.Dense{mat.NewDense(1, 1, []float64{sigma})})
	p := BendingError{Sigma: sigma, Leading: sigma / (math.Sqrt(3) * (1 + c)), K: f.k()}
	epsilon := 1e-4 / sigma
	for i := range 360 {
		v := heading(math.Pi * float64(i) / 180)
		x := []float64{epsilon * v[0], epsilon * v[1]}
		p.Measured = max(p.Measured, norm(minus(f.control(x, c), f.linearControl(x, c)))/(epsilon*epsilon))
	}
	return p
}
