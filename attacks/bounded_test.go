package attacks

import (
	"context"
	"math"
	"runtime"
	"slices"
	"testing"

	"selfheal/internal/setting"
)

// asked is a model of two classes, the first of which it always answers. A number of questions ends the attack.
type asked struct {
	left int
	stop func()
}

func (a *asked) Shape() Shape { return Shape{3, 8, 8} }
func (a *asked) Classes() int { return 10 }

func (a *asked) Logits(ctx context.Context, _ []float32, logits []float32) error {
	clear(logits)
	logits[0] = 1
	if a.left--; a.left <= 0 {
		a.stop()
	}
	return ctx.Err()
}

func (a *asked) Gradient(ctx context.Context, x []float32, _ Loss, _, _ int, e *Evaluation) error {
	e.Loss, e.Gradient = -1, make([]float32, len(x))
	e.Gradient[0] = 1
	return a.Logits(ctx, x, e.Logits)
}

// An attack takes no memory in proportion to a number that its parameters give: it may take long, but starts at once.
func TestParametersTakeNoMemory(t *testing.T) {
	tried := 0
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
				if !ok || attack.Check(10, Shape{3, 8, 8}) != nil {
					continue
				}
				tried++
				ctx, stop := context.WithCancel(t.Context())
				o := &asked{100, stop}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := attack.Perturb(ctx, o, Image{Pixels: make([]float32, 3*8*8)}, Options{})
				runtime.ReadMemStats(&after)
				if taken := after.TotalAlloc - before.TotalAlloc; taken > 4<<20 {
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
