package attacks

import (
	"fmt"
	"math"

	"selfheal/internal/vector"
)

// Norm measures a perturbation over all C·H·W values: ℓ∞, ℓ2, ℓ1 or ℓ0. ℓ0 is the number of values that differ; it is
// called a norm but is none.
type Norm int

// The norms; the zero value is Linf.
const (
	Linf Norm = iota
	L2
	L1
	L0
)

// norms is the table of norms. widest returns the norm of a vector of so many ones.
var norms = [...]struct {
	name, title string
	dual        Norm
	length      func(v []float32) float64
	distance    func(a, b []float32) float64
	widest      func(size float64) float64
}{
	Linf: {"linf", "ℓ∞", L1, func(v []float32) float64 { return float64(vector.Max(v)) }, vector.DistanceMax,
		func(float64) float64 { return 1 }},
	L2: {"l2", "ℓ2", L2, func(v []float32) float64 { return math.Sqrt(vector.Sum2(v)) },
		func(a, b []float32) float64 { return math.Sqrt(vector.Distance2(a, b)) }, math.Sqrt},
	L1: {"l1", "ℓ1", Linf, vector.Sum1, vector.Distance1, func(size float64) float64 { return size }},
	L0: {"l0", "ℓ0", L0, func(v []float32) float64 { return float64(vector.Changed(v, make([]float32, len(v)))) },
		func(a, b []float32) float64 { return float64(vector.Changed(a, b)) },
		func(size float64) float64 { return size }},
}

// Norms lists the norms.
func Norms() []Norm { return []Norm{Linf, L2, L1, L0} }

// Pixels returns the number of pixels in which two images differ, in one channel or several.
func Pixels(a, b []float32, s Shape) (n int) {
	plane := s.H * s.W
	for i := range plane {
		for c := range s.C {
			if a[c*plane+i] != b[c*plane+i] {
				n++
				break
			}
		}
	}
	return n
}

// ParseNorm reads what [Norm.String] writes.
func ParseNorm(s string) (Norm, error) {
	for _, n := range Norms() {
		if s == n.String() {
			return n, nil
		}
	}
	return 0, fmt.Errorf("unknown norm %q (want one of %v)", s, Norms())
}

// String returns the norm's name, "linf".
func (n Norm) String() string { return norms[n].name }

// Title returns the norm's name for readers, "ℓ∞".
func (n Norm) Title() string { return norms[n].title }

// MarshalText writes the norm's name.
func (n Norm) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (n *Norm) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNorm(string(text))
	return err
}

// Enclosing returns the radius of the smallest ℓ2 ball around the norm's ball of radius epsilon, in so many dimensions.
// For ℓ0 the ball is cut to [0,1].
func (n Norm) Enclosing(epsilon float64, dimensions int) float64 {
	switch n {
	case Linf:
		return epsilon * math.Sqrt(float64(dimensions))
	case L0:
		return math.Sqrt(epsilon)
	}
	return epsilon
}

// Dual returns the norm that bounds a linear function on the unit ball of n: the boundary f + w·δ = 0 lies at distance
// |f| / ‖w‖_dual. ℓ0 has none.
func (n Norm) Dual() Norm { return norms[n].dual }

// Length returns the norm of v, summed in float64; NaN if a value is NaN.
func (n Norm) Length(v []float32) float64 { return norms[n].length(v) }

// Distance returns the norm of a − b. It subtracts and sums in float64, and returns NaN if a value is NaN; a and b have
// the same length.
func (n Norm) Distance(a, b []float32) float64 { return norms[n].distance(a, b) }

// Widest returns the distance between the black image and the white one: a larger ball holds every image.
func (n Norm) Widest(s Shape) float64 { return norms[n].widest(float64(s.Size())) }

// box returns the ends of the set {ℓ∞ ball of radius eps around x} ∩ [0,1], nil for another norm. An end that is not a
// float32 is rounded towards x, so that no point between the ends is farther than eps from x in exact arithmetic.
// (torch rounds x ± eps to the nearest float32, which may lie half a unit in the last place outside.)
func box(n Norm, x []float32, eps float64) (lo, hi []float32) {
	if n != Linf {
		return nil, nil
	}
	lo, hi = make([]float32, len(x)), make([]float32, len(x))
	for i, v := range x {
		l, h := float32(float64(v)-eps), float32(float64(v)+eps)
		if float64(v)-float64(l) > eps {
			l = math.Nextafter32(l, 2)
		}
		if float64(h)-float64(v) > eps {
			h = math.Nextafter32(h, -2)
		}
		lo[i], hi[i] = max(l, 0), min(h, 1)
	}
	return lo, hi
}

// projectL2 moves p to x + v·min(eps,‖v‖)/(‖v‖+1e-12), v = p − x, and clamps it to [0,1]. AutoAttack does the same; the
// result is not the nearest point of the intersection of ball and box.
func projectL2(x, p []float32, eps float64) {
	n := L2.Distance(p, x)
	vector.TowardClamped(x, p, float32(min(eps, n)/(n+1e-12)))
}

// roundingSlack is the relative excess over epsilon that float32 rounding may leave; the judge allows 1e-5.
const roundingSlack = 5e-6

// confine pulls adv into the ball of radius eps around x if float32 rounding has left it outside by more than
// roundingSlack: each value moves towards x in proportion and is rounded towards x. It leaves every other point
// unchanged, bit for bit.
func confine(n Norm, x, adv []float32, eps float64) {
	d := n.Distance(adv, x)
	if n == L0 || !(d > eps*(1+roundingSlack)) { // a count of values has no rounding error
		return
	}
	shrink := eps / d
	for i, v := range x {
		exact := float64(v) + (float64(adv[i])-float64(v))*shrink
		r := float32(exact)
		if (float64(r)-exact)*(exact-float64(v)) > 0 {
			r = math.Nextafter32(r, v)
		}
		adv[i] = r
	}
}
