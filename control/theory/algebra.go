package theory

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

func normals(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// unit draws a direction, uniformly distributed on the sphere in R^n.
func unit(rng *rand.Rand, n int) []float64 {
	x := normals(rng, n)
	floats.Scale(1/floats.Norm(x, 2), x)
	return x
}

func gaussian(rng *rand.Rand, m, n int) *mat.Dense { return mat.NewDense(m, n, normals(rng, m*n)) }

func orthogonal(rng *rand.Rand, d int) *mat.Dense { return orthonormal(gaussian(rng, d, d)) }

// orthonormal returns an orthonormal basis, [d, r], of the range of a, [d, r] of full rank.
func orthonormal(a *mat.Dense) *mat.Dense {
	tangent, _ := frame(a)
	return tangent
}

// frame returns orthonormal, and a basis, [d, d−r], of the orthogonal complement, which is nil for r = d.
func frame(a *mat.Dense) (tangent, normal *mat.Dense) {
	d, r := a.Dims()
	var qr mat.QR
	qr.Factorize(a)
	var q mat.Dense
	qr.QTo(&q)
	if r < d {
		normal = mat.DenseCopyOf(q.Slice(0, d, r, d))
	}
	return mat.DenseCopyOf(q.Slice(0, d, 0, r)), normal
}

func product(a, b mat.Matrix) *mat.Dense {
	var c mat.Dense
	c.Mul(a, b)
	return &c
}

func times(a mat.Matrix, x []float64) []float64 {
	m, _ := a.Dims()
	y := mat.NewVecDense(m, nil)
	y.MulVec(a, mat.NewVecDense(len(x), x))
	return y.RawVector().Data
}

// singular returns the singular values of a, falling.
func singular(a mat.Matrix) []float64 {
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDNone) {
		return []float64{math.NaN()}
	}
	return svd.Values(nil)
}

// spectral returns ‖a‖₂, the largest singular value.
func spectral(a mat.Matrix) float64 { return singular(a)[0] }

func identity(d int) *mat.Dense { return scaled(d, 1) }

func scaled(d int, v float64) *mat.Dense {
	e := mat.NewDense(d, d, nil)
	for i := range d {
		e.Set(i, i, v)
	}
	return e
}

func add(a *mat.Dense, s float64, b mat.Matrix) {
	var part mat.Dense
	part.Scale(s, b)
	a.Add(a, &part)
}

func minus(a, b []float64) []float64 { return floats.SubTo(make([]float64, len(a)), a, b) }

func plus(a []float64, s float64, b []float64) []float64 {
	return floats.AddScaledTo(make([]float64, len(a)), a, s, b)
}

func scale(s float64, a []float64) []float64 { return floats.ScaleTo(make([]float64, len(a)), s, a) }

func norm(x []float64) float64 { return floats.Norm(x, 2) }

// minimise finds a minimum of f, which falls and then rises between a and b, by golden sections.
func minimise(f func(float64) float64, a, b float64, steps int) (at, least float64) {
	share := (math.Sqrt(5) - 1) / 2
	p, q := b-share*(b-a), a+share*(b-a)
	fp, fq := f(p), f(q)
	for range steps {
		if fp <= fq {
			b, q, fq = q, p, fp
			p = b - share*(b-a)
			fp = f(p)
		} else {
			a, p, fp = p, q, fq
			q = a + share*(b-a)
			fq = f(q)
		}
	}
	if fp <= fq {
		return p, fp
	}
	return q, fq
}
