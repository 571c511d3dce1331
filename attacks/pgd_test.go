package attacks

import (
	"math"
	"testing"
)

// TestPGDSchedules compares the steps of a run with the schedule's formula, on one
// value that is pushed across its ball.
func TestPGDSchedules(t *testing.T) {
	for schedule, shares := range map[string][]float64{
		"constant": {1, 1, 1, 1},
		"linear":   {1, 0.75, 0.5, 0.25},
		"cosine":   {1, (1 + math.Sqrt2/2) / 2, 0.5, (1 - math.Sqrt2/2) / 2},
	} {
		for _, n := range classic {
			o := &scripted{shape: Shape{C: 1, H: 1, W: 1}}
			watched := &spy{Oracle: o}
			var away float32
			o.answer = func(call int, e *Evaluation) {
				if away == 0 { // the run starts at one end of the ball, or near it
					away = float32(math.Copysign(1, 0.5-float64(watched.made[0].x[0])))
				}
				e.Gradient[0] = away
			}
			a := component("pgd", n, 0.4, given{"steps": 4, "step_size": 0.05, "schedule": schedule})
			perturb(t, a, watched, grey(1), 1)
			for i, share := range shares {
				moved := float64((watched.made[i+1].x[0] - watched.made[i].x[0]) * away)
				if !(math.Abs(moved-0.05*share) <= 1e-6) {
					t.Errorf("%v, %v: step %d moves by %v, want %v", schedule, n, i, moved, 0.05*share)
				}
			}
		}
	}
}
