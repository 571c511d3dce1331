package theory

import (
	"math"
	"slices"
)

// Point is a point of the plane.
type Point [2]float64

func (p Point) plus(s float64, q Point) Point { return Point{p[0] + s*q[0], p[1] + s*q[1]} }
func (p Point) minus(q Point) Point           { return Point{p[0] - q[0], p[1] - q[1]} }
func (p Point) dot(q Point) float64           { return p[0]*q[0] + p[1]*q[1] }
func (p Point) norm() float64                 { return math.Hypot(p[0], p[1]) }

func heading(angle float64) Point { return Point{math.Cos(angle), math.Sin(angle)} }

// Box is a rectangle of the plane: its lower left and upper right corners.
type Box [2]Point

// Field is a function on the plane, sampled on a grid of N×N points that spans Box, corners included. Values[i·N+j]
// is the value in row i from below and column j from the left.
type Field struct {
	Box    Box
	N      int
	Values []float64
}

func (f *Field) at(i, j int) Point {
	s := f.Box[1].minus(f.Box[0])
	return f.Box[0].plus(1, Point{s[0] * float64(j) / float64(f.N-1), s[1] * float64(i) / float64(f.N-1)})
}

func sample(box Box, n int, value func(Point) float64) *Field {
	f := &Field{Box: box, N: n, Values: make([]float64, n*n)}
	for i := range f.Values {
		f.Values[i] = value(f.at(i/n, i%n))
	}
	return f
}

// inside returns the point with the most room for text in a region of equal values: the grid point farthest from any
// other value, from the border and from the points to avoid.
func (f *Field) inside(value float64, avoid []Point) Point {
	step := max(f.N/60, 1) // a coarse grid is exact enough
	out := slices.Clone(avoid)
	var in []Point
	for i := 0; i < f.N; i += step {
		for j := 0; j < f.N; j += step {
			if f.Values[i*f.N+j] == value {
				in = append(in, f.at(i, j))
			} else {
				out = append(out, f.at(i, j))
			}
		}
	}
	best, most := f.Box[0], -1.0
	for _, p := range in {
		room := min(p[0]-f.Box[0][0], f.Box[1][0]-p[0], p[1]-f.Box[0][1], f.Box[1][1]-p[1])
		for _, q := range out {
			room = min(room, p.minus(q).norm())
		}
		if room > most {
			best, most = p, room
		}
	}
	return best
}

// accuracy returns the fraction of points on which all classifiers are right.
func accuracy(points []Point, labels []int, classifiers ...func(Point) float64) float64 {
	right := 0
	for i, x := range points {
		if !slices.ContainsFunc(classifiers, func(f func(Point) float64) bool { return f(x) != float64(labels[i]) }) {
			right++
		}
	}
	return float64(right) / float64(len(points))
}

// nearest is the shortest way from a set of points to another class.
type nearest struct {
	distance float64
	from, to Point
}

// euclideanMargin returns d_e = inf_x inf_δ ‖δ‖₂ subject to label(x) ≠ label(x+δ) for a binary label, and the field
// of labels. It traces the decision boundary on a grid of n×n points, with a bisection on every edge whose ends
// differ. Then it makes the shortest distances from the points exact: golden sections find the direction, bisection
// the length. It does not see boundaries outside the box.
func euclideanMargin(points []Point, label func(Point) float64, box Box, n int) (nearest, *Field) {
	field := sample(box, n, label)
	var boundary []Point
	for at, here := range field.Values {
		i, j := at/n, at%n
		for _, to := range [][2]int{{i, j + 1}, {i + 1, j}} {
			if max(to[0], to[1]) < n && field.Values[to[0]*n+to[1]] != here {
				boundary = append(boundary, crossing(label, field.at(i, j), field.at(to[0], to[1])))
			}
		}
	}
	side := box[1].minus(box[0])
	h := max(side[0], side[1]) / float64(n-1)
	coarse := make([]nearest, len(points))
	least := math.Inf(1)
	for i, p := range points {
		coarse[i] = nearest{distance: math.Inf(1), from: p}
		for _, b := range boundary {
			if d := p.minus(b).norm(); d < coarse[i].distance {
				coarse[i].distance, coarse[i].to = d, b
			}
		}
		least = min(least, coarse[i].distance)
	}
	best := nearest{distance: math.Inf(1)}
	for _, c := range coarse {
		// the traced boundary is exact on the grid's lines and less than h away from them elsewhere
		if c.distance > least+h {
			continue
		}
		if c = exact(label, c, h); c.distance < best.distance {
			best = c
		}
	}
	return best, field
}

// crossing returns the point between a and b at which the label changes. a and b have different labels.
func crossing(label func(Point) float64, a, b Point) Point {
	of := label(a)
	for range 48 {
		mid := Point{(a[0] + b[0]) / 2, (a[1] + b[1]) / 2}
		if label(mid) == of {
			a = mid
		} else {
			b = mid
		}
	}
	return b
}

// exact refines a way that was found on a grid of step h.
func exact(label func(Point) float64, c nearest, h float64) nearest {
	of := label(c.from)
	to := c.to.minus(c.from)
	angle := math.Atan2(to[1], to[0])
	reach := func(angle float64) float64 {
		u := heading(angle)
		low, high := max(c.distance-2*h, 0), c.distance+2*h
		if label(c.from.plus(high, u)) == of {
			return math.Inf(1)
		}
		if low > 0 && label(c.from.plus(low, u)) != of {
			return low
		}
		return crossing(label, c.from.plus(low, u), c.from.plus(high, u)).minus(c.from).norm()
	}
	window := min(3*h/c.distance, math.Pi/3)
	angle, d := minimise(reach, angle-window, angle+window, 40)
	if d > c.distance { // the grid's point was already the nearest
		return c
	}
	return nearest{d, c.from, c.from.plus(d, heading(angle))}
}
