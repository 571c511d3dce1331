package attacks

import (
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// TestCheckpointConditions: a best loss that stands still halves the step only
// from the second checkpoint on, and not right after a halving.
func TestCheckpointConditions(t *testing.T) {
	losses := make([]float64, 100)
	for i := range losses {
		losses[i] = float64(i + 1) // rises all the time
	}
	if got := halvings(losses, 1000, 1000); !slices.Equal(got,
		[]bool{false, true, false, true, false, true, false, true}) {
		t.Errorf("best loss of the start never reached: %v", got)
	}
	// The first iteration is compared with 0, whatever the start's loss was.
	for i := range losses {
		losses[i] = -1
	}
	if got := halvings(losses, -2, -1); !got[0] {
		t.Errorf("constant loss: %v", got)
	}
}

// halvings lists what every checkpoint of a run with these losses decides, the best loss being as given all along.
func halvings(losses []float64, start, best float64) (halved []bool) {
	h := newHalving(len(losses), .75, start)
	for i := range losses {
		h.after(losses[i])
		if h.due(i) {
			halved = append(halved, h.stalled(i, best))
		}
	}
	return halved
}

// A checkpoint counts the rises since the one before, as the reference does in the buffer of all losses.
func TestRisesSinceTheLastCheckpoint(t *testing.T) {
	rng := generator(0, "losses", 0, 0, 0)
	for n := 1; n < 200; n++ {
		losses := make([]float64, n)
		for i := range losses {
			losses[i] = math.Round(3*rng.Float64()) - 1
		}
		h, buffer := newHalving(n, .75, 0), make([]float64, n)
		for i, l := range losses {
			buffer[i] = l
			if h.after(l); !h.due(i) {
				continue
			}
			rises := 0
			for j := i; j > i-h.period; j-- {
				if buffer[j] > buffer[(j+n-1)%n] {
					rises++
				}
			}
			if h.rises != rises {
				t.Errorf("%d iterations, the checkpoint after %d: %d rises, not %d", n, i, h.rises, rises)
			}
			h.stalled(i, 0)
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

// TestAPGDSteps: the budget is used in full by default (a port passed on 10 iterations), the first step is 2ε
// (another started at 0.1), the momentum weights are 1 and then ¾, and a stalled run restarts from its best point
// with half the step.
func TestAPGDSteps(t *testing.T) {
	o := &scripted{shape: Shape{C: 1, H: 1, W: 1}}
	o.answer = func(call int, e *Evaluation) {
		e.Gradient[0] = 1 - 2*float32(call%2) // up, down, up, …
		e.Loss = -1                           // never rises; the best point is the first
	}
	a := component("apgd-ce", Linf, 0.1, nil)
	watched := &spy{Oracle: o}
	r := newAscent(a.(apgd), watched, grey(1), Options{})
	copy(r.cur, []float32{0.42})
	if err := r.climb(t.Context()); err != nil || r.adv != nil {
		t.Fatal(r.adv, err)
	}
	if o.calls != 101 || r.res.Iterations != 100 || r.res.Backward != 101 {
		t.Errorf("%d gradients, %d iterations; want 101, 100", o.calls, r.res.Iterations)
	}
	near := func(i int, want float64) {
		if got := float64(watched.made[i].x[0]); math.Abs(got-want) > 1e-6 {
			t.Errorf("iterate %d is %v, want %v", i, got, want)
		}
	}
	near(1, 0.6)                            // 0.42 + 0.2, clipped
	near(2, 0.6+0.75*(0.4-0.6)+0.25*(0.18)) // z = 0.4
	z3 := 0.6 + 0.75*(0.4-0.6) + 0.25*0.18  // iterate 2: 0.495
	near(3, z3+0.75*(0.6-z3)+0.25*(z3-0.6)) // back up
	// After 22 iterations: from the start point again, whose gradient points up,
	// by half of 0.2; the difference is taken to the iterate before the last.
	before := float64(watched.made[21].x[0])
	near(23, 0.42+0.75*(0.1)+0.25*(0.42-before))
	if f, b := a.Passes(10); f != 101 || b != 101 {
		t.Errorf("promises %d and %d passes", f, b)
	}
}

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

// TestAPGDLargeRadii: three stages at 3ε, 2ε and ε, 30/30/40 iterations, each with a gradient at its start.
func TestAPGDLargeRadii(t *testing.T) {
	o := randomMLP(Shape{C: 1, H: 5, W: 5}, 8, 3, 1)
	im := imagesNear(o, 1, 0.3, 2)[0]
	eps := 0.05
	a := component("apgd-ce", L1, eps, given{"large_radii": true})
	all := passes(t, a, o, im)
	if len(all) != 103 {
		t.Fatalf("%d gradients, want 103", len(all))
	}
	for i, p := range all {
		radius := eps
		if i < 31 {
			radius = 3 * eps
		} else if i < 62 {
			radius = 2 * eps
		}
		if d := L1.Distance(p.x, im.Pixels); d > radius*(1+1e-4) || i%31 == 30 && d < radius*0.9 {
			t.Errorf("evaluation %d at distance %v, radius %v", i, d, radius)
		}
	}
	if f, b := a.Passes(3); f != 103 || b != 103 {
		t.Errorf("promises %d, %d", f, b)
	}
}

// passes returns the passes that an attack makes on an image.
func passes(t *testing.T, a Attack, o Oracle, im Image) []pass {
	t.Helper()
	watched := &spy{Oracle: o}
	perturb(t, a, watched, im, 3)
	return watched.made
}

// TestTargets: the highest wrong classes of the clean image in order, cut to the classes there are.
func TestTargets(t *testing.T) {
	o := randomMLP(Shape{C: 1, H: 5, W: 5}, 8, 5, 1)
	im := imagesNear(o, 1, 0.3, 2)[0]
	var targets []int
	all := passes(t, component("apgd-t", Linf, 1e-5, given{"steps": 3}), o, im)
	for _, p := range all[1:] { // the first ranks them
		targets = append(targets, p.target)
	}
	logits := make([]float32, 5)
	must.Do(t, o.Logits(t.Context(), im.Pixels, logits))
	order := []int{0, 1, 2, 3, 4}
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, float64(logits[b]-logits[a]))) })
	if got := slices.Compact(targets); !slices.Equal(got, order[1:]) {
		t.Errorf("targets %v, want %v", got, order[1:])
	}
	if len(all) != 1+4*4 || all[0].gradient {
		t.Errorf("%d passes, the first with a gradient: %v", len(all), all[0].gradient)
	}
}
