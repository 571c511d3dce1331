package theory

import (
	"math"
	"math/rand/v2"
)

// LinearDefence is the paper's linear reactive defence: two classes on a line through the origin of the plane, a linear
// classifier that crosses it at a small angle, perturbations across it, and the projection that takes them back.
type LinearDefence struct {
	Angle     float64 `json:"angle"`     // between the classifier's boundary and the data's line, radians
	Budget    float64 `json:"budget"`    // ‖x̃ − x‖₂ of every perturbed point
	Direction Point   `json:"direction"` // v, spans the data's line; P = v·vᵀ
	Normal    Point   `json:"normal"`    // n of F(x) = sign(nᵀx)
	Labels    []int   `json:"labels"`    // 1 or −1
	Clean     []Point `json:"clean"`
	Perturbed []Point `json:"perturbed"`
	// Controlled are the perturbed points plus the optimal control for T = 1 and c = 0.
	Controlled         []Point `json:"controlled"`
	AccuracyClean      float64 `json:"accuracy_clean"`
	AccuracyPerturbed  float64 `json:"accuracy_perturbed"`
	AccuracyControlled float64 `json:"accuracy_controlled"`
	Margin             float64 `json:"margin"`           // d_e(F), found by search
	ProjectedMargin    float64 `json:"projected_margin"` // d_e(F∘P), found by search
	Contraction        float64 `json:"contraction"`      // largest ‖Px̃ − x‖ / ‖x̃ − x‖

	Regions   *Field `json:"-"` // F(x)
	Loss      *Field `json:"-"` // ‖(I−P)x‖²
	Projected *Field `json:"-"` // F(Px)
}

func linearDefence(into *Result, o Options, rng *rand.Rand) []Check {
	const (
		angle  = 0.15
		inner  = 0.6 // data lie between these distances from the origin
		outer  = 2.0
		tilted = 0.55 // of the data's line
	)
	v, across := heading(tilted), heading(tilted+math.Pi/2)
	l := &LinearDefence{Angle: angle, Direction: v}
	into.LinearDefence = l
	l.Normal = Point{}.plus(math.Cos(angle), across).plus(math.Sin(angle), v)
	l.Budget = 1.2 * outer * math.Sin(angle) // a fifth more than the farthest point needs
	project := func(x Point) Point { return Point{}.plus(v.dot(x), v) }
	classify := func(x Point) float64 { return math.Copysign(1, l.Normal.dot(x)) }
	healed := func(x Point) float64 { return classify(project(x)) }

	least := math.Inf(1)
	for i := range 2 * o.pick(30, 15) {
		y := 1 - 2*(i%2)
		s := inner + (outer-inner)*rng.Float64()
		least = min(least, s)
		x := Point{}.plus(float64(y)*s, v)
		attacked := x.plus(-float64(y)*l.Budget, l.Normal)
		l.Labels, l.Clean, l.Perturbed = append(l.Labels, y), append(l.Clean, x), append(l.Perturbed, attacked)
		l.Controlled = append(l.Controlled, project(attacked))
		l.Contraction = max(l.Contraction, project(attacked).minus(x).norm()/attacked.minus(x).norm())
	}
	l.AccuracyClean = accuracy(l.Clean, l.Labels, classify)
	l.AccuracyPerturbed = accuracy(l.Perturbed, l.Labels, classify)
	l.AccuracyControlled = accuracy(l.Controlled, l.Labels, classify)

	box, n := Box{{-2.4, -2.4}, {2.4, 2.4}}, o.pick(401, 201)
	bare, regions := euclideanMargin(l.Clean, classify, box, n)
	mended, projected := euclideanMargin(l.Clean, healed, box, n)
	l.Loss = sample(box, n, func(x Point) float64 { e := x.minus(project(x)).norm(); return e * e })
	l.Regions, l.Projected, l.Margin, l.ProjectedMargin = regions, projected, bare.distance, mended.distance
	return []Check{
		equal("clean accuracy", "F is right on every clean point", l.AccuracyClean, o.factor("accuracy"), 0),
		equal("perturbed accuracy", "F is wrong on every perturbed point", l.AccuracyPerturbed,
			1-o.factor("accuracy"), 0),
		equal("controlled accuracy", "F is right on every controlled point", l.AccuracyControlled,
			o.factor("accuracy"), 0),
		atMost("projection contracts", "‖Px̃ − x‖ ≤ ‖x̃ − x‖ for x on the line", l.Contraction,
			o.factor("contraction"), 0).within(7),
		equal("margin of F", "d_e(F) = ‖x*‖·sin θ for the point x* nearest to the origin", l.Margin,
			o.factor("line margin")*least*math.Sin(angle), 1e-6),
		equal("margin of F∘P", "d_e(F∘P) = d_e(F) / sin θ", l.ProjectedMargin,
			o.factor("margin gain")*l.Margin/math.Sin(angle), 1e-5),
	}
}
