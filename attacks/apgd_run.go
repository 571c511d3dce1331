package attacks

import (
	"context"
	"math"
	"math/rand/v2"

	"selfheal/internal/vector"
)

// ascent is the state of APGD on one image. Its vectors are allocated once and serve every run.
type ascent struct {
	apgd
	attempt
	target int

	cur, prev, next []float32 // this iterate, the one before, a buffer for the one after
	grad            []float32 // gradient at cur
	loss            float64   // loss at cur
	best, bestGrad  []float32 // iterate of the highest loss and its gradient
	bestLoss        float64
	pace            pace
	reach           reach
	starts          [][]float32 // images of other classes
	warm            bool        // whether the start is a point found before: ℓ1 starts with its sparsity
	sparsest        bool        // whether ℓ1 steps may shrink to one value; in AutoAttack they stop at two

	first  Nearer    // this stage's first misclassified point
	lo, hi []float32 // ℓ∞ ball ∩ [0,1]
}

func newAscent(a apgd, o Oracle, im Image, how Options) *ascent {
	r := &ascent{apgd: a, attempt: newAttempt(o, im, how)}
	for _, v := range []*[]float32{&r.cur, &r.prev, &r.next, &r.grad, &r.best, &r.bestGrad} {
		*v = make([]float32, len(im.Pixels))
	}
	r.lo, r.hi = box(a.Norm, im.Pixels, a.Epsilon)
	return r
}

// run makes one restart on the current target, from a random point, with FromClean from the clean image, and with
// FromOthers from an image of another class. It goes on with a restart that has begun.
func (r *ascent) run(ctx context.Context, rng *rand.Rand) error {
	switch {
	case r.at.Inside:
	case r.FromClean:
		copy(r.cur, r.im.Pixels)
	case r.at.Restart < len(r.starts):
		copy(r.cur, r.starts[r.at.Restart])
		r.inward(r.stages()[0].eps)
	default:
		randomStart(r.Norm, r.im.Pixels, r.stages()[0].eps, rng, r.cur)
	}
	return r.climb(ctx)
}

// inward moves cur into the ball of a radius.
func (r *ascent) inward(radius float64) {
	switch r.Norm {
	case Linf:
		for i, v := range r.cur {
			r.cur[i] = min(max(v, r.lo[i]), r.hi[i])
		}
	case L2:
		projectL2(r.im.Pixels, r.cur, radius)
	default:
		projectPointL1(r.im.Pixels, r.cur, radius)
	}
}

// climb makes one restart from cur. Only its last stage, the one at Epsilon, counts as success.
func (r *ascent) climb(ctx context.Context) error {
	if !r.at.Inside {
		r.begins, r.at.Stage = true, 0
	}
	for stages := r.stages(); r.at.Stage < len(stages); r.at.Stage++ {
		s := stages[r.at.Stage]
		if r.LargeRadii && !r.at.Inside {
			if r.at.Stage > 0 {
				copy(r.cur, r.best)
			}
			projectPointL1(r.im.Pixels, r.cur, s.eps)
		}
		if err := r.stage(ctx, s); err != nil {
			return err
		}
		if r.reach.over {
			r.adv = nil // it was found at a larger radius
			return nil
		}
	}
	if r.adv != nil {
		r.succeed(r.first)
	}
	return nil
}

// randomStart writes a random point of the ball around x, clamped to [0,1]. ℓ∞: uniform noise scaled so that at least
// one value lies at ±eps; ℓ2: Gaussian noise scaled to norm eps; ℓ1: Gaussian noise projected.
func randomStart(n Norm, x []float32, eps float64, rng *rand.Rand, out []float32) {
	direction(n, rng, out)
	if n == L1 {
		projectL1(x, out, out, eps)
		return
	}
	vector.AddScaledClamped(x, out, float32(eps/(n.Length(out)+1e-12)), out)
}

// evaluate computes loss and gradient at cur and records a misclassification.
//
// Quirk kept: with several passes (EOT) the gradient is their mean, but success and loss come from the last pass alone.
func (r *ascent) evaluate(ctx context.Context) (err error) {
	wrong := false
	for pass := range r.EOTIter {
		if wrong, err = r.gradient(ctx, r.cur, r.Loss, r.target); err != nil {
			return err
		}
		if pass == 0 {
			r.grad, r.eval.Gradient = r.eval.Gradient, r.grad
			continue
		}
		for i, g := range r.eval.Gradient {
			r.grad[i] += g
		}
	}
	if r.EOTIter > 1 {
		for i := range r.grad {
			r.grad[i] /= float32(r.EOTIter)
		}
	}
	r.loss = float64(r.eval.Loss)
	// Quirk kept: every misclassified iterate replaces the one before, so the last one is returned, neither the first
	// nor the worst.
	if wrong {
		if r.adv == nil {
			r.first = r.now(0)
		}
		r.adv = append(r.adv[:0], r.cur...)
	}
	return nil
}

func (r *ascent) keepBest() {
	r.bestLoss = r.loss
	copy(r.best, r.cur)
	copy(r.bestGrad, r.grad)
}

// restartFromBest goes back to the best iterate. The momentum is not reset: the next step takes its difference from the
// iterate before the last step.
func (r *ascent) restartFromBest() {
	copy(r.cur, r.best)
	copy(r.grad, r.bestGrad)
}

// stage makes s.steps iterations at radius s.eps from cur. It makes fewer if the run gives up, or, at Epsilon, if only
// a verdict is asked for.
func (r *ascent) stage(ctx context.Context, s stage) error {
	stop := r.VerdictOnly && s.eps == r.Epsilon
	step, adapt := r.dense, r.adaptDense
	if r.Norm == L1 {
		step, adapt = r.sparse, r.adaptSparse
	}
	if !r.at.Inside {
		r.adv = nil
		if err := r.evaluate(ctx); err != nil || stop && r.adv != nil {
			return err
		}
		r.begin(s)
		r.keepBest()
		copy(r.prev, r.cur)
		r.pace = r.newPace(s)
		r.at.Inside, r.at.Step = true, 0
	}
	defer func() { r.at.Inside = false }()
	for ; r.at.Step < s.steps; r.at.Step++ {
		if err := r.keep(); err != nil {
			return err
		}
		i := r.at.Step
		step(s, i)
		r.prev, r.cur, r.next = r.cur, r.next, r.prev
		r.res.Iterations++
		if err := r.evaluate(ctx); err != nil || stop && r.adv != nil {
			return err
		}
		if r.loss > r.bestLoss {
			r.keepBest()
		}
		if r.givesUp(s, i) {
			return nil
		}
		adapt(s, i)
	}
	return nil
}

// pace says how far the steps of a stage go.
type pace struct {
	length           float32
	check            halving // in ℓ∞ and ℓ2
	topShare, before float32 // in ℓ1: the fraction of values that a step moves; values moved at the last checkpoint
}

func (p *pace) variables() []any {
	h := &p.check
	return []any{&p.length, &p.topShare, &p.before, &h.rho, &h.period, &h.shorter, &h.least, &h.next, &h.reduced,
		&h.bestThen, &h.before, &h.rises}
}

// newPace returns the pace at the beginning of a stage, at cur.
func (r *ascent) newPace(s stage) pace {
	if r.Norm != L1 {
		return pace{length: float32(2 * s.eps), check: *newHalving(s.steps, r.Rho, r.bestLoss)}
	}
	d := float32(len(r.im.Pixels))
	p := pace{length: float32(s.eps), topShare: float32(r.Sparsity), before: d}
	if r.LargeRadii || r.warm { // the start sets the sparsity
		p.before = float32(vector.Changed(r.im.Pixels, r.cur))
		p.topShare = p.before / d / 1.5
	}
	return p
}

// dense makes the step of iteration i in ℓ∞ and ℓ2, from cur to next.
func (r *ascent) dense(s stage, i int) {
	weight := float32(0.75)
	if i == 0 {
		weight = 1
	}
	if r.Norm == Linf {
		vector.SignStep(r.prev, r.cur, r.grad, r.lo, r.hi, r.pace.length, weight, r.next)
		return
	}
	x := r.im.Pixels // in ℓ2 along grad / (‖grad‖ + 1e-12)
	vector.Scaled(r.grad, float32(1/(L2.Length(r.grad)+1e-12)), r.next)
	vector.AddScaled(r.cur, r.next, r.pace.length, r.next)
	projectL2(x, r.next, s.eps)
	vector.Momentum(r.prev, r.cur, weight, r.next)
	projectL2(x, r.next, s.eps)
}

// adaptDense follows iteration i in ℓ∞ and ℓ2: the step halves when progress stalls.
func (r *ascent) adaptDense(_ stage, i int) {
	check := &r.pace.check
	check.after(r.loss)
	if check.due(i) && check.stalled(i, r.bestLoss) {
		r.pace.length /= 2
		r.restartFromBest()
	}
}

// along returns step·sign(g), and 0 if g is 0 or NaN. It copies the sign bit, because a branch on it would be
// unpredictable.
func along(g, step float32) float32 {
	if g == 0 || g != g {
		return 0
	}
	return math.Float32frombits(math.Float32bits(step) | math.Float32bits(g)&(1<<31))
}
