package attacks

import (
	"context"
	"fmt"
	"math"
	"slices"

	"selfheal/internal/vector"
)

// nearest is an attack that minimises the norm, at work on one image; it keeps the nearest misclassified point found.
// Such attacks do not depend on Epsilon, which only decides whether the point is near enough to be a success: one run
// at the largest epsilon gives the result at every smaller one.
//
// The attacks end at the boundary, where another runtime may answer differently. An attack that is run alone and sees
// margins therefore keeps the nearest point whose margin exceeds rounding. A point whose margin does not counts only if
// Epsilon allows no other.
type nearest struct {
	common
	attempt
	distance float64 // distance of adv, +Inf before the first
	// start and margin are the results of [attempt.beyond] at the clean image and at adv; refining begins with them.
	start, margin float64
	unsure        *unsure // nearest point whose margin is within rounding; nil before the first
}

// unsure is a misclassified point that another runtime may classify right.
type unsure struct {
	Nearer
	Point []float32
}

func newNearest(c common, o Oracle, im Image, how Options) nearest {
	return nearest{common: c, attempt: newAttempt(o, im, how), distance: math.Inf(1)}
}

// meet records x, the point asked about last. ends is true if the verdict is known and nothing more is needed.
func (r *nearest) meet(x []float32, wrong bool) (ends bool) {
	if !wrong {
		return false
	}
	d, beyond := r.Norm.Distance(x, r.im.Pixels), r.beyond()
	if r.alone && !(beyond > 0) {
		if r.unsure == nil || d < r.unsure.Distance {
			r.unsure = &unsure{r.now(d), slices.Clone(x)}
		}
		return false
	}
	if d < r.distance {
		r.distance, r.res.Distance = d, d
		r.res.Nearer = append(r.res.Nearer, r.now(d))
		r.adv = append(r.adv[:0], x...)
		r.margin = beyond
	}
	if r.distance > r.Epsilon {
		return false
	}
	r.succeed(r.now(d))
	return r.VerdictOnly
}

// descent is an attack that follows a gradient from the clean image. Refining replaces its last steps: the steps before
// are the same with and without it.
type descent struct {
	common
	Steps, Refine int
}

// Check adds to common's checks an error for too few steps: the first step only asks about the clean image.
func (a descent) Check(classes int, s Shape) error {
	if err := a.common.Check(classes, s); err != nil {
		return err
	}
	if a.made() < 2 {
		return fmt.Errorf("%s: at least 2 steps are needed, the first of them at the clean image; refine %d leaves %d "+
			"of %d", a.name, a.Refine, max(a.made(), 0), a.Steps)
	}
	return nil
}

// made returns the number of descent steps. One costs two passes, forward and backward; a step of refining costs one.
func (a descent) made() int { return a.Steps - (a.Refine+1)/2 }

// Passes returns one gradient per step, plus the forward passes of refining.
func (a descent) Passes(int) (forward, backward int) { return a.made() + a.Refine, a.made() }

// descend makes steps from the clean image and then refines the nearest point. Each call of step learns whether the
// perturbation delta is misclassified, finds the loss's gradient there in the evaluation, and moves delta.
func (r *nearest) descend(ctx context.Context, a descent, delta []float32, step func(i int, wrong bool)) (Result,
	error) {
	x0, x := r.im.Pixels, make([]float32, len(delta))
	for i := range a.made() {
		vector.AddScaledClamped(x0, delta, 1, x)
		wrong, err := r.gradient(ctx, x, r.Loss, -1)
		if err != nil {
			return Result{}, err
		}
		if r.meet(x, wrong) {
			return r.result(), nil
		}
		if i == 0 {
			r.start = r.beyond()
		}
		vector.Difference(x, x0, delta) // the part of delta within [0,1]
		step(i, wrong)
		r.res.Iterations++
	}
	if err := r.refine(ctx, a.Refine); err != nil {
		return Result{}, err
	}
	return r.result(), nil
}

// result returns the attack's result.
func (r *nearest) result() Result {
	if u := r.unsure; u != nil && r.distance > r.Epsilon && u.Distance <= r.Epsilon {
		r.distance, r.res.Distance, r.adv = u.Distance, u.Distance, u.Point
		r.res.Nearer = append(r.res.Nearer, u.Nearer)
		r.succeed(u.Nearer)
	}
	if r.distance <= r.Epsilon {
		r.res.Adversarial = slices.Clone(r.adv)
	}
	return r.res
}

// cosine returns the value at step i (from 0) of n steps that fall from first to last, by half a wave of a cosine.
func cosine(first, last float64, i, n int) float64 {
	return last + (first-last)*(1+math.Cos(math.Pi*float64(i)/float64(n)))/2
}
