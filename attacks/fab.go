package attacks

import (
	"context"
	"math"
	"slices"

	"selfheal/internal/vector"
)

// fab is the Fast Adaptive Boundary attack (Croce & Hein 2020, "Minimally distorted Adversarial Examples with a Fast
// Adaptive Boundary Attack"). It looks for the nearest misclassified point by projecting onto linearised decision
// boundaries. It makes every iteration (but see [Options]). The point found is a success if its distance, measured in
// float64, is at most Epsilon.
type fab struct {
	common
	// Targeted aims at the boundaries of the highest ranked wrong classes one after another (FAB-T, Croce & Hein 2020,
	// "Reliable evaluation…", section 5). Otherwise each step goes to the nearest boundary and costs classes − 1
	// gradients.
	Targeted bool

	Steps, Restarts, Targets int
	AlphaMax                 float64 // largest weight of the clean image's projection
	Eta                      float64 // extrapolation beyond the boundary
	Beta                     float64 // step back from a misclassified point
}

// Passes bounds the passes: a gradient per boundary and iteration, at most one more forward pass per iteration to check
// its step, one unused backward pass when a run first crosses the boundary, and a forward pass to rank the targets.
func (a fab) Passes(classes int) (forward, backward int) {
	runs, rivals := a.Restarts, classes-1
	if a.Targeted {
		runs, rivals = times(a.Restarts, min(a.Targets, classes-1)), 1
		forward = 1
	}
	return forward + times(runs, a.Steps, rivals+1), times(runs, a.Steps*rivals+1)
}

// Perturb runs every restart on every target. An attack run alone makes all of them, for the nearest point; in
// AutoAttack it stops when one finds a point within Epsilon.
func (a fab) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	r := newBoundaryWalk(a, o, im, how)
	err := r.resume(&r.x1, &r.w, &r.f, &r.lambda1, &r.lambda0, &r.distance, &r.unsure)
	if err == nil {
		err = r.rank(ctx, a.Targeted, a.Targets)
	}
	if err != nil {
		return Result{}, err
	}
	for at := &r.at; at.Target < len(at.Targets); at.Target, at.Restart = at.Target+1, 0 {
		if a.Targeted {
			r.rivals = []int{at.Targets[at.Target]}
		}
		for ; at.Restart < a.Restarts; at.Restart++ {
			if !at.Inside {
				r.begin(how.Seed)
			}
			if err := r.run(ctx); err != nil {
				return Result{}, err
			}
			if r.distance <= a.Epsilon && (!a.alone || how.VerdictOnly) {
				return r.result(), nil
			}
		}
	}
	return r.result(), nil
}

// boundaryWalk is the state of FAB on one image.
type boundaryWalk struct {
	nearest
	of     fab
	rivals []int // classes whose boundaries are considered

	x1               []float32
	w, spare         []float32 // normal of the nearest boundary at x1, and a buffer for another
	f                float64   // logit difference at x1 that belongs to w
	lambda1, lambda0 float64   // multipliers of the moves of x1 and of the clean image onto the boundary
}

// newBoundaryWalk starts at the clean image.
func newBoundaryWalk(a fab, o Oracle, im Image, how Options) *boundaryWalk {
	r := &boundaryWalk{nearest: newNearest(a.common, o, im, how), of: a, x1: slices.Clone(im.Pixels),
		w: make([]float32, len(im.Pixels)), spare: make([]float32, len(im.Pixels))}
	for c := range o.Classes() {
		if c != im.Label {
			r.rivals = append(r.rivals, c)
		}
	}
	return r
}

// begin sets x1 to the start of a run: the clean image or, in a restart, a random point at half of epsilon.
func (r *boundaryWalk) begin(seed uint64) {
	clean, n := r.im.Pixels, r.of.Norm
	copy(r.x1, clean)
	if r.at.Restart > 0 {
		direction(n, generator(seed, r.of.Name(), r.at.Restart, r.at.Target, r.im.ID), r.x1)
		half := float32(0.5 * r.of.Epsilon / n.Length(r.x1))
		vector.AddScaledClamped(clean, r.x1, half, r.x1)
	}
}

// run makes one restart from x1, or goes on with it.
//
// Each step must be checked, and the next one needs a gradient at the same point, unless the check fails and the point
// moves back. Until a run first crosses the boundary the gradient therefore serves as the check. After that most steps
// cross, so a forward pass alone is the cheaper check, as it is after the last step.
func (r *boundaryWalk) run(ctx context.Context) error {
	at := &r.at
	if !at.Inside {
		r.begins, at.Inside, at.Step = true, true, 0
		at.Known, at.Crossed = false, false // gradient at x1 known; some step has crossed
	}
	defer func() { at.Inside = false }()
	for ; at.Step < r.of.Steps; at.Step++ {
		if err := r.keep(); err != nil {
			return err
		}
		if !at.Known {
			if _, err := r.linearize(ctx, false); err != nil {
				return err
			}
		}
		r.step()
		r.res.Iterations++
		var wrong bool
		var err error
		if at.Known = !at.Crossed && at.Step < r.of.Steps-1; at.Known {
			wrong, err = r.linearize(ctx, true)
		} else {
			wrong, err = r.wrong(ctx, r.x1)
		}
		if err != nil {
			return err
		}
		if wrong {
			at.Crossed, at.Known = true, false
			if r.meet(r.x1, true) {
				return nil
			}
			vector.Toward(r.im.Pixels, r.x1, float32(r.of.Beta))
		}
	}
	return nil
}

// linearize finds the boundary nearest to x1 in the linear approximation, by |f| / ‖∇f‖_dual, where f is the logit
// difference to a rival class. It reports whether x1 is misclassified; with check set it then stops after one pass.
func (r *boundaryWalk) linearize(ctx context.Context, check bool) (wrong bool, err error) {
	nearest := math.Inf(1)
	for k, rival := range r.rivals {
		if k > 0 && never(r.eval.Logits[rival]) { // it has no boundary
			continue
		}
		r.eval.Gradient = r.spare
		if wrong, err = r.gradient(ctx, r.x1, LogitDifference, rival); err != nil {
			return false, err
		}
		if wrong && check && k == 0 {
			return true, nil
		}
		f, away := float64(r.eval.Loss), 0.0
		switch {
		case math.IsInf(f, -1): // for the first rival; without others nothing moves
			clear(r.eval.Gradient)
			f, away = 0, math.Inf(1)
		case len(r.rivals) > 1:
			away = math.Abs(f) / (1e-12 + r.Norm.Dual().Length(r.eval.Gradient))
		}
		if k == 0 || away < nearest {
			nearest, r.f = away, f
			r.w, r.spare = r.eval.Gradient, r.w
		}
	}
	return wrong, nil
}

// step projects x1 and the clean image onto the boundary and moves x1 to the
// extrapolated convex combination of the two projections (section 2.3).
func (r *boundaryWalk) step() {
	x0 := r.im.Pixels
	space := borrow(len(x0))
	defer space.giveBack()
	p, d1, d0 := newFiller(space), space.v[2], space.v[3]
	excess := r.f + vector.DotDifference(r.w, x0, r.x1) // w·x0 − b, with b = w·x1 − f
	p.project(r.Norm, r.x1, r.w, r.f, &r.lambda1, d1)
	p.project(r.Norm, x0, r.w, excess, &r.lambda0, d0)
	a1 := max(r.Norm.Length(d1), 1e-8)
	a0 := max(r.Norm.Length(d0), 1e-8)
	alpha := min(a1/(a1+a0), r.of.AlphaMax)
	vector.Combine(x0, d1, d0, float32(alpha), float32(r.of.Eta), r.x1)
}
