package attacks

import "math"

// reach is how far a run of Auto-PGD has come that may give up. It scales with the loss and depends on one image alone.
// The constants were chosen by runs that did not give up (docs/measured/attacks.md).
type reach struct {
	start, highest float64   // gap at the run's first point, and the highest of this stage
	after          []float64 // the highest after each iteration of this stage
	radius         float64   // of this stage
	over           bool      // whether the run was given up
}

const (
	hopedPace = 2 // pace of the gap until the end of a stage, times that of late: it rises when the step is halved
	// The power of the radius with which the gap rises at least; it is 1 where the model is linear in the ball. The
	// less, the more of what is gained in a large ball is expected of a small one.
	leastPower = .4
	nearby     = .2 // share of a run's first gap within which it came near success
)

// gap is 0 where the class changes and positive beyond: the loss, or the margin where the loss is no such difference.
func (r *ascent) gap() float64 {
	if r.Loss.Signed() {
		return r.loss
	}
	return Margin.Value(r.eval.Logits, r.im.Label, r.target)
}

// begin notes the gap at the first point of a stage, which may be that of a run.
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

// givesUp reports, after iteration i (0-based) of a stage, whether with the pace of late its gap would not come to 0 at
// Epsilon. Of late means the last fifth of a run's iterations, about as many as pass before the step is first halved;
// in ℓ1, whose steps adapt more often, the last tenth.
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

// again reports whether another restart is worth its passes after a run that failed: always, unless it may give up and
// was not near success at Epsilon when it ended.
func (r *ascent) again() bool {
	return !r.GiveUp || r.reach.radius == r.Epsilon && r.reach.highest >= nearby*r.reach.start
}
