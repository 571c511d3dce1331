package theory

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
)

// curve is an arc in the plane, γ(s) = ρ(s)·(cos s, sin s) with ρ(s) = 1 + bulge·cos 2s, for s between from and to.
// It is a waisted oval with a gap between its ends, symmetric about the first axis if from + to = 2π.
type curve struct {
	bulge, from, to float64
	samples         []Point   // at equal steps of s, both ends included
	distance        []float64 // scratch space of project, so a curve serves one goroutine
}

func newCurve(bulge, from, to float64, n int) *curve {
	c := &curve{bulge: bulge, from: from, to: to, samples: make([]Point, n), distance: make([]float64, n)}
	for i := range c.samples {
		c.samples[i] = c.at(c.param(i))
	}
	return c
}

func (c *curve) param(i int) float64 {
	return c.from + (c.to-c.from)*float64(i)/float64(len(c.samples)-1)
}

func (c *curve) radius(s float64) (value, first, second float64) {
	sin, cos := math.Sincos(2 * s)
	return 1 + c.bulge*cos, -2 * c.bulge * sin, -4 * c.bulge * cos
}

func (c *curve) at(s float64) Point {
	sin, cos := math.Sincos(s)
	r := 1 + c.bulge*math.Cos(2*s)
	return Point{r * cos, r * sin}
}

func (c *curve) derivatives(s float64) (first, second Point) {
	r, dr, ddr := c.radius(s)
	sin, cos := math.Sincos(s)
	return Point{dr*cos - r*sin, dr*sin + r*cos},
		Point{(ddr-r)*cos - 2*dr*sin, (ddr-r)*sin + 2*dr*cos}
}

// curvature returns |γ'×γ”|/|γ'|³ = |ρ² + 2ρ'² − ρρ”| / (ρ² + ρ'²)^{3/2}, the norm of the second fundamental form.
func (c *curve) curvature(s float64) float64 {
	r, dr, ddr := c.radius(s)
	return math.Abs(r*r+2*dr*dr-r*ddr) / math.Pow(r*r+dr*dr, 1.5)
}

// length returns the length of the arc between two parameters, by Gauss-Legendre quadrature.
func (c *curve) length(a, b float64) float64 {
	return quad.Fixed(func(s float64) float64 {
		r, dr, _ := c.radius(s)
		return math.Hypot(r, dr)
	}, a, b, 80, nil, 0)
}

// project returns the parameter of E(x), the arc's point nearest to x. It refines every local minimum of the sampled
// distance that could be the nearest point, by golden sections and then by Newton's method on the derivative of the
// squared distance.
func (c *curve) project(x Point) float64 {
	n := len(c.samples)
	square := func(p Point) float64 { d := p.minus(x); return d.dot(d) }
	distance := c.distance
	least := math.Inf(1)
	for i, p := range c.samples {
		distance[i] = square(p)
		least = min(least, distance[i])
	}
	step := (c.to - c.from) / float64(n-1)
	slack := math.Sqrt(least) + 1.5*step // |γ'| < 1.5, so no point between samples is nearer by more
	best, at := math.Inf(1), c.from
	for i, d := range distance {
		if d > slack*slack || (i > 0 && distance[i-1] < d) || (i < n-1 && distance[i+1] < d) {
			continue
		}
		low, high := c.param(max(i-1, 0)), c.param(min(i+1, n-1))
		s, _ := minimise(func(s float64) float64 { return square(c.at(s)) }, low, high, 12)
		for range 4 {
			first, second := c.derivatives(s)
			off := c.at(s).minus(x)
			slope, bend := off.dot(first), first.dot(first)+off.dot(second)
			if bend <= 0 {
				break
			}
			s = min(max(s-slope/bend, low), high)
		}
		if e := square(c.at(s)); e < best {
			best, at = e, s
		}
	}
	return at
}
