package attacks

import (
	"context"
	"math/rand/v2"

	"selfheal/internal/vector"
)

// RunAPGD makes one run of a from a given start.
func RunAPGD(a APGD, o Oracle, im Image, target int,
	start []float32) (best, adv []float32, loss float64, res Result, err error) {
	r := newAscent(withDefaults(a, apgdParameters), o, im, Options{})
	r.target = target
	copy(r.cur, start)
	err = r.climb(context.Background())
	return r.best, r.adv, r.bestLoss, r.res, err
}

// RunSquare makes one run of a with the given random numbers. The best point is that of a run without success.
func RunSquare(a Square, o Oracle, im Image, rng *rand.Rand) (last, best []float32, res Result, won bool, err error) {
	s := newSearch(withDefaults(a, squareParameters), o, im, Options{})
	s.rng = rng
	won, err = s.run(context.Background())
	if best = s.tried; s.bumps != nil {
		best = make([]float32, len(im.Pixels))
		vector.AddScaled(im.Pixels, s.bumps.delta, 1, best)
	}
	return s.tried, best, s.res, won, err
}

// ProjectPlane is FAB's projection of t onto {u : w·u = b} within [0,1].
func ProjectPlane(n Norm, t, w []float32, b float64) []float32 {
	d := make([]float32, len(t))
	p := newPlaneProjector(n, borrow(len(t)))
	for i, v := range t {
		b -= float64(w[i]) * float64(v)
	}
	guess := float64(len(t) % 3) // any will do
	p.project(t, w, -b, &guess, d)
	return d
}

// ProjectL1 is the projection of x + y onto the ℓ1 ball around x within [0,1].
func ProjectL1(x, y []float32, radius float64) []float32 {
	out := make([]float32, len(x))
	projectL1(x, y, out, radius)
	return out
}

// SquareSide is the side of the window of query i.
func SquareSide(a Square, i int, shape Shape) int {
	return withDefaults(a, squareParameters).side(i, shape)
}

// SquareShare is the share of pixels of the window of query i.
func SquareShare(a Square, i int) float64 { return withDefaults(a, squareParameters).share(i) }

// Halvings lists what every checkpoint of a run with these losses decides, the
// best loss being as given all along.
func Halvings(losses []float64, start, best float64) (halved []bool) {
	h := newHalving(len(losses), .75, start)
	for i := range losses {
		if h.due(i) {
			halved = append(halved, h.stalled(losses, i, best))
		}
	}
	return halved
}

// Confine is the last guard against rounding.
func Confine(n Norm, x, adv []float32, eps float64) { confine(n, x, adv, eps) }

// Box is the ℓ∞ ball within [0,1].
func Box(x []float32, eps float64) (lo, hi []float32) { return box(Linf, x, eps) }

// Generator is the keyed generator.
var Generator = generator
