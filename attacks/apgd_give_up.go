package attacks

import "math"

// reach measures how far a run of Auto-PGD with GiveUp has come. It scales with the loss and depends on one image
// alone. The constants were chosen on runs without GiveUp (docs/measured/attacks.md).
type reach struct {
	start, highest float64   // gap at the run's first point, and the highest gap of this stage
	after          []float64 // the highest after each iteration of this stage
	radius         float64   // radius of this stage
	over           bool      // whether the run was given up
}

const (
	// hopedPace is the expected pace of the gap until the stage ends, in units of its recent pace: it rises when the
	// step is halved.
	hopedPace = 2
	// leastPower is the lowest power of the radius with which the gap grows. It is 1 where the model is linear in the
	// ball. A lower power expects more of the gain in a large ball to remain in a small one.
	leastPower = .4
	// nearby is the fraction of its first gap to which the gap of a run must shrink for the run to count as close.
	nearby = .2
)

// gap returns a value that is negative before the class changes, 0 where it does and positive beyond: the loss, or the
// margin if the loss is not of this kind.
func (r *ascent) gap() float64 {
	if r.Loss.Signed() {
		return r.loss
	}
	return Margin.Value(r.eval.Logits, r.im.Label, r.target)
}

// begin records the gap at the first point of a stage.
func (r *ascent) begin(s stage) {
	if !r.GiveUp {
		return
	}
	f := &r.reach
	f.highest, f.radius, f.over = r.gap(), s.eps, false
	if s == r.stages()[0] {
		f.start = f.highest
	}
}

// givesUp reports, after iteration i (0-based) of a stage, whether the gap at its recent pace would stay below 0 at
// Epsilon. The recent pace is taken over the last fifth of a run's iterations, about as many as pass before the step is
// first halved. In ℓ1, whose steps adapt more often, it is the last tenth.
func (r *ascent) givesUp(s stage, i int) bool {
	if !r.GiveUp || r.adv != nil && s.eps == r.Epsilon {
		return false
	}
	f := &r.reach
	f.highest = max(f.highest, r.gap())
	f.after = append(f.after[:i], f.highest)
	window := max(r.Steps/5, 1)
	if r.Norm == L1 {
		window = max(r.Steps/10, 1)
	}
	left, pace := float64(s.steps-1-i), 0.
	if i >= window {
		pace = (f.highest - f.after[i-window]) / float64(window)
	} else if left > 0 {
		return false
	}
	rise := f.highest + hopedPace*pace*left - f.start
	f.over = f.start+rise*math.Pow(r.Epsilon/s.eps, leastPower) < 0
	return f.over
}

// again reports whether another restart is worth its passes after a run that failed. It is false only with GiveUp,
// after a run that did not come close to success at Epsilon.
func (r *ascent) again() bool {
	return !r.GiveUp || r.reach.radius == r.Epsilon && r.reach.highest >= nearby*r.reach.start
}
