package attacks

import (
	"context"
	"fmt"
)

// PGD is projected gradient ascent with a fixed step (Madry et al. 2018, section
// 2.1). A run starts at random as APGD's do, steps along sign(g) in ℓ∞, g/‖g‖₂
// in ℓ2, and in ℓ1 along the signs of the largest 1 % of |g|, shared equally
// (SLIDE: Tramèr & Boneh 2019, section 5); it makes every step and returns its
// last misclassified iterate. Restarts are made while the image is unbroken.
type PGD struct {
	Norm     Norm    // default ℓ∞
	Epsilon  float64 // radius in the norm, in pixel units of [0,1]; required
	Loss     Loss    // an untargeted loss; default cross-entropy
	Steps    int     // steps per restart; default 20
	Restarts int     // default 1
	StepSize float64 // length of a step in the norm; default ε/4 in ℓ∞, 2.5·ε/Steps in ℓ2 and ℓ1
}

// slideShare is the share of the gradient's entries that an ℓ1 step follows.
const slideShare = 0.01

func (a PGD) withDefaults() PGD {
	fill(&a.Steps, 20)
	fill(&a.Restarts, 1)
	if a.Norm == Linf {
		fill(&a.StepSize, a.Epsilon/4)
	} else {
		fill(&a.StepSize, 2.5*a.Epsilon/float64(a.Steps))
	}
	return a
}

// Name returns "pgd".
func (PGD) Name() string { return "pgd" }

// Check reports too few classes for the loss, and parameters outside their ranges.
func (a PGD) Check(classes int, shape Shape) error {
	if err := checkUntargeted(a.Name(), a.Norm, a.Epsilon, a.Loss, classes, shape); err != nil {
		return err
	}
	switch a = a.withDefaults(); {
	case a.Steps < 1 || a.Restarts < 1:
		return fmt.Errorf("pgd: steps and restarts must be at least 1")
	case !(a.StepSize > 0 && a.StepSize < 1e9):
		return fmt.Errorf("pgd: step_size must be positive and finite, not %v", a.StepSize)
	}
	return nil
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
		randomStart(a.Norm, im.Pixels, a.Epsilon, generator(seed, a.Name(), restart, 0, im.ID), c.cur, &c.l1.l1Projector)
		if err := c.run(ctx, o); err != nil {
			return Result{}, err
		}
		if c.broken {
			confine(a.Norm, im.Pixels, c.adv, a.Epsilon)
			c.res.Adversarial = c.adv
			break
		}
	}
	return c.res, nil
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
	c.res.FirstSuccess = -1
	return c
}

// run makes one restart from cur.
func (c *climb) run(ctx context.Context, o Oracle) error {
	for range c.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := o.Gradient(ctx, c.cur, c.Loss, c.im.Label, -1, &c.eval); err != nil {
			return err
		}
		c.res.Forward++
		c.res.Backward++
		c.note()
		c.step(c.eval.Gradient)
		c.res.Iterations++
	}
	if err := o.Logits(ctx, c.cur, c.eval.Logits); err != nil {
		return err
	}
	c.res.Forward++
	c.note()
	return nil
}

// note keeps cur if it is misclassified.
func (c *climb) note() {
	if !broken(c.eval.Logits, c.im.Label) {
		return
	}
	if c.res.FirstSuccess < 0 {
		c.res.FirstSuccess = c.res.Iterations
	}
	c.broken = true
	copy(c.adv, c.cur)
}

// step moves cur along the gradient and back into the ball.
func (c *climb) step(gradient []float32) {
	x, n := c.im.Pixels, len(c.cur)
	g, cur, length := gradient[:n], c.cur, float32(c.StepSize)
	switch c.Norm {
	case Linf:
		lo, hi := c.lo[:n], c.hi[:n]
		for i, v := range cur {
			cur[i] = min(max(v+along(g[i], length), lo[i]), hi[i])
		}
	case L2:
		scale := float32(c.StepSize / (L2.Length(g) + 1e-12))
		for i, v := range g {
			cur[i] += float32(v * scale)
		}
		projectL2(x, cur, c.Epsilon)
	default:
		c.l1.step(x, cur, g, c.next, length, slideShare, c.Epsilon)
		c.cur, c.next = c.next, c.cur
	}
}
