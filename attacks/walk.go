package attacks

import (
	"context"
	"math"
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

// Scatter moves the point to a random one: by uniform noise in ℓ∞, by Gaussian noise in ℓ2 and ℓ1. The noise is
// scaled to the ball's border, in ℓ1 projected into the ball.
func (w *Walk) Scatter(rng *rand.Rand) { randomStart(w.norm, w.image, w.radius, rng, w.cur) }

// Jump moves the point to another one of the ball.
func (w *Walk) Jump(to []float32) { copy(w.cur, to) }

// Climb moves the point by steps along the gradient of an oracle's loss, each shorter than the one before, and returns
// the point of the largest loss that it met.
func (w *Walk) Climb(ctx context.Context, o Oracle, loss Loss, label, target, steps int) (best []float32, top float64,
	err error) {
	var e Evaluation
	top = math.Inf(-1)
	for k := range steps + 1 {
		if err := o.Gradient(ctx, w.cur, loss, label, target, &e); err != nil {
			return nil, 0, err
		}
		if float64(e.Loss) > top {
			best, top = slices.Clone(w.cur), float64(e.Loss)
		}
		w.Follow(e.Gradient, w.radius*(1-float64(k)/float64(steps))/2)
	}
	return best, top, nil
}

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
