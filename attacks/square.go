package attacks

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"selfheal/internal/vector"
)

// square is the Square Attack (Andriushchenko et al. 2020): a random search that changes square windows and sees only
// logits. It minimises the margin z_y − max_{j≠y} z_j and stops at the first misclassified query.
//
// Every image draws its own windows and signs; the reference shares them within a batch. In ℓ∞ a window often holds the
// proposed values already. Such a query counts as an iteration, but the model is not asked again.
type square struct {
	common
	Queries, Restarts int
	PInit             float64 // fraction of the pixels in the first windows (section 5)
	// RescaleSchedule stretches the schedule of window sizes, made for 10000 queries, to Queries. AutoAttack does not
	// use it.
	RescaleSchedule bool
}

// Check also returns an error in ℓ2 and ℓ1 for images with a side below 5 pixels: the start is a grid with 5 tiles a
// side.
func (a square) Check(classes int, shape Shape) error {
	if a.Norm != Linf && min(shape.H, shape.W) < 5 {
		return fmt.Errorf("square: in %s images must be at least 5 pixels a side, not %dx%d", a.Norm, shape.H, shape.W)
	}
	return a.common.Check(classes, shape)
}

// Passes returns one forward pass for each query and for each start.
func (a square) Passes(int) (forward, backward int) {
	return times(a.Restarts, a.Queries+1), 0
}

// share returns the fraction of the pixels that the window of query i (from 0) covers.
func (a square) share(i int) float64 {
	if a.RescaleSchedule {
		i = int(float64(i) / float64(a.Queries) * 10000)
	}
	halved := 0
	for _, end := range [...]int{10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000} {
		if i <= end {
			break
		}
		halved++
	}
	return a.PInit / float64(int(1)<<halved)
}

// side returns the side of the window of query i: √(share·h·w), rounded half to even. It is at least 1 in ℓ∞, an odd
// number from 3 on otherwise, and at most the image's shorter side.
func (a square) side(i int, shape Shape) int {
	s := int(math.RoundToEven(math.Sqrt(a.share(i) * float64(shape.H*shape.W))))
	if a.Norm == Linf {
		s = max(s, 1)
	} else {
		s = max(s, 3) | 1
	}
	return min(s, shape.H, shape.W)
}

func (a square) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	s := newSearch(a, o, im, how)
	variables := []any{s.source, &s.tried, &s.margin}
	if b := s.bumps; b != nil {
		variables = append(variables, &b.delta, &b.length, &b.moved, &b.strayed)
	}
	if err := s.resume(variables...); err != nil {
		return Result{}, err
	}
	for ; s.at.Restart < a.Restarts; s.at.Restart++ {
		if !s.at.Inside {
			*s.source = *source(how.Seed, a.Name(), s.at.Restart, 0, im.ID)
		}
		won, err := s.run(ctx)
		if err != nil {
			return Result{}, err
		}
		if won {
			s.succeed(s.now(0))
			return s.claim(s.tried, a.Norm, a.Epsilon), nil
		}
	}
	return s.res, nil
}

// search is the state of Square on one image.
type search struct {
	square
	attempt
	shape  Shape
	source *rand.ChaCha8 // of rng
	rng    *rand.Rand

	tried  []float32 // point to try; in ℓ∞ the best one so far, except for the window that is being tried
	held   []float32 // ℓ∞: values of the best point in that window
	margin float64   // margin at the best point
	lo, hi []float32 // ℓ∞ ball ∩ [0,1]
	bumps  *bumps    // ℓ2 and ℓ1; it holds the best point
}

func newSearch(a square, o Oracle, im Image, how Options) *search {
	s := &search{square: a, attempt: newAttempt(o, im, how), shape: o.Shape(), tried: make([]float32, len(im.Pixels)),
		source: &rand.ChaCha8{}}
	s.rng = rand.New(s.source)
	s.lo, s.hi = box(a.Norm, im.Pixels, a.Epsilon)
	if a.Norm != Linf {
		s.bumps = newBumps(a, s.shape)
	}
	return s
}

// window is a square of the image, the same in every channel.
type window struct{ top, left, side int }

// randomWindow draws a window. Rows run over [0, h−side), and columns likewise: as in the reference, the last position
// is drawn only when there is no other.
func (s *search) randomWindow(side int) window {
	top := int(s.rng.Float64() * float64(s.shape.H-side))
	left := int(s.rng.Float64() * float64(s.shape.W-side))
	return window{top, left, side}
}

// rows calls f with the start and end of each row of the window in channel c.
func (s *search) rows(w window, c int, f func(from, to int)) {
	at := (c*s.shape.H+w.top)*s.shape.W + w.left
	for range w.side {
		f(at, at+w.side)
		at += s.shape.W
	}
}

// run makes one restart, or goes on with it, and reports whether tried is misclassified at its end.
//
// A tie between the label and another class is a success only if argmax, which takes the lowest class, picks the other
// one. If argmax picks the label, the margin is 0, which is no success, and the search goes on.
func (s *search) run(ctx context.Context) (bool, error) {
	if !s.at.Inside {
		if s.Norm == Linf {
			s.stripes()
		} else {
			s.bumps.start(s)
		}
		won, err := s.wrong(ctx, s.tried)
		if won || err != nil {
			return won, err
		}
		s.margin = -Margin.Value(s.eval.Logits, s.im.Label, -1)
		s.at.Inside, s.at.Step = true, 0
	}
	defer func() { s.at.Inside = false }()
	for ; s.at.Step < s.Queries; s.at.Step++ {
		if err := s.keep(); err != nil {
			return false, err
		}
		side := s.side(s.at.Step, s.shape)
		var changed window
		s.res.Iterations++
		if s.Norm != Linf {
			s.bumps.step(s, side)
		} else if changed = s.randomWindow(side); !s.write(changed) {
			continue // the window has not changed: the answer is known
		}
		if won, err := s.wrong(ctx, s.tried); won || err != nil {
			return won, err
		}
		margin := -Margin.Value(s.eval.Logits, s.im.Label, -1)
		improved := margin < s.margin || margin <= 0
		if improved {
			s.margin = margin
		}
		s.settle(changed, improved)
	}
	return false, nil
}

// settle ends a query: the better point becomes the best one.
func (s *search) settle(w window, improved bool) {
	switch {
	case improved && s.Norm != Linf:
		s.bumps.measure(s.im.Pixels, s.tried)
	case s.Norm != Linf:
		vector.WindowRestore(s.bumps.delta, s.bumps.windows, s.bumps.held)
	case !improved:
		held := s.held
		for c := range s.shape.C {
			s.rows(w, c, func(a, b int) { held = held[copy(s.tried[a:b], held):] })
		}
	}
}

// end returns one end of the box, at random.
func (s *search) end() []float32 {
	if randomSign(s.rng) > 0 {
		return s.hi
	}
	return s.lo
}

// stripes writes the ℓ∞ start: every column of every channel lies at one end of the box.
func (s *search) stripes() {
	h, w := s.shape.H, s.shape.W
	for c := range s.shape.C {
		for col := range w {
			end := s.end()
			for i := c*h*w + col; i < (c+1)*h*w; i += w {
				s.tried[i] = end[i]
			}
		}
	}
}

// write makes the ℓ∞ step: ±2ε on each channel of a window, clipped. From any point of the ball that reaches the box's
// end, so write stores the end. It reports whether that changed anything.
func (s *search) write(w window) bool {
	changed := false
	s.held = s.held[:0]
	for c := range s.shape.C {
		end := s.end()
		s.rows(w, c, func(a, b int) {
			changed = changed || !slices.Equal(s.tried[a:b], end[a:b])
			s.held = append(s.held, s.tried[a:b]...)
			copy(s.tried[a:b], end[a:b])
		})
	}
	return changed
}
