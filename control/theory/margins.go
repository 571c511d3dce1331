package theory

import (
	"math"
	"math/rand/v2"
)

// Margins is the paper's margin figure: a binary data set on a curve in the plane, a linear classifier that is right
// on all of it but runs close to one class, and its margins with and without the projection onto the curve.
type Margins struct {
	Curve  []Point `json:"curve"` // M, sampled
	Data   []Point `json:"data"`
	Labels []int   `json:"labels"` // 1 or −1
	Normal Point   `json:"normal"` // F(x) = sign(nᵀx + b), ‖n‖ = 1
	Offset float64 `json:"offset"`

	// d_M(F), half the geodesic distance between the nearest points of different classes
	Manifold  float64 `json:"manifold"`
	Euclidean float64 `json:"euclidean"` // d_e(F)
	Projected float64 `json:"projected"` // d_e(F∘E)

	Geodesic      []Point  `json:"geodesic"`       // of length 2·d_M
	EuclideanWay  [2]Point `json:"euclidean_way"`  // the shortest perturbation that changes F
	ProjectedWay  [2]Point `json:"projected_way"`  // the same for F∘E
	PartitionText [4]Point `json:"partition_text"` // positions of the letters A, B, C and D

	Regions *Field `json:"-"` // F(x)
	// 0…3 for A: F = 1, projected to the upper part; B: 1, lower; C: −1, lower; D: −1, upper
	Partitions *Field `json:"-"`
	Composite  *Field `json:"-"` // F(E(x))
}

// The curve's ends face each other across a gap; the classes lie along its upper and its lower part, and the
// classifier's line enters through the gap, just below the upper end.
const (
	curveBulge  = 0.15
	curveEnd    = 25 * math.Pi / 180  // angle of the upper end; the lower end has 2π less this
	classEnd    = 110 * math.Pi / 180 // angle of the class' other end
	lineCrosses = 210 * math.Pi / 180 // where the line crosses the curve, far from the data
	lineBelow   = 0.12                // distance below the upper end
)

func margins(into *Result, o Options, rng *rand.Rand) []Check {
	c := newCurve(curveBulge, curveEnd, 2*math.Pi-curveEnd, 401)
	m := &Margins{Curve: c.samples}
	into.Margins = m
	left, end := c.at(lineCrosses), c.at(curveEnd)
	along := end.minus(left).plus(-lineBelow, Point{0, 1})
	along = Point{}.plus(1/along.norm(), along)
	m.Normal = Point{-along[1], along[0]}
	m.Offset = -m.Normal.dot(left)
	classify := func(x Point) float64 { return math.Copysign(1, m.Normal.dot(x)+m.Offset) }
	healed := func(x Point) float64 { return classify(c.at(c.project(x))) }

	var upper, lower []float64
	for i := range o.pick(24, 12) {
		s := curveEnd + (classEnd-curveEnd)*rng.Float64()
		t := curveEnd + (classEnd-curveEnd)*rng.Float64()
		switch i { // the data include the classes' ends, so that margins do not depend on the draw
		case 0:
			s, t = curveEnd, curveEnd
		case 1:
			s, t = classEnd, classEnd
		}
		upper, lower = append(upper, s), append(lower, 2*math.Pi-t)
	}
	for i := range upper {
		m.Data = append(m.Data, c.at(upper[i]), c.at(lower[i]))
		m.Labels = append(m.Labels, 1, -1)
	}
	from, to, geodesic := c.geodesic(upper, lower)
	m.Manifold = geodesic / 2
	for i := range 200 {
		m.Geodesic = append(m.Geodesic, c.at(from+(to-from)*float64(i)/199))
	}
	// even: no row lies on the axis of symmetry, where both ends are equally near
	box, n := Box{{-1.6, -1.6}, {1.6, 1.6}}, o.pick(360, 160)
	bare, regions := euclideanMargin(m.Data, classify, box, n)
	mended, composite := euclideanMargin(m.Data, healed, box, n)
	m.Euclidean, m.EuclideanWay = bare.distance, [2]Point{bare.from, bare.to}
	m.Projected, m.ProjectedWay = mended.distance, [2]Point{mended.from, mended.to}
	m.Regions, m.Composite = regions, composite
	m.Partitions = &Field{Box: box, N: n, Values: make([]float64, n*n)}
	part := map[[2]float64]float64{{1, 1}: 0, {1, -1}: 1, {-1, -1}: 2, {-1, 1}: 3}
	for i, f := range regions.Values {
		m.Partitions.Values[i] = part[[2]float64{f, composite.Values[i]}]
	}
	for part := range m.PartitionText {
		m.PartitionText[part] = m.Partitions.inside(float64(part), m.Curve)
	}

	direct := math.Inf(1)
	for _, x := range m.Data {
		direct = min(direct, math.Abs(m.Normal.dot(x)+m.Offset))
	}
	return []Check{
		equal("data on the curve", "F and F∘E are right on every point of the data: share",
			accuracy(m.Data, m.Labels, classify, healed), o.factor("accuracy"), 0),
		equal("geodesic", "2·d_M by quadrature is the length of a polygon of 200,000 sides", geodesic,
			o.factor("geodesic")*c.polygon(from, to, 200_000), 1e-8),
		equal("Euclidean margin", "d_e(F) by search is the least |nᵀx + b|", m.Euclidean,
			o.factor("line margin")*direct, 1e-6),
		equal("projection margin",
			"d_e(F∘E) is the upper end's distance to the axis of symmetry, where E changes ends", m.Projected,
			o.factor("medial axis")*end[1], 1e-5),
		atLeast("projection enlarges the margin", "d_e(F∘E) > d_e(F): here at least twice as large", m.Projected,
			2*o.factor("gain")*m.Euclidean, 0),
		atMost("bounded by the manifold margin", "d_e(F∘E) ≤ d_M: no way in the plane is longer than one on M",
			m.Projected, o.factor("geodesic")*m.Manifold, 0).within(3),
	}
}

// geodesic returns the shortest way along the curve from a parameter of one set to a parameter of the other.
func (c *curve) geodesic(upper, lower []float64) (from, to, length float64) {
	length = math.Inf(1)
	for _, s := range upper {
		for _, t := range lower {
			if d := math.Abs(c.length(s, t)); d < length {
				from, to, length = s, t, d
			}
		}
	}
	return from, to, length
}

// polygon returns the length of an inscribed polygon with n equal steps of the parameter.
func (c *curve) polygon(a, b float64, n int) float64 {
	length, last := 0.0, c.at(a)
	for i := 1; i <= n; i++ {
		next := c.at(a + (b-a)*float64(i)/float64(n))
		length += next.minus(last).norm()
		last = next
	}
	return length
}
