package attacks_test

import (
	"math"
	"strings"
	"testing"

	"selfheal/attacks"
)

// TestPGDSchedules compares the steps of a run with the schedule's formula, on one
// value that is pushed across its ball.
func TestPGDSchedules(t *testing.T) {
	for schedule, shares := range map[attacks.Schedule][]float64{
		attacks.ConstantSteps: {1, 1, 1, 1},
		attacks.LinearSteps:   {1, 0.75, 0.5, 0.25},
		attacks.CosineSteps:   {1, (1 + math.Sqrt2/2) / 2, 0.5, (1 - math.Sqrt2/2) / 2},
	} {
		for _, n := range attacks.Norms() {
			o := &scripted{shape: attacks.Shape{C: 1, H: 1, W: 1}}
			var away float32
			o.answer = func(call int, e *attacks.Evaluation) {
				if away == 0 { // the run starts at one end of the ball, or near it
					away = float32(math.Copysign(1, 0.5-float64(o.points[0][0])))
				}
				e.Gradient[0] = away
			}
			a := attacks.PGD{Norm: n, Epsilon: 0.4, Steps: 4, StepSize: 0.05, Schedule: schedule}
			perturb(t, a, o, grey(1), 1)
			points := append(o.points, o.asked[0])
			for i, share := range shares {
				moved := float64((points[i+1][0] - points[i][0]) * away)
				if math.Abs(moved-0.05*share) > 1e-6 {
					t.Errorf("%v, %v: step %d moves by %v, want %v", schedule, n, i, moved, 0.05*share)
				}
			}
		}
	}
	if err := (attacks.PGD{Epsilon: 1, Schedule: 3}).Check(10, attacks.Shape{C: 1, H: 1, W: 1}); err == nil ||
		!strings.Contains(err.Error(), "constant, linear, cosine") {
		t.Error(err)
	}
}
