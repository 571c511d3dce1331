package theory

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"selfheal/internal/lists"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// submersion is the map f : R^d → R^{d−r} whose zeros are an embedding manifold M, here a quadratic graph over the
// tangent space at a base point x*:
//
//	f(x)_i = y_i − ½·sᵀQ_i s,   s = Aᵀ(x − x*),  y = Bᵀ(x − x*)
//
// with [A B] orthogonal. Its Jacobian at x* is Bᵀ, orthonormal as the paper assumes, and its Hessian is constant, so
// that σ, the bound on ‖f”‖*, is exact. r is 1 or 2. With a mix S it is S·f, whose Jacobian at x* is S·Bᵀ.
type submersion struct {
	base            []float64  // x*, on M
	tangent, normal *mat.Dense // A [d, r], B [d, d−r]
	forms           []*mat.Dense
	sigma           float64
	mix             *mat.Dense // S [d−r, d−r]; nil for the identity
}

// mixed returns S·v.
func (f *submersion) mixed(v []float64) []float64 {
	if f.mix == nil {
		return v
	}
	return times(f.mix, v)
}

func newSubmersion(base []float64, tangent, normal *mat.Dense, forms []*mat.Dense) *submersion {
	f := &submersion{base: base, tangent: tangent, normal: normal, forms: forms}
	f.sigma, _ = f.steepest()
	return f
}

// randomForms draws d−r quadratic forms on R^r with sup_s ‖(sᵀQ_i s)_i‖/‖s‖² = bend.
func randomForms(rng *rand.Rand, r, n int, bend float64) []*mat.Dense {
	forms := make([]*mat.Dense, n)
	for i := range forms {
		g := gaussian(rng, r, r)
		forms[i] = mat.NewDense(r, r, nil)
		forms[i].Add(g, g.T())
	}
	sigma, _ := (&submersion{forms: forms}).steepest()
	for _, q := range forms {
		q.Scale(bend/sigma, q)
	}
	return forms
}

// bent returns (sᵀQ_i s)_i.
func (f *submersion) bent(s []float64) []float64 {
	return lists.Map(f.forms, func(q *mat.Dense) float64 { return floats.Dot(s, times(q, s)) })
}

// steepest returns σ = sup ‖(sᵀQ_i s)_i‖ over unit s, and the s that attains it.
func (f *submersion) steepest() (sigma float64, s []float64) {
	bend := func(s []float64) float64 { return norm(f.mixed(f.bent(s))) }
	if r, _ := f.forms[0].Dims(); r == 1 {
		return bend([]float64{1}), []float64{1}
	}
	at := func(angle float64) []float64 { p := heading(angle); return p[:] }
	const n = 90
	best := 0.0
	for i := range n { // the forms depend on 2·angle, so half a turn suffices
		if angle := math.Pi * float64(i) / n; bend(at(angle)) > bend(at(best)) {
			best = angle
		}
	}
	best, least := minimise(func(angle float64) float64 { return -bend(at(angle)) }, best-math.Pi/n,
		best+math.Pi/n, 60)
	return -least, at(best)
}

// k returns the theorem's constant for this manifold, 4σ‖(f'f'ᵀ)⁻¹‖(‖f'‖ + 2σ) at x*.
func (f *submersion) k() float64 {
	largest, smallest := 1.0, 1.0
	if f.mix != nil {
		values := singular(f.mix)
		largest, smallest = values[0], values[len(values)-1]
	}
	return 4 * f.sigma / (smallest * smallest) * (largest + 2*f.sigma)
}

// local returns the coordinates (s, y) of x.
func (f *submersion) local(x []float64) (s, y []float64) {
	off := minus(x, f.base)
	return times(f.tangent.T(), off), times(f.normal.T(), off)
}

// global returns the point with the coordinates (s, y).
func (f *submersion) global(s, y []float64) []float64 {
	return plus(plus(f.base, 1, times(f.tangent, s)), 1, times(f.normal, y))
}

// value returns f in local coordinates.
func (f *submersion) value(s, y []float64) []float64 { return plus(y, -0.5, f.bent(s)) }

// errDiverged is returned when Newton's method finds no stationary point and ends with NaN.
var errDiverged = errors.New("theory: Newton's method does not converge; " +
	"the perturbation is too large for the manifold's curvature")

// solvedTo is the size of the last Newton step relative to the perturbation.
const solvedTo = 1e-12

// newton walks from at to a zero of a gradient. It returns NaN if it does not converge.
func newton(at []float64, perturbation float64,
	derivatives func(at []float64) (gradient []float64, hessian *mat.Dense)) []float64 {
	for range 60 {
		gradient, hessian := derivatives(at)
		step := mat.NewVecDense(len(at), nil)
		if err := step.SolveVec(hessian, mat.NewVecDense(len(at), gradient)); err != nil {
			break
		}
		at = minus(at, step.RawVector().Data)
		if mat.Norm(step, 2) <= solvedTo*perturbation {
			return at
		}
	}
	return scale(math.NaN(), at)
}

// control returns u^M(x), the minimiser of ½‖f(x+u)‖² + (c/2)‖u‖², c > 0, by Newton's method from u^P.
func (f *submersion) control(x []float64, c float64) []float64 {
	s0, y0 := f.local(x)
	r, n := len(s0), len(y0)
	start := slices.Concat(s0, y0)
	at := newton(slices.Concat(s0, scale(c/(1+c), y0)), norm(start), func(at []float64) ([]float64, *mat.Dense) {
		s, y := at[:r], at[r:]
		value := f.mixed(f.value(s, y))
		jacobian := mat.NewDense(n, r+n, nil)
		hessian := mat.NewDense(r+n, r+n, nil)
		block := hessian.Slice(0, r, 0, r).(*mat.Dense)
		weights := value
		if f.mix != nil {
			weights = times(f.mix.T(), value)
		}
		for i, q := range f.forms {
			copy(jacobian.RawRowView(i), scale(-1, times(q, s)))
			jacobian.Set(i, r+i, 1)
			add(block, -weights[i], q)
		}
		if f.mix != nil {
			jacobian = product(f.mix, jacobian)
		}
		hessian.Add(hessian, product(jacobian.T(), jacobian))
		hessian.Add(hessian, scaled(r+n, c))
		return plus(times(jacobian.T(), value), c, minus(at, start)), hessian
	})
	return minus(f.global(at[:r], at[r:]), x)
}

// linearControl returns u^P(x) = −(f'ᵀf' + cI)⁻¹f'ᵀf'(x − x*), the control for the tangent space at x*. With an
// orthonormal f' it is −BBᵀ(x − x*)/(1 + c).
func (f *submersion) linearControl(x []float64, c float64) []float64 {
	_, y := f.local(x)
	if f.mix == nil {
		return times(f.normal, scale(-1/(1+c), y))
	}
	square := product(f.mix.T(), f.mix)
	regular := mat.DenseCopyOf(square)
	add(regular, 1, scaled(len(y), c))
	var u mat.VecDense
	if err := u.SolveVec(regular, mat.NewVecDense(len(y), times(square, y))); err != nil {
		return scale(math.NaN(), x)
	}
	return times(f.normal, scale(-1, u.RawVector().Data))
}

// project returns E(x), the manifold's point nearest to x, by Newton's method on the squared distance as a function
// of s.
func (f *submersion) project(x []float64) []float64 {
	s0, y0 := f.local(x)
	r := len(s0)
	s := newton(s0, norm(minus(x, f.base)), func(s []float64) ([]float64, *mat.Dense) {
		off := plus(scale(-1, y0), 0.5, f.bent(s))
		gradient := minus(s, s0)
		hessian := identity(r)
		for i, q := range f.forms {
			row := times(q, s)
			gradient = plus(gradient, off[i], row)
			hessian.RankOne(hessian, 1, mat.NewVecDense(r, row), mat.NewVecDense(r, row))
			add(hessian, off[i], q)
		}
		return gradient, hessian
	})
	return f.global(s, scale(0.5, f.bent(s)))
}
