package attacks

import (
	"cmp"
	"context"
	"math"
	"slices"

	"selfheal/internal/vector"
)

// attempt is an attack's work on one image: it asks the oracle, counts the passes and keeps the result.
type attempt struct {
	Options
	o    Oracle
	im   Image
	res  Result
	eval Evaluation // at the last point asked about
	adv  []float32  // the misclassified point kept: the last, or the nearest; nil before the first
	// begins is set if the next gradient is the first of a run.
	begins bool
	at     place
	state  []any // pointers to what [attempt.keep] keeps; nil if the attack keeps nothing
}

func newAttempt(o Oracle, im Image, how Options) attempt {
	return attempt{Options: how, o: o, im: im, res: Result{FirstSuccess: -1, FirstForward: -1},
		eval: Evaluation{Logits: make([]float32, o.Classes())}, begins: true}
}

// smallest is the smallest normal float32; smaller values have lost digits.
const smallest = 0x1p-126

// blind reports whether a gradient has no direction: all its values are 0 or have underflowed.
func blind(gradient []float32) bool {
	return !slices.ContainsFunc(gradient, func(g float32) bool { return !(abs32(g) < smallest) })
}

// note keeps x if it is misclassified, and reports whether that ends the attack.
func (t *attempt) note(wrong bool, x []float32) (ends bool) {
	if wrong {
		t.succeed(t.now(0))
		t.adv = append(t.adv[:0], x...)
	}
	return wrong && t.VerdictOnly
}

// wrong asks for the logits at x and reports whether x is misclassified.
func (t *attempt) wrong(ctx context.Context, x []float32) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := t.o.Logits(ctx, x, t.eval.Logits); err != nil {
		return false, err
	}
	t.res.Forward++
	return !Right(t.eval.Logits, t.im.Label), nil
}

// gradient asks for a loss and its gradient at x and reports whether x is misclassified. NaN in the gradient becomes 0
// and ±infinity becomes ±1e30, so that steps stay finite; a NaN loss becomes −Inf, so that no attack climbs it.
func (t *attempt) gradient(ctx context.Context, x []float32, loss Loss, target int) (wrong bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	e := &t.eval
	if err := t.o.Gradient(ctx, x, loss, t.im.Label, target, e); err != nil {
		return false, err
	}
	t.res.Forward++
	t.res.Backward++
	if t.begins {
		t.begins = false
		t.res.Starts++
		if blind(e.Gradient) {
			t.res.Blind++
		}
	}
	if math.IsNaN(float64(e.Loss)) {
		e.Loss = float32(math.Inf(-1))
	}
	if !vector.Finite(e.Gradient) {
		for i, g := range e.Gradient {
			if math.IsNaN(float64(g)) {
				e.Gradient[i] = 0
			} else {
				e.Gradient[i] = min(max(g, -1e30), 1e30)
			}
		}
	}
	return !Right(e.Logits, t.im.Label), nil
}

// rank sets the targets that [attempt.targets] ranks, unless an earlier run has.
func (t *attempt) rank(ctx context.Context, targeted bool, n int) (err error) {
	if t.at.Targets == nil {
		t.at.Targets, err = t.targets(ctx, targeted, n)
	}
	return err
}

// mostLinearised is how many classes [attempt.linearised] compares.
const mostLinearised = 100

// linearised returns the n wrong classes whose linearised boundaries lie nearest to the clean image, nearest first:
// those of least (z_y − z_t) / ‖∇(z_y − z_t)‖, in the dual norm, among the [mostLinearised] highest logits, or n (MALT:
// Melamed, Yehudai & Shamir 2024, section 2). It costs one forward pass, and one gradient for each of these.
func (t *attempt) linearised(ctx context.Context, norm Norm, n int) ([]int, error) {
	order, err := t.targets(ctx, true, max(n, mostLinearised))
	if err != nil {
		return nil, err
	}
	distance := map[int]float64{}
	for _, target := range order {
		if _, err := t.gradient(ctx, t.im.Pixels, LogitDifference, target); err != nil {
			return nil, err
		}
		distance[target] = -float64(t.eval.Loss) / (norm.Dual().Length(t.eval.Gradient) + 1e-12)
	}
	t.begins, t.res.Starts, t.res.Blind = true, 0, 0 // these are no runs
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(distance[a], distance[b]) })
	return order[:min(n, len(order))], nil
}

// targets returns the n wrong classes with the highest logits at the clean image, highest first; among equals the
// higher class comes first. It returns fewer, possibly none, if fewer can win. It costs one forward pass. An untargeted
// attack has the single target −1, at no cost.
func (t *attempt) targets(ctx context.Context, targeted bool, n int) ([]int, error) {
	if !targeted {
		return []int{-1}, nil
	}
	if _, err := t.wrong(ctx, t.im.Pixels); err != nil {
		return nil, err
	}
	var order []int
	for j, z := range t.eval.Logits {
		if j != t.im.Label && !never(z) {
			order = append(order, j)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(t.eval.Logits[b], t.eval.Logits[a]), b-a) })
	return order[:min(n, len(order))], nil
}

// now returns the counts of this moment, for a point at a distance.
func (t *attempt) now(distance float64) Nearer {
	return Nearer{distance, t.res.Iterations, t.res.Forward}
}

// succeed records the first success, at a moment, unless one was recorded before.
func (t *attempt) succeed(at Nearer) {
	if t.res.FirstSuccess < 0 {
		t.res.FirstSuccess, t.res.FirstForward = at.Iterations, at.Forward
	}
}

// claim returns the result with a misclassified point, moved into the ball if rounding left it outside. If point is
// nil, the result has none.
func (t *attempt) claim(point []float32, n Norm, epsilon float64) Result {
	if point != nil {
		confine(n, t.im.Pixels, point, epsilon)
		t.res.Adversarial = point
	}
	return t.res
}
