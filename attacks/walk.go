package attacks

import (
	"math/rand/v2"
	"slices"

	"selfheal/internal/vector"
)

// Walk is a point in the ball of a norm around an image, within [0,1], that moves as PGD does. Trainings use it, too.
type Walk struct {
	norm      Norm
	radius    float64
	image     []float32
	cur, next []float32 // the point; a buffer for another
	lo, hi    []float32 // ℓ∞ ball ∩ [0,1]
}

// NewWalk returns a walk that begins at the image. The norm is ℓ∞, ℓ2 or ℓ1.
func NewWalk(n Norm, image []float32, epsilon float64) *Walk {
	w := &Walk{norm: n, radius: epsilon, image: image, cur: slices.Clone(image), next: make([]float32, len(image))}
	w.lo, w.hi = box(n, image, epsilon)
	return w
}

// Point returns the point. The next step overwrites it.
func (w *Walk) Point() []float32 { return w.cur }

// Scatter moves the point to a random one: by uniform noise in ℓ∞, by Gaussian noise in ℓ2 and ℓ1. The noise is scaled
// to the ball's border, in ℓ1 projected into the ball.
func (w *Walk) Scatter(rng *rand.Rand) { randomStart(w.norm, w.image, w.radius, rng, w.cur) }

// Jump moves the point to another one of the ball.
func (w *Walk) Jump(to []float32) { copy(w.cur, to) }

// Follow moves the point by a length along the loss's gradient there: in ℓ∞ along its signs, in ℓ2 along its
// direction, in ℓ1 along the signs of its largest entries. The point is then projected back into the ball.
func (w *Walk) Follow(gradient []float32, size float64) {
	n := len(w.cur)
	g, cur, length := gradient[:n], w.cur, float32(size)
	switch w.norm {
	case Linf:
		lo, hi := w.lo[:n], w.hi[:n]
		for i, v := range cur {
			cur[i] = min(max(v+along(g[i], length), lo[i]), hi[i])
		}
	case L2:
		vector.AddScaled(cur, g, float32(size/(L2.Length(g)+1e-12)), cur)
		projectL2(w.image, cur, w.radius)
	default:
		sparseStep(w.image, cur, g, w.next, length, slideShare, w.radius)
		w.cur, w.next = w.next, w.cur
	}
}
