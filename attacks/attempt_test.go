package attacks

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// A claim lies in the ball, in each norm, though rounding left its point outside by a little; a point inside stays as
// it is, bit for bit.
func TestClaimsLieInTheBall(t *testing.T) {
	t.Parallel()
	clean := imagesNear(newLinear(shape, 3, 1, unlimited), 1, 0.3, 2)[0]
	for _, n := range classic {
		for _, beyond := range []float64{0.5, 1 - 1e-4, 1 + 1e-6, 1 + 2e-5, 1 + 1e-3} {
			point := slices.Clone(clean.Pixels)
			for i := range point {
				point[i] += 0.01 * float32(i%3-1)
			}
			epsilon := n.Distance(point, clean.Pixels) / beyond
			a := newAttempt(&scripted{}, clean, Options{})
			got := a.claim(slices.Clone(point), n, epsilon).Adversarial
			if d := n.Distance(got, clean.Pixels); !(d <= epsilon*(1+roundingSlack)) ||
				d < epsilon*min(beyond, 1)*(1-1e-5) {
				t.Errorf("%v, a point at %v of epsilon: claimed at %v of it", n, beyond, d/epsilon)
			}
			if beyond < 1+roundingSlack && !slices.Equal(got, point) {
				t.Errorf("%v: a point at %v of epsilon is moved", n, beyond)
			}
		}
	}
	a := newAttempt(&scripted{}, clean, Options{})
	if got := a.claim(nil, Linf, 0.1); got.Adversarial != nil || got.FirstSuccess != -1 || got.FirstForward != -1 {
		t.Errorf("a claim without a point: %+v", got)
	}
}

// The first success is kept, the point is the last; nothing ends an attack but a success for the verdict alone.
func TestNote(t *testing.T) {
	t.Parallel()
	for _, verdictOnly := range []bool{false, true} {
		a := newAttempt(&scripted{}, Image{}, Options{VerdictOnly: verdictOnly})
		a.res.Iterations, a.res.Forward = 3, 4
		if a.note(false, []float32{1}) || a.adv != nil || a.res.FirstSuccess != -1 {
			t.Errorf("a point that is right: %+v", a.res)
		}
		if ends := a.note(true, []float32{2}); ends != verdictOnly {
			t.Errorf("for the verdict alone %v: a success ends it %v", verdictOnly, ends)
		}
		a.res.Iterations, a.res.Forward = 5, 6
		a.note(true, []float32{3})
		if a.res.FirstSuccess != 3 || a.res.FirstForward != 4 || a.adv[0] != 3 {
			t.Errorf("%+v, point %v", a.res, a.adv)
		}
	}
}

// Values that are not finite, in a gradient or a loss, do not reach the steps.
func TestGradientsAreFinite(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	o := &scripted{logits: []float32{1, 2}, answer: func(_ int, e *Evaluation) {
		e.Loss, e.Gradient = nan, []float32{nan, inf, -inf, 5}
	}}
	a := newAttempt(o, Image{Pixels: make([]float32, 4), Label: 1}, Options{})
	wrong := must.Get(a.gradient(t.Context(), a.im.Pixels, CrossEntropy, -1))(t)
	if want := []float32{0, 1e30, -1e30, 5}; wrong || !slices.Equal(a.eval.Gradient, want) ||
		!math.IsInf(float64(a.eval.Loss), -1) || a.res.Forward != 1 || a.res.Backward != 1 {
		t.Errorf("%v, %+v, %+v", wrong, a.eval, a.res)
	}
	a.im.Label = 0
	if !must.Get(a.wrong(t.Context(), a.im.Pixels))(t) || a.res.Forward != 2 || a.res.Backward != 1 {
		t.Errorf("another class: %+v", a.res)
	}
}

// Targets are the wrong classes with the highest logits, the higher class first among equals, at most all of them.
func TestHighestTargets(t *testing.T) {
	t.Parallel()
	o := &scripted{logits: []float32{3, 5, 1, 3, 2}}
	for n, want := range map[int][]int{1: {3}, 3: {3, 0, 4}, 9: {3, 0, 4, 2}} {
		a := newAttempt(o, Image{Pixels: []float32{0}, Label: 1}, Options{})
		if got := must.Get(a.targets(t.Context(), true, n))(t); !slices.Equal(got, want) || a.res.Forward != 1 {
			t.Errorf("%d targets are %v, want %v; %d passes", n, got, want, a.res.Forward)
		}
		if got := must.Get(a.targets(t.Context(), false, n))(t); !slices.Equal(got, []int{-1}) || a.res.Forward != 1 {
			t.Errorf("without targets: %v", got)
		}
	}
}

// By distance, targets are ordered by their logits' gap over the length of its gradient in the dual norm.
func TestNearestTargets(t *testing.T) {
	t.Parallel()
	gradients := map[int][]float32{0: {1, 1, 0}, 2: {8, 0, 0}, 3: {3, -4, 0}}
	o := &scripted{logits: []float32{3, 5, 1, 2}}
	for norm, want := range map[Norm][]int{Linf: {3, 2, 0}, L2: {2, 3, 0}} { // 3/7, 4/8, 2/2 and 4/8, 3/5, 2/√2
		call := 0
		o.answer = func(_ int, e *Evaluation) {
			target := []int{0, 3, 2}[call%3]
			call++
			e.Loss, e.Gradient = o.logits[target]-o.logits[1], gradients[target]
		}
		a := newAttempt(o, Image{Pixels: make([]float32, 3), Label: 1}, Options{})
		if got := must.Get(a.linearised(t.Context(), norm, 3))(t); !slices.Equal(got, want) || a.res.Forward != 4 ||
			a.res.Backward != 3 || a.res.Starts != 0 {
			t.Errorf("%v: targets are %v, want %v; %+v", norm, got, want, a.res)
		}
	}
}

// The order is PyTorch's.
func TestNearestTargetsAgreeWithPyTorch(t *testing.T) {
	var golden struct {
		Cases []struct {
			Image  []float32
			Label  int
			Orders map[string][]int
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/malt.json"))(t), &golden))
	_, o := load(t)
	differ := 0
	for i, c := range golden.Cases {
		for name, want := range c.Orders {
			a := newAttempt(o, Image{Pixels: c.Image, Label: c.Label}, Options{})
			got := must.Get(a.linearised(t.Context(), norm(t, name), len(want)))(t)
			if !slices.Equal(got, want) {
				t.Errorf("image %d, %s: targets are %v, want %v", i, name, got, want)
			}
			if !slices.Equal(want, must.Get(a.targets(t.Context(), true, len(want)))(t)) {
				differ++
			}
		}
	}
	if differ < 20 {
		t.Errorf("only %d orders differ from the logits'", differ)
	}
}
