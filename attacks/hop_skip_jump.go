package attacks

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"selfheal/internal/vector"
)

// hopSkipJump is HopSkipJumpAttack (Chen, Jordan & Wainwright 2020, algorithm 2), which sees classes alone. It goes
// from a random image of another class, or one of [Options].Others, to the boundary and then makes steps. Answers at
// random points around the boundary point estimate the direction away from the label (Eq. 9 and 16). A step goes that
// way and is halved until its end is misclassified (section III-C). Bisection then leads back to the boundary on the
// way to the clean image.
type hopSkipJump struct {
	common
	Queries       int
	InitialPoints int // for the first estimate of a direction; the t-th takes √t times as many
}

const (
	mostPoints    = 10_000 // for an estimate
	blendInterval = 1e-3   // tolerance of the first boundary point, as a fraction of the way
)

// Passes returns one forward pass per query.
func (a hopSkipJump) Passes(int) (forward, backward int) { return a.Queries, 0 }

func (a hopSkipJump) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	n := len(im.Pixels)
	h := &hopSkipJumpRun{of: a, questions: newQuestions(a.common, o, im, how, a.Queries),
		rng: generator(how.Seed, a.name, 0, 0, im.ID), x: make([]float32, n), tried: make([]float32, n),
		way: make([]float32, n)}
	return h.finished(ctx, h.search(ctx))
}

// hopSkipJumpRun is the attack at work on one image.
type hopSkipJumpRun struct {
	questions
	of            hopSkipJump
	rng           *rand.Rand
	x, tried, way []float32 // misclassified point; a buffer for another; direction of a step
}

// search ends with an error when no question is left.
func (h *hopSkipJumpRun) search(ctx context.Context) error {
	if err := h.begin(ctx); err != nil {
		return err
	}
	for t := 1; ; t++ {
		away := h.Norm.Distance(h.x, h.im.Pixels)
		if err := h.estimate(ctx, t, away); err != nil {
			return err
		}
		if h.Norm == Linf {
			for i, g := range h.way {
				h.way[i] = along(g, 1)
			}
		}
		for step := away / math.Sqrt(float64(t)); ; step /= 2 {
			vector.AddScaledClamped(h.x, h.way, float32(step), h.tried)
			wrong, err := h.ask(ctx, h.tried)
			if err != nil {
				return err
			}
			if wrong || slices.Equal(h.x, h.tried) {
				break
			}
		}
		copy(h.x, h.tried)
		if err := h.boundary(ctx); err != nil {
			return err
		}
	}
}

// blindly is how many random images are tried before given ones.
const blindly = 20

// begin finds an image of another class and goes to the boundary on the straight line to the clean image.
func (h *hopSkipJumpRun) begin(ctx context.Context) error {
	given := [][]float32(nil)
	for k, wrong := 0, false; !wrong; k++ {
		var err error
		if k == blindly {
			if given, err = h.others(); err != nil {
				return err
			}
		}
		if k >= blindly && k-blindly < len(given) {
			copy(h.x, given[k-blindly])
		} else {
			for i := range h.x {
				h.x[i] = h.rng.Float32()
			}
		}
		if wrong, err = h.ask(ctx, h.x); err != nil {
			return err
		}
	}
	if err := h.back(ctx, 1, blendInterval, h.blend); err != nil || h.Norm != Linf {
		return err
	}
	return h.boundary(ctx)
}

// boundary moves x back to the boundary, to the paper's tolerance.
func (h *hopSkipJumpRun) boundary(ctx context.Context) error {
	d := float64(len(h.x))
	if h.Norm == Linf {
		far := Linf.Distance(h.x, h.im.Pixels)
		return h.back(ctx, far, far/(d*d), h.cut)
	}
	return h.back(ctx, 1, 1/(d*math.Sqrt(d)), h.blend)
}

// back moves x by bisection to the boundary on the way to the clean image.
func (h *hopSkipJumpRun) back(ctx context.Context, from, within float64, point func(at float64) []float32) error {
	at, err := h.halve(ctx, 0, from, within, point)
	if err == nil {
		copy(h.x, point(at))
	}
	return err
}

// blend returns the point at a fraction of the way from the clean image to x.
func (h *hopSkipJumpRun) blend(share float64) []float32 {
	for i, v := range h.im.Pixels {
		h.tried[i] = min(max(float32((1-share)*float64(v)+share*float64(h.x[i])), 0), 1)
	}
	return h.tried
}

// cut returns the point of the ℓ∞ ball of a radius that is nearest to x.
func (h *hopSkipJumpRun) cut(radius float64) []float32 {
	r := float32(radius)
	for i, v := range h.im.Pixels {
		h.tried[i] = min(max(h.x[i], v-r), v+r)
	}
	return h.tried
}

// estimate writes into way the direction, of ℓ2 length 1, in which the label recedes. It averages random directions,
// each weighted by the sign of the answer at its end minus the mean of all answers.
func (h *hopSkipJumpRun) estimate(ctx context.Context, t int, away float64) error {
	reach := away / float64(len(h.x)) // in ℓ2 √d·θ with θ = d^(−3/2), in ℓ∞ d·θ with θ = d⁻²
	if t == 1 {
		reach = 0.1
	}
	n := min(int(float64(h.of.InitialPoints)*math.Sqrt(float64(t))), mostPoints)
	all, signed, answers := make([]float64, len(h.x)), make([]float64, len(h.x)), 0.0
	for range n {
		direction(h.Norm, h.rng, h.way)
		vector.AddScaledClamped(h.x, h.way, float32(reach/L2.Length(h.way)), h.tried)
		wrong, err := h.ask(ctx, h.tried)
		if err != nil {
			return err
		}
		answer := -1.0
		if wrong {
			answer = 1
		}
		answers += answer
		for i, v := range h.tried {
			moved := float64(v) - float64(h.x[i])
			all[i] += moved
			signed[i] += answer * moved
		}
	}
	mean := answers / float64(n)
	if math.Abs(mean) == 1 {
		mean = 0
	}
	for i := range h.way {
		h.way[i] = float32((signed[i] - mean*all[i]) / reach)
	}
	vector.Scaled(h.way, float32(1/max(L2.Length(h.way), 1e-12)), h.way)
	return nil
}
