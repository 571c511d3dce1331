package attacks

import (
	"context"
	"fmt"
	"math"

	"selfheal/internal/vector"
)

// PGD is projected gradient ascent with steps of a given length (Madry et al.
// 2018, section 2.1). A run starts at random as APGD's do, steps along sign(g) in
// ℓ∞, g/‖g‖₂ in ℓ2, and in ℓ1 along the signs of the largest 1 % of |g|, shared
// equally (SLIDE: Tramèr & Boneh 2019, section 5); it makes every step (but see
// StopAtSuccess) and returns its last misclassified iterate. Restarts are made
// while the image is unbroken. Numbers left zero have the defaults of [Specs].
type PGD struct {
	Norm     Norm
	Epsilon  float64 // radius in the norm, in pixel units of [0,1]
	Loss     Loss    // untargeted
	Steps    int     // per run
	Restarts int
	StepSize float64  // length of the first step in the norm
	Schedule Schedule // of the steps' lengths
	// StopAtSuccess ends the attack at the first misclassified iterate, which is
	// then the one returned. See [VerdictOnly].
	StopAtSuccess bool
}

func (a PGD) verdictOnly() Attack {
	a.StopAtSuccess = true
	return a
}

// Schedule is how PGD's step shrinks over a run: the share of StepSize that step
// i of n, counted from 0, has.
type Schedule int

// The schedules; the zero value is ConstantSteps.
const (
	ConstantSteps Schedule = iota // 1
	LinearSteps                   // 1 − i/n
	CosineSteps                   // (1 + cos(πi/n)) / 2 (Loshchilov & Hutter 2017, without restarts)
)

var scheduleNames = [...]string{"constant", "linear", "cosine"}

// String returns "constant", "linear" or "cosine".
func (s Schedule) String() string {
	if s < 0 || int(s) >= len(scheduleNames) {
		return fmt.Sprintf("schedule(%d)", int(s))
	}
	return scheduleNames[s]
}

// share is the share of the first step's length that step i of n has.
func (s Schedule) share(i, n int) float64 {
	switch at := float64(i) / float64(n); s {
	case LinearSteps:
		return 1 - at
	case CosineSteps:
		return (1 + math.Cos(math.Pi*at)) / 2
	}
	return 1
}

// slideShare is the share of the gradient's entries that an ℓ1 step follows.
const slideShare = 0.01

func (a PGD) withDefaults() PGD { return withDefaults(a, pgdParameters) }

// usualStep is the default of StepSize.
func (a PGD) usualStep() float64 {
	if a.Norm == Linf {
		return a.Epsilon / 4
	}
	return 2.5 * a.Epsilon / float64(a.Steps)
}

// Name returns "pgd".
func (PGD) Name() string { return "pgd" }

// Check reports too few classes for the loss, and parameters outside their ranges.
func (a PGD) Check(classes int, shape Shape) error {
	a = a.withDefaults()
	if err := checkCommon(a.Name(), a.Norm, a.Epsilon, a.Loss, classes, shape); err != nil {
		return err
	}
	return checkParameters(a, a.Norm, pgdParameters)
}

// Passes returns a gradient per step and a forward pass after the last one of
// each restart.
func (a PGD) Passes(int) (forward, backward int) {
	a = a.withDefaults()
	return a.Restarts * (a.Steps + 1), a.Restarts * a.Steps
}

// Perturb runs every restart until one breaks the image.
func (a PGD) Perturb(ctx context.Context, o Oracle, im Image, seed uint64) (Result, error) {
	a = a.withDefaults()
	c := newClimb(a, im)
	for restart := range a.Restarts {
		rng := generator(seed, a.Name(), restart, 0, im.ID)
		randomStart(a.Norm, im.Pixels, a.Epsilon, rng, c.cur, &c.l1.l1Projector)
		if err := c.run(ctx, o); err != nil {
			return Result{}, err
		}
		if c.broken {
			break
		}
	}
	return c.result(), nil
}

// climb is the state of PGD on one image.
type climb struct {
	PGD
	im        Image
	res       Result
	cur, next []float32
	adv       []float32 // last misclassified iterate
	broken    bool
	eval      Evaluation
	lo, hi    []float32 // ℓ∞ ball ∩ [0,1]
	l1        sparseSteps
	// follow, where it is not nil, makes of a gradient what the step goes along.
	follow func(gradient []float32) []float32
}

func newClimb(a PGD, im Image) *climb {
	c := &climb{PGD: a, im: im}
	vectors := []*[]float32{&c.cur, &c.next, &c.adv}
	if a.Norm == Linf {
		vectors = append(vectors, &c.lo, &c.hi)
	}
	for _, v := range vectors {
		*v = make([]float32, len(im.Pixels))
	}
	if a.Norm == Linf {
		box(im.Pixels, a.Epsilon, c.lo, c.hi)
	}
	c.res = newResult()
	return c
}

// run makes one restart from cur.
func (c *climb) run(ctx context.Context, o Oracle) error {
	for i := range c.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := gradient(ctx, o, c.cur, c.Loss, c.im.Label, -1, &c.eval); err != nil {
			return err
		}
		c.res.Forward++
		c.res.Backward++
		if c.note(); c.broken && c.StopAtSuccess {
			return nil
		}
		g := c.eval.Gradient
		if c.follow != nil {
			g = c.follow(g)
		}
		c.step(g, c.StepSize*c.Schedule.share(i, c.Steps))
		c.res.Iterations++
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.Logits(ctx, c.cur, c.eval.Logits); err != nil {
		return err
	}
	c.res.Forward++
	c.note()
	return nil
}

// result is what the runs made of the image.
func (c *climb) result() Result {
	if c.broken {
		confine(c.Norm, c.im.Pixels, c.adv, c.Epsilon)
		c.res.Adversarial = c.adv
	}
	return c.res
}

// note keeps cur if it is misclassified.
func (c *climb) note() {
	if Right(c.eval.Logits, c.im.Label) {
		return
	}
	c.res.succeed(c.res.now())
	c.broken = true
	copy(c.adv, c.cur)
}

// step moves cur by size along a gradient and back into the ball.
func (c *climb) step(gradient []float32, size float64) {
	x, n := c.im.Pixels, len(c.cur)
	g, cur, length := gradient[:n], c.cur, float32(size)
	switch c.Norm {
	case Linf:
		lo, hi := c.lo[:n], c.hi[:n]
		for i, v := range cur {
			cur[i] = min(max(v+along(g[i], length), lo[i]), hi[i])
		}
	case L2:
		vector.AddScaled(cur, g, float32(size/(L2.Length(g)+1e-12)), cur)
		projectL2(x, cur, c.Epsilon)
	default:
		c.l1.step(x, cur, g, c.next, length, slideShare, c.Epsilon)
		c.cur, c.next = c.next, c.cur
	}
}
