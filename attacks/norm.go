package attacks

import (
	"fmt"
	"math"

	"selfheal/internal/vector"
)

// Norm measures a perturbation: ℓ∞, ℓ2 or ℓ1 over all C·H·W values.
type Norm int

// The norms; the zero value is Linf.
const (
	Linf Norm = iota
	L2
	L1
)

var normNames = [...]struct{ name, title string }{{"linf", "ℓ∞"}, {"l2", "ℓ2"}, {"l1", "ℓ1"}}

// Norms lists the norms.
func Norms() []Norm { return []Norm{Linf, L2, L1} }

// ParseNorm reads what [Norm.String] writes.
func ParseNorm(s string) (Norm, error) {
	for _, n := range Norms() {
		if s == n.String() {
			return n, nil
		}
	}
	return 0, fmt.Errorf("unknown norm %q (want one of %v)", s, Norms())
}

// known reports whether n is a norm.
func (n Norm) known() bool { return n >= 0 && int(n) < len(normNames) }

// String returns the norm's name, "linf".
func (n Norm) String() string {
	if !n.known() {
		return fmt.Sprintf("norm(%d)", int(n))
	}
	return normNames[n].name
}

// Title is for readers, "ℓ∞".
func (n Norm) Title() string { return normNames[n].title }

// MarshalText writes the norm's name.
func (n Norm) MarshalText() ([]byte, error) {
	if !n.known() {
		return nil, fmt.Errorf("no such norm: %d", int(n))
	}
	return []byte(n.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (n *Norm) UnmarshalText(text []byte) error {
	parsed, err := ParseNorm(string(text))
	if err == nil {
		*n = parsed
	}
	return err
}

// Dual is the norm that bounds a linear function on the unit ball of n: the
// boundary f + w·δ = 0 lies at distance |f| / ‖w‖_dual.
func (n Norm) Dual() Norm {
	switch n {
	case Linf:
		return L1
	case L1:
		return Linf
	}
	return L2
}

// Length is the norm of v, summed in float64; NaN if a value is.
func (n Norm) Length(v []float32) float64 {
	switch n {
	case Linf:
		return float64(vector.Max(v))
	case L1:
		return vector.Sum1(v)
	}
	return math.Sqrt(vector.Sum2(v))
}

// Distance is the norm of a − b. The differences and their sum are taken in
// float64, and NaN gives NaN; a and b have the same length.
func (n Norm) Distance(a, b []float32) float64 {
	switch n {
	case Linf:
		return vector.DistanceMax(a, b)
	case L1:
		return vector.Distance1(a, b)
	}
	return math.Sqrt(vector.Distance2(a, b))
}

// widest is the distance of the black image and the white one: a larger ball holds every image.
func (n Norm) widest(s Shape) float64 {
	switch n {
	case Linf:
		return 1
	case L1:
		return float64(s.Size())
	}
	return math.Sqrt(float64(s.Size()))
}

// clampUnit moves v into [0,1].
func clampUnit(v float32) float32 {
	if v < 0 {
		return 0
	}
	if v > 1 {
		return 1
	}
	return v
}

// box writes the ends of the set {ℓ∞ ball of radius eps around x} ∩ [0,1]. An
// end that is no float32 is rounded towards x, so that no point between the
// ends is further than eps from x in exact arithmetic. (torch rounds x ± eps to
// the nearest float32, which may be half a unit in the last place outside.)
func box(x []float32, eps float64, lo, hi []float32) {
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
}

// projectL2 moves p to x + v·min(eps,‖v‖)/(‖v‖+1e-12), v = p − x, and clamps it
// to [0,1]: AutoAttack's projection, which is not the nearest point of the
// intersection of ball and box.
func projectL2(x, p []float32, eps float64) {
	n := L2.Distance(p, x)
	vector.TowardClamped(x, p, float32(min(eps, n)/(n+1e-12)))
}

// roundingSlack is the relative excess over epsilon that float32 rounding may
// leave; a judge allows 1e-5.
const roundingSlack = 5e-6

// confine pulls adv into the ball of radius eps around x when rounding of many
// float32 values has left it outside by more than roundingSlack: each value
// moves towards x in proportion and is rounded towards x. It leaves every other
// point as it is, bit for bit.
func confine(n Norm, x, adv []float32, eps float64) {
	d := n.Distance(adv, x)
	if !(d > eps*(1+roundingSlack)) {
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
