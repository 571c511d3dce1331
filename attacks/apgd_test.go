package attacks

import (
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// A checkpoint halves the step by the rises since the one before, as the reference counts them in the buffer of all
// losses, or if the best loss stands still: only from the second checkpoint on, and not right after a halving.
func TestCheckpoints(t *testing.T) {
	rng := generator(0, "losses", 0, 0, 0)
	for n := 1; n < 200; n++ {
		h, buffer, best := newHalving(n, .5, 0), make([]float64, n), 0.0
		halved, bestThen := true, 0.0
		for i := range buffer {
			buffer[i] = math.Round(3*rng.Float64()*rng.Float64()) - 1
			best = max(best, buffer[i])
			if h.after(buffer[i]); !h.due(i) {
				continue
			}
			rises := 0
			for j := i; j > i-h.period; j-- {
				if buffer[j] > buffer[(j+n-1)%n] {
					rises++
				}
			}
			want := float64(rises) <= .5*float64(h.period) || !halved && bestThen >= best
			if got := h.stalled(i, best); got != want {
				t.Errorf("%d iterations, the checkpoint after %d: %v after %d rises", n, i, got, rises)
			}
			halved, bestThen = want, best
		}
	}
}

// component makes an attack as AutoAttack runs it, with the given parameters and defaults for the others.
func component(kind string, n Norm, epsilon float64, parameters given) Attack {
	spec, _ := Lookup(kind)
	return spec.attack(common{kind, n, epsilon, spec.loss(parameters), false, false}, parameters).(Attack)
}

func perturb(t *testing.T, a Attack, o Oracle, im Image, seed uint64) Result {
	t.Helper()
	return must.Get(a.Perturb(t.Context(), o, im, Options{Seed: seed}))(t)
}

func grey(d int) Image { return Image{Pixels: slices.Repeat([]float32{0.5}, d)} }

// TestAPGDExpectation: with EOT the gradient is the mean; loss and success come from the last pass.
func TestAPGDExpectation(t *testing.T) {
	o := &scripted{shape: Shape{C: 1, H: 1, W: 2}}
	o.answer = func(call int, e *Evaluation) {
		e.Gradient = []float32{3, -1}
		if call%2 == 1 { // last pass of two
			e.Gradient = []float32{-1, -1}
		} else {
			e.Logits = []float32{0, 1}
		}
	}
	a := component("apgd-ce", Linf, 0.1, given{"steps": 2, "eot_iter": 2})
	watched := &spy{Oracle: o}
	if res := perturb(t, a, watched, grey(2), 1); res.Adversarial != nil {
		t.Errorf("success of a pass that is not the last: %v", res.Adversarial)
	}
	if at := watched.made[2].x; o.calls != 6 || furthest(at, []float32{0.6, 0.4}) > 1e-6 {
		t.Errorf("%d passes; first step to %v", o.calls, at)
	}
}

// passes returns the passes that an attack makes on an image.
func passes(t *testing.T, a Attack, o Oracle, im Image) []pass {
	t.Helper()
	watched := &spy{Oracle: o}
	perturb(t, a, watched, im, 3)
	return watched.made
}
