package attacks

import (
	"context"
	"math"
	"slices"

	"selfheal/internal/vector"
)

// rays is the Ray Searching attack (Chen & Gu 2020, algorithm 3), which sees classes alone. Among the directions with
// values of ±1 it looks for one with a near boundary. It flips the signs of a block; if the image is still
// misclassified at the least radius so far, bisection finds the boundary in the new direction. The blocks are the whole
// image, its halves, its quarters and so on.
type rays struct {
	common
	Queries int
}

// rayTolerance is the length in ℓ2 to which a ray's boundary is found.
const rayTolerance = 1e-3

// Passes returns one forward pass per query.
func (a rays) Passes(int) (forward, backward int) { return a.Queries, 0 }

func (a rays) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	q := newQuestions(a.common, o, im, how, a.Queries)
	return q.finished(ctx, a.search(ctx, &q))
}

// search ends when q has no further question.
func (a rays) search(ctx context.Context, q *questions) error {
	x0, n := q.im.Pixels, len(q.im.Pixels)
	signs, x := slices.Repeat([]float32{1}, n), make([]float32, n)
	at := func(radius float64) []float32 {
		vector.AddScaledClamped(x0, signs, float32(radius), x)
		return x
	}
	best := math.Inf(1) // radius in ℓ∞; at 1 every value is at an end of [0,1]
	for size := n; ; size = max((size+1)/2, 1) {
		for from := 0; from < n; from += size {
			block := signs[from:min(from+size, n)]
			turn(block)
			reach := min(best, 1)
			wrong, err := q.ask(ctx, at(reach))
			if err == nil && wrong {
				reach, err = q.halve(ctx, 0, reach, rayTolerance/math.Sqrt(float64(n)), at)
			}
			if err != nil {
				return err
			}
			if wrong && reach < best {
				best = reach
			} else {
				turn(block)
			}
		}
	}
}

func turn(signs []float32) {
	for i := range signs {
		signs[i] = -signs[i]
	}
}
