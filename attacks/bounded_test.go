package attacks

import (
	"context"
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/setting"
)

// An attack takes no memory in proportion to a number that its parameters give: it may take long, but starts at once.
func TestParametersTakeNoMemory(t *testing.T) {
	tried, shape := 0, Shape{3, 8, 8}
	for _, spec := range Specs {
		for _, p := range spec.Parameters {
			if p.Type != setting.Whole {
				continue
			}
			for _, n := range spec.In() {
				set := given{p.Name: math.MaxInt32}
				if slices.ContainsFunc(spec.Parameters, func(p Parameter) bool { return p.Name == "give_up" }) {
					set["give_up"] = true
				}
				attack, ok := spec.attack(common{spec.Kind, n, .1, spec.loss(set), false, false}, set).(Attack)
				if !ok || attack.Check(10, shape) != nil {
					continue
				}
				tried++
				ctx, stop := context.WithCancel(t.Context())
				down := func(_ int, e *Evaluation) { e.Loss, e.Gradient[0] = -1, 1 }
				o := &spy{Oracle: &scripted{shape: shape, logits: make([]float32, 10), answer: down}}
				o.visit = func() { // a number of questions ends the attack
					if len(o.made) == 100 {
						stop()
					}
				}
				before := must.Allocated()
				_, err := attack.Perturb(ctx, o, Image{Pixels: make([]float32, shape.Size())}, Options{})
				if taken := must.Allocated() - before; taken > 4<<20 {
					t.Errorf("%s, %s of %v: %d bytes; %v", spec.Kind, p.Name, n, taken, err)
				}
				stop()
			}
		}
	}
	if tried < 60 {
		t.Errorf("%d parameters were tried", tried)
	}
}

// Counts of passes do not overflow: they are exact, or more than any machine makes.
func TestPassesDoNotOverflow(t *testing.T) {
	for _, spec := range Specs {
		set := given{}
		for _, p := range spec.Parameters {
			if p.Type == setting.Whole && p.Name != SideName {
				set[p.Name] = math.MaxInt32
			}
		}
		for _, n := range spec.In() {
			if spec.Versions != nil {
				continue
			}
			method := spec.attack(common{spec.Kind, n, .1, spec.loss(set), false, false}, set)
			forward, backward := method.Passes(math.MaxInt16)
			if len(set) > 0 && forward < math.MaxInt32 || forward > 1<<51 || backward < 0 || backward > 1<<51 {
				t.Errorf("%s of %v: %d forward, %d backward", spec.Kind, n, forward, backward)
			}
		}
	}
}
