package attacks

import "context"

// apgd is Auto-PGD: projected gradient ascent with momentum (Croce & Hein 2020, section 3). The step size halves when
// progress stalls. In ℓ1 the steps adapt their sparsity instead (Croce & Hein 2021, section 3). A run makes every
// iteration even after a success (but see [Options]) and returns its last misclassified iterate. Further restarts and
// targets are tried only while the image is unbroken.
//
// With a targeted loss it attacks the highest ranked wrong classes of the clean image, one after another; with targeted
// DLR it is APGD-T (2020, section 4).
type apgd struct {
	common
	Steps, Restarts, Targets int
	EOTIter                  int     // passes averaged per gradient
	Rho                      float64 // fraction of rises below which the step halves
	// LargeRadii spends 30, 30 and 40 % of the iterations of an ℓ1 run on radii 3ε, 2ε and ε (2021, section 3.4).
	LargeRadii bool
	Order      string  // what ranks the targets: logits, or the distance to linearised boundaries (malt)
	FromClean  bool    // start at the clean image, not at random
	FromOthers bool    // start at images of other classes, moved into the ball; at random if there are none
	Sparsity   float64 // fraction of the values that an ℓ1 run moves at first, without LargeRadii
	GiveUp     bool    // end a run that is unlikely to succeed; restart only after a run that came close
}

// newAPGD names the attack by its loss: apgd-t for targeted DLR, apgd-ce, apgd-dlr and so on for others.
func newAPGD(c common) Method {
	if c.name = "apgd-" + c.Loss.String(); c.Loss == TargetedDLR {
		c.name = "apgd-t"
	}
	return apgd{common: c}
}

// Name ends in others if it starts there.
func (a apgd) Name() string {
	if a.FromOthers {
		return a.name + "-others"
	}
	return a.name
}

// Passes counts Steps + 1 gradients for each run (one more for each of the two larger radii), and one forward pass that
// ranks the targets, with a gradient for each of them if they are ordered by distance. With GiveUp there are fewer.
func (a apgd) Passes(classes int) (forward, backward int) {
	backward = times(a.EOTIter, a.Restarts, a.Steps+len(a.stages()))
	if !a.Loss.Targeted() {
		return backward, backward
	}
	backward = times(backward, min(a.Targets, classes-1))
	if a.Order == byDistance {
		backward += min(max(a.Targets, mostLinearised), classes-1)
	}
	return backward + 1, backward
}

// byDistance is the order of targets by linearised boundaries.
const byDistance = "malt"

// stage is a part of a run at one radius.
type stage struct {
	eps   float64
	steps int
}

// stages splits a run into one stage, or into 3ε, 2ε, ε for ⌈.3n⌉, ⌈.3n⌉ and the other iterations. A run with GiveUp
// spends ⌈.2n⌉ on each of the larger radii, because most such runs end at 3ε.
func (a apgd) stages() []stage {
	if !a.LargeRadii {
		return []stage{{a.Epsilon, a.Steps}}
	}
	tenths := 3
	if a.GiveUp {
		tenths = 2
	}
	third := min((tenths*a.Steps+9)/10, a.Steps)
	second := min(third, a.Steps-third)
	return []stage{{3 * a.Epsilon, third}, {2 * a.Epsilon, second}, {a.Epsilon, a.Steps - third - second}}
}

// Perturb runs every restart on every target until one breaks the image.
func (a apgd) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	r := newAscent(a, o, im, how)
	err := r.resume(append(r.pace.variables(), &r.cur, &r.prev, &r.grad, &r.loss, &r.best, &r.bestGrad, &r.bestLoss,
		&r.reach.start, &r.reach.highest, &r.reach.after, &r.reach.radius, &r.reach.over, &r.first)...)
	switch {
	case err != nil || r.at.Targets != nil:
	case a.Order == byDistance:
		r.at.Targets, err = r.linearised(ctx, a.Norm, a.Targets)
	default:
		err = r.rank(ctx, a.Loss.Targeted(), a.Targets)
	}
	if err == nil && a.FromOthers {
		r.starts, err = how.others()
	}
	if err != nil {
		return Result{}, err
	}
	for at := &r.at; at.Target < len(at.Targets); at.Target, at.Restart = at.Target+1, 0 {
		r.target = at.Targets[at.Target]
		for ; at.Restart < a.Restarts; at.Restart++ {
			if err := r.run(ctx, generator(how.Seed, a.name, at.Restart, at.Target, im.ID)); err != nil {
				return Result{}, err
			}
			if r.adv != nil {
				return r.claim(r.adv, a.Norm, a.Epsilon), nil
			}
			if !r.again() {
				break
			}
		}
	}
	return r.res, nil
}
