package attacks

import (
	"context"
	"math"
)

// bisection looks for the smallest perturbation that breaks an image: it runs Auto-PGD at one radius after another,
// between 0 and Epsilon.
//
// The first run is made at Epsilon. A misclassified point at distance d breaks the image for every radius from d on, so
// d, not the radius of the run, becomes the upper end of the bracket. A radius at which no run finds a point becomes
// the lower end. Halving goes on until the ends differ by at most Tolerance of the upper end, or of a thousandth of
// Epsilon if that is more. Every further target is first tried at a radius one tolerance below the nearest point known.
// Most targets fail there, so they cost one run each.
//
// The distance belongs to a real misclassified point, so it is never too small; it is too large if Auto-PGD misses a
// nearer point. Runs end at their first success. The first run at each radius starts from the nearest point known,
// moved into the ball along the straight line to the clean image. The others start at random, and in ℓ1 go through the
// radii 3r, 2r and r, as in AutoAttack. Steps in ℓ1 may become as sparse as a single value; AutoAttack stops at two.
//
// The loss is either the logit difference to each of the highest ranked wrong classes of the clean image, or the margin
// to the leading wrong class. The margin costs as much as one target, but the leading class need not be the nearest.
type bisection struct {
	common                       // the norm is minimised, up to the largest radius, Epsilon
	Steps, Restarts, Targets int // Auto-PGD's; Restarts is for each radius and target
	Tolerance                float64
}

// finest is a fraction of Epsilon: below it the tolerance shrinks no further, which bounds the halvings of a very
// fragile image.
const finest = 1e-3

// inner returns the attack made at each radius.
func (a bisection) inner() apgd {
	spec, _ := Lookup("apgd-t")
	return spec.attack(a.common, given{"steps": a.Steps, "targets": a.Targets, "large_radii": a.Norm == L1}).(apgd)
}

// halvings bounds the halvings of one target's bracket, from at most Epsilon to Tolerance·finest·Epsilon.
func (a bisection) halvings() int { return int(math.Ceil(math.Log2(1 / (a.Tolerance * finest)))) }

// Passes counts every halving and every target as a run with all its steps; few images need nearly as many.
func (a bisection) Passes(classes int) (forward, backward int) {
	p := a.inner()
	p.Restarts = a.Restarts * (1 + a.halvings())
	return p.Passes(classes)
}

// Perturb finds the nearest misclassified point over all targets.
func (a bisection) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	b := &bracket{bisection: a, Options: how, nearest: math.Inf(1),
		ascent: newAscent(a.inner(), o, im, Options{VerdictOnly: true})}
	b.ascent.sparsest = true
	targets, err := b.ascent.targets(ctx, a.Loss.Targeted(), a.Targets)
	if err != nil {
		return Result{}, err
	}
	for rank, target := range targets {
		b.rank, b.ascent.target, b.tries = rank, target, 0
		radius := a.Epsilon
		if b.found() {
			radius = b.nearest * (1 - a.Tolerance)
		}
		if err := b.halve(ctx, radius); err != nil {
			return Result{}, err
		}
		if how.VerdictOnly && b.found() || b.nearest == 0 { // 0: a model that does not repeat its answers
			break
		}
	}
	if b.found() {
		b.ascent.res.Adversarial, b.ascent.res.Distance = b.adv, b.nearest
	}
	return b.ascent.res, nil
}

// bracket is the state of a bisection on one image.
type bracket struct {
	bisection
	Options
	ascent *ascent

	rank, tries int       // rank of the target; runs made on it
	nearest     float64   // distance of adv, the upper end; +Inf if there is none
	adv         []float32 // nearest misclassified point
}

// found reports whether the image is broken within Epsilon.
func (b *bracket) found() bool { return b.nearest <= b.Epsilon }

// halve makes the runs on one target, the first of them at radius.
func (b *bracket) halve(ctx context.Context, radius float64) error {
	broke, err := b.try(ctx, radius)
	if err != nil || !broke || b.VerdictOnly {
		return err
	}
	for low := 0.0; b.nearest-low > b.Tolerance*max(b.nearest, finest*b.Epsilon); {
		radius := (low + b.nearest) / 2
		if broke, err = b.try(ctx, radius); err != nil {
			return err
		}
		if !broke {
			low = radius
		}
	}
	return nil
}

// try makes restarts at a radius until one finds a misclassified point within it, which becomes the nearest.
func (b *bracket) try(ctx context.Context, radius float64) (bool, error) {
	r, x := b.ascent, b.ascent.im.Pixels
	// The radius is slightly smaller, so that rounding does not put points outside it.
	r.Epsilon = radius * (1 - roundingSlack)
	r.lo, r.hi = box(b.Norm, x, r.Epsilon)
	for restart := range b.Restarts {
		rng := generator(b.Seed, b.Name(), b.tries, b.rank, r.im.ID)
		b.tries++
		var err error
		if r.warm = restart == 0 && b.found(); r.warm {
			r.LargeRadii = false
			share := r.Epsilon / b.nearest
			for i, v := range x {
				r.cur[i] = min(max(float32(float64(v)+(float64(b.adv[i])-float64(v))*share), 0), 1)
			}
			err = r.climb(ctx)
		} else {
			r.LargeRadii = b.Norm == L1
			err = r.run(ctx, rng)
		}
		if err != nil {
			return false, err
		}
		if r.adv == nil {
			continue
		}
		confine(b.Norm, x, r.adv, r.Epsilon)
		b.adv = r.adv
		b.nearest = b.Norm.Distance(b.adv, x) // at most radius: confine allows that much slack
		return true, nil
	}
	return false, nil
}
