package theory

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// layer is the smooth map F(x) = R(x + g·tanh(Wx + b)), R orthogonal.
type layer struct {
	rotation, weights *mat.Dense // R, W, [d, d]
	bias              []float64  // b
	gain              float64    // g; 0 makes the layer linear
}

func randomLayer(rng *rand.Rand, d int, gain float64) *layer {
	return &layer{orthogonal(rng, d), orthogonal(rng, d), normals(rng, d), gain}
}

func (l *layer) hidden(x []float64) []float64 { return plus(l.bias, 1, times(l.weights, x)) }

func (l *layer) apply(x []float64) []float64 {
	h := l.hidden(x)
	for i := range h {
		h[i] = math.Tanh(h[i])
	}
	return times(l.rotation, plus(x, l.gain, h))
}

// jacobian returns F'(x) = R(I + g·diag(1 − tanh²)W).
func (l *layer) jacobian(x []float64) *mat.Dense {
	inner := mat.DenseCopyOf(l.weights)
	for i, h := range l.hidden(x) {
		th := math.Tanh(h)
		floats.Scale(l.gain*(1-th*th), inner.RawRowView(i))
	}
	inner.Add(inner, identity(len(x)))
	return product(l.rotation, inner)
}

// second returns F”(x)[z, z] = R(g·tanh”(h)∘(Wz)²) with tanh” = −2·tanh·(1 − tanh²).
func (l *layer) second(x, z []float64) []float64 {
	w := times(l.weights, z)
	for i, h := range l.hidden(x) {
		th := math.Tanh(h)
		w[i] *= -2 * l.gain * th * (1 - th*th) * w[i]
	}
	return times(l.rotation, w)
}

// hessianBound returns β with ‖F”(x)‖* ≤ β for all x, as |tanh”| ≤ 4/(3√3).
func (l *layer) hessianBound() float64 {
	w := spectral(l.weights)
	return l.gain * 4 / (3 * math.Sqrt(3)) * w * w
}

// smoothNet is a network of smooth layers with the manifolds on which its clean states lie. M_0 is drawn. M_{t+1} is
// the quadratic graph that agrees with F_t(M_t) at x_{t+1} up to second order; its tangent space is θ_t times the
// tangent space of M_t.
type smoothNet struct {
	layers    []*layer
	states    [][]float64 // x_t, t ≤ T
	manifolds []*submersion
	linear    *linearSystem // the Jacobians θ_t = F_t'(x_t) and the tangent spaces
}

// randomNet draws a network whose layers all have the same gain on R^d, and a first manifold of dimension r and
// curvature bend.
func randomNet(rng *rand.Rand, d, r, depth int, gain, bend float64) *smoothNet {
	x := normals(rng, d)
	tangent, normal := frame(gaussian(rng, d, r))
	f := newSubmersion(x, tangent, normal, randomForms(rng, r, d-r, bend))
	n := &smoothNet{states: [][]float64{x}}
	var jacobians []*mat.Dense
	for t := range depth {
		l := randomLayer(rng, d, gain)
		n.layers, n.manifolds = append(n.layers, l), append(n.manifolds, f)
		jacobians = append(jacobians, l.jacobian(x))
		if t+1 < depth {
			f = f.carried(l)
		}
		x = l.apply(x)
		n.states = append(n.states, x)
	}
	n.linear = newLinearSystem(jacobians, n.manifolds[0].tangent)
	return n
}

// carried returns the quadratic graph at F(x*) that osculates F(M). A curve on M with first derivative As and second
// derivative B(sᵀQs) has an image with second derivative F”[As, As] + θB(sᵀQs); the part of it normal to θA is the
// form at w = A'ᵀθAs.
func (f *submersion) carried(l *layer) *submersion {
	theta := l.jacobian(f.base)
	moved := product(theta, f.tangent)
	tangent, normal := frame(moved)
	_, r := f.tangent.Dims()
	n := len(f.forms)
	var back mat.Dense // s as a function of w
	if err := back.Inverse(product(tangent.T(), moved)); err != nil {
		panic("theory: a layer's Jacobian is singular") // I + g·diag·W is invertible for g < 1
	}
	image := func(w []float64) []float64 {
		s := times(&back, w)
		bent := plus(l.second(f.base, times(f.tangent, s)), 1, times(theta, times(f.normal, f.bent(s))))
		return times(normal.T(), bent)
	}
	forms := make([]*mat.Dense, n)
	for i := range forms {
		forms[i] = mat.NewDense(r, r, nil)
	}
	axes := identity(r)
	for j := range r { // polarisation: q(a, b) = ¼(q(a+b) − q(a−b))
		for k := range r {
			a, b := axes.RawRowView(j), axes.RawRowView(k)
			high, low := image(plus(a, 1, b)), image(plus(a, -1, b))
			for i := range forms {
				forms[i].Set(j, k, (high[i]-low[i])/4)
			}
		}
	}
	return newSubmersion(l.apply(f.base), tangent, normal, forms)
}
