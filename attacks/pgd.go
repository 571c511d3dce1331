package attacks

import (
	"cmp"
	"context"
	"math"
)

// pgd is projected gradient ascent with steps of a given length (Madry et al. 2018, section 2.1). A run starts at
// random, as APGD's runs do. It steps along sign(g) in ℓ∞, g/‖g‖₂ in ℓ2, and in ℓ1 along the signs of the largest 1 %
// of |g|, shared equally (SLIDE: Tramèr & Boneh 2019, section 5). It makes every step (but see [Options]) and returns
// its last misclassified iterate. Restarts are made while the image is unbroken.
type pgd struct {
	common
	Steps, Restarts int
	StepSize        float64 // length of the first step in the norm
	Schedule        string  // how the steps' lengths fall: constant, linear or cosine
}

// share returns the length of step i, counted from 0, as a fraction of the first step's.
func (a pgd) share(i int) float64 {
	switch at := float64(i) / float64(a.Steps); a.Schedule {
	case "linear":
		return 1 - at
	case "cosine": // Loshchilov & Hutter 2017, without restarts
		return (1 + math.Cos(math.Pi*at)) / 2
	}
	return 1
}

// slideShare is the fraction of the gradient's entries that an ℓ1 step follows.
const slideShare = 0.01

// usualStep returns the default of StepSize.
func (a pgd) usualStep() float64 {
	if a.Norm == Linf {
		return a.Epsilon / 4
	}
	return 2.5 * a.Epsilon / float64(a.Steps)
}

// Passes returns a gradient per step and a forward pass after the last one of each restart.
func (a pgd) Passes(int) (forward, backward int) {
	return times(a.Restarts, a.Steps+1), times(a.Restarts, a.Steps)
}

func (a pgd) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	a.StepSize = cmp.Or(a.StepSize, a.usualStep())
	c := newClimb(a, o, im, how)
	if err := c.resume(&c.cur); err != nil {
		return Result{}, err
	}
	for ; c.at.Restart < a.Restarts && (c.at.Inside || c.adv == nil); c.at.Restart++ {
		if !c.at.Inside {
			rng := generator(how.Seed, a.Name(), c.at.Restart, 0, im.ID)
			randomStart(a.Norm, im.Pixels, a.Epsilon, rng, c.cur)
		}
		if err := c.run(ctx); err != nil {
			return Result{}, err
		}
	}
	return c.claim(c.adv, a.Norm, a.Epsilon), nil
}

// climb is the state of PGD, or of an attack like it, on one image.
type climb struct {
	pgd
	attempt
	Walk
	// step moves cur by a length along the gradient there.
	step func(gradient []float32, length float64)
}

func newClimb(a pgd, o Oracle, im Image, how Options) *climb {
	c := &climb{pgd: a, attempt: newAttempt(o, im, how), Walk: *NewWalk(a.Norm, im.Pixels, a.Epsilon)}
	c.step = c.Follow
	return c
}

// run makes one restart from cur, or goes on with it.
func (c *climb) run(ctx context.Context) error {
	if !c.at.Inside {
		c.begins, c.at.Inside, c.at.Step = true, true, 0
	}
	defer func() { c.at.Inside = false }()
	for ; c.at.Step < c.Steps; c.at.Step++ {
		if err := c.keep(); err != nil {
			return err
		}
		wrong, err := c.gradient(ctx, c.cur, c.Loss, -1)
		if err != nil {
			return err
		}
		if c.note(wrong, c.cur) {
			return nil
		}
		c.step(c.eval.Gradient, c.StepSize*c.share(c.at.Step))
		c.res.Iterations++
	}
	wrong, err := c.wrong(ctx, c.cur)
	c.note(wrong, c.cur)
	return err
}
