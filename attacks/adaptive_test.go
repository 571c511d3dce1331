package attacks

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// sided is a linear classifier of two classes whose own gradient is 0; along "slopes" it is the true one.
type sided struct {
	weights []float32
	sloped  bool
	asked   *int // gradients
}

func (o sided) Shape() Shape { return Shape{C: 1, H: 1, W: len(o.weights)} }
func (o sided) Classes() int { return 2 }

func (o sided) Logits(_ context.Context, x, out []float32) error {
	out[0], out[1] = 0, 0
	for i, w := range o.weights {
		out[1] += w * (x[i] - 0.5)
	}
	out[1] -= 0.1
	return nil
}

func (o sided) Gradient(ctx context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error {
	*o.asked++
	e.Logits, e.Gradient = make([]float32, 2), make([]float32, len(x))
	if err := o.Logits(ctx, x, e.Logits); err != nil {
		return err
	}
	e.Loss = float32(loss.Value(e.Logits, label, target))
	for i, w := range o.weights {
		if o.sloped {
			e.Gradient[i] = w * x[i] // depends on the point
		}
	}
	return nil
}

func (o sided) Along(gradient string) (Oracle, error) {
	if gradient != Slopes {
		return nil, nil
	}
	o.sloped = true
	return o, nil
}

// A component that follows slopes breaks what its own gradient does not. Without them it does nothing.
func TestSideways(t *testing.T) {
	asked := 0
	o := sided{weights: []float32{1, -2, 0.5}, asked: &asked}
	im := Image{Pixels: []float32{0.5, 0.5, 0.5}}
	own := must.Get(Setup{Kind: "apgd-ce"}.Make(0.1, 2))(t).Components[0]
	for gradient, broken := range map[string]bool{"": false, Slopes: true, Bare: false} {
		a := own
		if asked = 0; gradient != "" {
			a = sideways{own, Needs{Gradient: gradient}, Linf, 0.1}
		}
		res := must.Get(a.Perturb(t.Context(), o, im, Options{VerdictOnly: true}))(t)
		if (res.Adversarial != nil) != broken || (asked == 0) != (gradient == Bare) || res.FirstSuccess >= 0 != broken {
			t.Errorf("%q: %+v after %d gradients", gradient, res, asked)
		}
	}
}

// The gradient nearby is the mean over the point and others, the same at the same point.
func TestNearby(t *testing.T) {
	asked := 0
	o := &averaged{sided{[]float32{1, -2, 0.5}, true, &asked}, Linf, 0.1, 7}
	x := []float32{0.4, 0.5, 0.9}
	var one, two Evaluation
	must.Do(t, o.Gradient(t.Context(), x, Margin, 0, 1, &one))
	must.Do(t, o.Gradient(t.Context(), x, Margin, 0, 1, &two))
	if asked != 2*nearbyDraws || !slices.Equal(one.Gradient, two.Gradient) {
		t.Errorf("%d gradients, %v and %v", asked, one.Gradient, two.Gradient)
	}
	for i, g := range one.Gradient {
		own := o.Oracle.(sided).weights[i] * x[i]
		if g == own || math.Abs(float64(g-own)) > 0.1*math.Abs(float64(o.Oracle.(sided).weights[i])) {
			t.Errorf("value %d: %v beside %v", i, g, own)
		}
	}
	inner := apgd{common: common{name: "apgd-ce"}, Steps: 9, Restarts: 1, EOTIter: 1}
	a := sideways{inner, Needs{Gradient: Nearby}, Linf, 0.1}
	if forward, backward := a.Passes(10); forward != 200 || backward != 200 {
		t.Errorf("%d and %d passes", forward, backward)
	}
	asked = 0
	res := must.Get(a.Perturb(t.Context(), sided{[]float32{1, -2, 0.5}, true, &asked}, Image{Pixels: x}, Options{}))(t)
	if res.Forward != 200 || res.Backward != 200 || asked != 200 || res.FirstForward%nearbyDraws > 0 {
		t.Errorf("%+v after %d gradients", res, asked)
	}
}

// Version adaptive begins as standard does. Names tell its components apart, and those that need signs come last.
func TestAdaptive(t *testing.T) {
	for _, n := range []Norm{Linf, L2, L1} {
		s := Setup{Kind: "autoattack", Version: "adaptive", Norm: n}
		r := must.Get(s.Make(0.1, 10))(t)
		reference := must.Get(Setup{Kind: "autoattack", Norm: n}.Make(0.1, 10))(t)
		var seen []string
		for k, c := range r.Components {
			if k < 4 && c.Name() != reference.Components[k].Name() {
				t.Errorf("%v: component %d is %s", n, k, c.Name())
			}
			needs := c.Needs()
			if needs.Signs != (k >= 11) || needs.Gradient != "" && !strings.HasSuffix(c.Name(), "-"+needs.Gradient) {
				t.Errorf("%v: %s needs %+v", n, c.Name(), needs)
			}
			seen = append(seen, c.Name())
		}
		if slices.Sort(seen); len(slices.Compact(seen)) < len(r.Components)-1 { // Square comes twice
			t.Errorf("%v: %q", n, seen)
		}
		all := 18
		if n == L1 {
			all = 17 // no attack by classes alone
		}
		if plain := r.Plain(); len(plain.Components) != 11 || len(r.Components) != all {
			t.Errorf("%v: %d of %d components always run", n, len(plain.Components), len(r.Components))
		}
		d := must.Get(s.Describe())(t)
		if p := d.Components[15].Parameters; p["gradient"] != Nearby || p["signs"] != true {
			t.Errorf("%v: %v", n, p)
		}
	}
	rows := must.Get(Setup{Kind: "autoattack", Version: "adaptive", Norm: L2}.Make(0.1, 10))(t)
	rows = rows.On(Shape{C: 1, H: 1, W: 9}) // without Square
	if len(rows.Components) != 16 || len(rows.Plain().Components) != 10 {
		t.Errorf("rows of features: %d components, %d always", len(rows.Components), len(rows.Plain().Components))
	}
	// Other wrappers pass needs on.
	on := must.Get(Setup{Kind: "autoattack", Version: "adaptive", Pixels: "8bit", Target: "next"}.Make(0.1, 10))(t)
	for k, c := range must.Get(Setup{Kind: "autoattack", Version: "adaptive"}.Make(0.1, 10))(t).Components {
		if on.Components[k].Needs() != c.Needs() {
			t.Errorf("%s: %+v on levels", c.Name(), on.Components[k].Needs())
		}
	}
}

// APGD starts at the images of other classes, moved into the ball, one after another, and then at random. Without such
// images it starts at random.
func TestStartsAtOthers(t *testing.T) {
	others := [][]float32{{1, 0.5, 0.5}, {0.5, 0, 1}}
	im := Image{Pixels: []float32{0.5, 0.5, 0.5}}
	for norm, want := range map[Norm][][]float32{Linf: {{0.6, 0.5, 0.5}, {0.5, 0.4, 0.6}},
		L2: {{0.6, 0.5, 0.5}, {0.5, 0.5 - 0.0707107, 0.5 + 0.0707107}}, L1: {{0.6, 0.5, 0.5}, {0.5, 0.45, 0.55}}} {
		a := must.Get(Setup{Kind: "apgd-ce", Norm: norm, Parameters: given{"from_others": true, "restarts": 3,
			"steps": 1}}.Make(0.1, 2))(t).Components[0]
		if a.Name() != "apgd-ce-others" {
			t.Errorf("its name is %s", a.Name())
		}
		o := &points{Oracle: sided{weights: []float32{0.1, 0.1, 0.1}, asked: new(int)}}
		must.Get(a.Perturb(t.Context(), o, im, Options{Others: func() ([][]float32, error) { return others, nil }}))(t)
		for k, x := range want {
			if Linf.Distance(o.asked[2*k], x) > 1e-6 {
				t.Errorf("%v: run %d starts at %v, not %v", norm, k, o.asked[2*k], x)
			}
		}
		if len(o.asked) != 6 || slices.Equal(o.asked[4], o.asked[0]) {
			t.Errorf("%v: %d points", norm, len(o.asked))
		}
		must.Get(a.Perturb(t.Context(), o, im, Options{}))(t)
		if len(o.asked) != 12 || slices.Equal(o.asked[6], o.asked[0]) {
			t.Errorf("%v: %d points without others", norm, len(o.asked))
		}
	}
}

// points keeps the points at which gradients are asked for.
type points struct {
	Oracle
	asked [][]float32
}

func (o *points) Gradient(ctx context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error {
	o.asked = append(o.asked, slices.Clone(x))
	return o.Oracle.Gradient(ctx, x, loss, label, target, e)
}

// corner answers class 1 at the corner 1 of all values alone.
type corner struct{ sided }

func (o corner) Logits(_ context.Context, x, z []float32) error {
	z[0], z[1] = 0.5, slices.Min(x)
	if z[1] < 0.99 {
		z[1] = 0
	}
	return nil
}

// HopSkipJump begins at a given image if noise never has another class.
func TestHopSkipJumpBeginsAtOthers(t *testing.T) {
	im := Image{Pixels: slices.Repeat([]float32{0.5}, 64)}
	a := must.Get(Setup{Kind: "hop-skip-jump", Norm: L2, Parameters: given{"queries": 500}}.Make(5, 2))(t).Components[0]
	others := [][]float32{make([]float32, 64), slices.Repeat([]float32{1}, 64)}
	for _, given := range [][][]float32{nil, others} {
		how := Options{Others: func() ([][]float32, error) { return given, nil }}
		res := must.Get(a.Perturb(t.Context(), corner{}, im, how))(t)
		if (res.Adversarial != nil) != (given != nil) || given != nil && res.FirstForward != blindly+2 {
			t.Errorf("%d others: %+v", len(given), res.FirstForward)
		}
	}
}
