package attacks

import (
	"context"
	"fmt"
)

// APGD is Auto-PGD: projected gradient ascent with momentum whose step size
// halves when progress stalls (Croce & Hein 2020, section 3), or, in ℓ1, whose
// steps adapt their sparsity (Croce & Hein 2021, section 3). A run makes every
// iteration even after a success (but see StopAtSuccess) and returns its last
// misclassified iterate; further restarts and targets are tried only while the
// image is unbroken.
//
// With a targeted loss it attacks the highest ranked wrong classes of the clean
// image, one after another. Numbers left zero have the defaults of [Specs], which
// says more of each.
type APGD struct {
	Norm    Norm
	Epsilon float64 // radius in the norm, in pixel units of [0,1]
	Loss    Loss    // TargetedDLR makes it APGD-T (2020, section 4)

	Steps    int     // per run
	Restarts int     // runs per target
	Targets  int     // most classes tried by a targeted loss
	EOT      int     // passes averaged per gradient
	Rho      float64 // fraction of rises below which the step halves
	// LargeRadii spends the iterations of an ℓ1 run on radii 3ε, 2ε and ε: 30, 30 and
	// 40 % of them (2021, section 3.4).
	LargeRadii bool
	FromClean  bool    // start at the clean image, not at random
	Sparsity   float64 // fraction of the values that an ℓ1 run moves at first, without LargeRadii
	// StopAtSuccess ends the attack at the first misclassified iterate (of the
	// last radius), which is then the one returned. See [VerdictOnly].
	StopAtSuccess bool
}

func (a APGD) verdictOnly() Attack {
	a.StopAtSuccess = true
	return a
}

func (a APGD) withDefaults() APGD { return withDefaults(a, apgdParameters) }

// Name returns apgd-ce, apgd-dlr, apgd-t (targeted DLR), or apgd- and the loss's name.
func (a APGD) Name() string {
	if a.Loss == TargetedDLR {
		return "apgd-t"
	}
	return "apgd-" + a.Loss.String()
}

// Check reports too few classes for the loss, and parameters outside their ranges.
func (a APGD) Check(classes int, shape Shape) error {
	a = a.withDefaults()
	if err := checkCommon(a.Name(), a.Norm, a.Epsilon, a.Loss, classes, shape); err != nil {
		return err
	}
	return checkParameters(a, a.Norm, apgdParameters)
}

// checkCommon checks what every attack needs.
func checkCommon(name string, norm Norm, eps float64, loss Loss, classes int, shape Shape) error {
	switch {
	case !norm.known():
		return fmt.Errorf("%s: no such norm: %d", name, int(norm))
	case loss < CrossEntropy || loss > Margin:
		return fmt.Errorf("%s: no such loss: %d", name, int(loss))
	case !(eps > 0 && eps < 1e9):
		return fmt.Errorf("%s: epsilon must be positive and finite, not %v", name, eps)
	case shape.C < 1 || shape.H < 1 || shape.W < 1:
		return fmt.Errorf("%s: images of %dx%dx%d have no pixels", name, shape.C, shape.H, shape.W)
	case shape != AnyShape && eps > norm.widest(shape):
		return fmt.Errorf("%s: epsilon %.6g is too large: images of %dx%dx%d are at most %.6g apart in %s",
			name, eps, shape.C, shape.H, shape.W, norm.widest(shape), norm)
	case classes < loss.MinClasses():
		return fmt.Errorf("%s: the %s loss needs at least %d classes, the model has %d",
			name, loss, loss.MinClasses(), classes)
	}
	return nil
}

// Passes counts a run as Steps + 1 gradients (one more for each of the two
// larger radii), and one forward pass to rank the targets.
func (a APGD) Passes(classes int) (forward, backward int) {
	a = a.withDefaults()
	backward = a.EOT * a.Restarts * (a.Steps + len(a.stages()))
	if !a.Loss.Targeted() {
		return backward, backward
	}
	backward *= min(a.Targets, classes-1)
	return backward + 1, backward
}

// stage is a part of a run at one radius.
type stage struct {
	eps   float64
	steps int
}

// stages splits a run: one stage, or 3ε, 2ε, ε for ⌈.3n⌉, ⌈.3n⌉ and the other iterations.
func (a APGD) stages() []stage {
	if !a.LargeRadii {
		return []stage{{a.Epsilon, a.Steps}}
	}
	third := min((3*a.Steps+9)/10, a.Steps)
	second := min(third, a.Steps-third)
	return []stage{{3 * a.Epsilon, third}, {2 * a.Epsilon, second}, {a.Epsilon, a.Steps - third - second}}
}

// Perturb runs every restart on every target until one breaks the image.
func (a APGD) Perturb(ctx context.Context, o Oracle, im Image, seed uint64) (Result, error) {
	a = a.withDefaults()
	r := newAscent(a, o, im)
	targets := []int{-1}
	if a.Loss.Targeted() {
		var err error
		if targets, err = rankTargets(ctx, o, im, a.Targets, &r.res); err != nil {
			return Result{}, err
		}
	}
	for rank, target := range targets {
		r.target = target
		for restart := range a.Restarts {
			rng := generator(seed, a.Name(), restart, rank, im.ID)
			if err := r.run(ctx, rng); err != nil {
				return Result{}, err
			}
			if r.broken {
				confine(a.Norm, im.Pixels, r.adv, a.Epsilon)
				r.res.Adversarial = r.adv
				return r.res, nil
			}
		}
	}
	return r.res, nil
}

// rankTargets returns the n highest wrong classes at the clean image, highest
// first and, among equals, the higher class first, for one forward pass. n is
// cut to classes − 1, where the reference would fail on an index.
func rankTargets(ctx context.Context, o Oracle, im Image, n int, res *Result) ([]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	logits := make([]float32, o.Classes())
	if err := o.Logits(ctx, im.Pixels, logits); err != nil {
		return nil, err
	}
	res.Forward++
	var order []int
	for j, z := range logits {
		if j == im.Label {
			continue
		}
		at := len(order)
		order = append(order, j)
		for ; at > 0 && z >= logits[order[at-1]]; at-- {
			order[at], order[at-1] = order[at-1], j
		}
	}
	return order[:min(n, len(order))], nil
}
