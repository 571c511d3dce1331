package attacks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/attacks/attacktest"
)

var versions = map[string]func(attacks.Norm, float64, int) (attacks.Recipe, error){
	"standard": attacks.Standard, "plus": attacks.Plus, "rand": attacks.Rand, "quick": attacks.Quick,
	"custom": func(n attacks.Norm, e float64, classes int) (attacks.Recipe, error) {
		return attacks.Custom(n, e, classes, []attacks.Component{{Kind: "apgd-dlr"}, {Kind: "fab"}, {Kind: "apgd-t"}}, nil)
	},
}

func componentNames(r attacks.Recipe) string {
	names := []string{}
	for _, c := range r.Components {
		names = append(names, c.Name())
	}
	return strings.Join(names, " ")
}

func TestPlusAndRand(t *testing.T) {
	plus, err := attacks.Plus(attacks.L2, 0.5, 10)
	if err != nil || componentNames(plus) != "apgd-ce apgd-dlr fab square apgd-t fab-t" || plus.Fallback != "" {
		t.Errorf("%+v, %v", plus, err)
	}
	rand, err := attacks.Rand(attacks.Linf, 0.1, 3)
	if err != nil || rand.Name != "autoattack-rand/1" || componentNames(rand) != "apgd-ce apgd-dlr" || rand.Components[1].(attacks.APGD).EOT != 20 {
		t.Errorf("%+v, %v", rand, err)
	}
}

// TestFewClasses: a loss that is not defined gives way to its numerator, and the
// recipe's name and Fallback say so.
func TestFewClasses(t *testing.T) {
	for _, c := range []struct {
		version    string
		classes    int
		components string
		fallback   string
	}{
		{"standard", 4, "apgd-ce apgd-t fab-t square", ""},
		{"standard", 3, "apgd-ce apgd-logit-difference fab-t square",
			"the model has only 3 classes: apgd-t climbs logit-difference instead of dlr-targeted, which needs 4"},
		{"standard", 2, "apgd-ce apgd-logit-difference fab-t square",
			"the model has only 2 classes: apgd-t climbs logit-difference instead of dlr-targeted, which needs 4"},
		{"plus", 3, "apgd-ce apgd-dlr fab square apgd-logit-difference fab-t",
			"the model has only 3 classes: apgd-t climbs logit-difference instead of dlr-targeted, which needs 4"},
		{"plus", 2, "apgd-ce apgd-margin fab square apgd-logit-difference fab-t",
			"the model has only 2 classes: apgd-dlr climbs margin instead of dlr, which needs 3; apgd-t climbs logit-difference instead of dlr-targeted, which needs 4"},
		{"rand", 3, "apgd-ce apgd-dlr", ""},
		{"rand", 2, "apgd-ce apgd-margin", "the model has only 2 classes: apgd-dlr climbs margin instead of dlr, which needs 3"},
		{"custom", 4, "apgd-dlr fab apgd-t", ""},
		{"custom", 2, "apgd-margin fab apgd-logit-difference",
			"the model has only 2 classes: apgd-dlr climbs margin instead of dlr, which needs 3; apgd-t climbs logit-difference instead of dlr-targeted, which needs 4"},
	} {
		r, err := versions[c.version](attacks.L2, 0.5, c.classes)
		name := "autoattack-" + c.version + "/1"
		if c.fallback != "" {
			name = "autoattack-" + c.version + "-few/1"
		}
		if err != nil || r.Name != name || componentNames(r) != c.components || r.Fallback != c.fallback {
			t.Errorf("%s, %d classes: %v\n%s: %s\n%q", c.version, c.classes, err, r.Name, componentNames(r), r.Fallback)
		}
		for _, a := range r.Components {
			targets := 1
			switch a := a.(type) {
			case attacks.APGD:
				targets = a.Targets
			case attacks.FAB:
				targets = a.Targets
			}
			if targets > c.classes-1 {
				t.Errorf("%s, %d classes: %s tries %d targets", c.version, c.classes, a.Name(), targets)
			}
		}
	}
	for version, make := range versions {
		for _, classes := range []int{-1, 0, 1} {
			if _, err := make(attacks.Linf, 0.1, classes); err == nil {
				t.Errorf("%s on %d classes: no error", version, classes)
			}
		}
	}
}

// shorten gives an attack budgets that a test can afford.
func shorten(a attacks.Attack) attacks.Attack {
	switch a := a.(type) {
	case attacks.APGD:
		a.Steps, a.Restarts, a.EOT = 6, min(a.Restarts, 2), min(a.EOT, 2)
		return a
	case attacks.FAB:
		a.Steps, a.Restarts = 2, min(a.Restarts, 2)
		return a
	case attacks.Square:
		a.Queries = 40
		return a
	case attacks.Bisection:
		a.Steps = 4
		return a
	}
	return a
}

// TestClassesAndShapes: every version and every single attack runs on 2 to 200
// classes, on images that are not square and on images of one channel, or says
// beforehand that it does not. What it returns is judged.
func TestClassesAndShapes(t *testing.T) {
	shapes := []attacks.Shape{{C: 3, H: 12, W: 7}, {C: 1, H: 6, W: 9}}
	for _, classes := range []int{2, 3, 4, 100, 200} {
		for _, shape := range shapes {
			o := attacktest.RandomMLP(shape, 8, classes, 3)
			im := attacktest.Images(o, 1, 0.4, 4)[0]
			for _, n := range allNorms {
				eps := []float64{0.02, 0.2, 1}[n]
				list := map[string][]attacks.Attack{}
				for _, make := range versions {
					r, err := make(n, eps, classes)
					if err != nil {
						t.Fatal(err)
					}
					list[r.Name] = r.Components
				}
				for _, kind := range attacks.Kinds() {
					a, err := attacks.New(kind, attacks.Params{Norm: n, Epsilon: eps})
					if err != nil {
						t.Fatal(err)
					}
					if needs := map[string]int{"apgd-dlr": 3, "apgd-t": 4}[kind]; classes < needs {
						want := fmt.Sprintf("needs at least %d classes, the model has %d", needs, classes)
						if err := a.Check(classes, shape); err == nil || !strings.HasSuffix(err.Error(), want) {
							t.Errorf("%s on %d classes: %v", kind, classes, err)
						}
						continue
					}
					list[kind] = []attacks.Attack{a}
				}
				for name, components := range list {
					for _, a := range components {
						a = shorten(a)
						if err := a.Check(classes, shape); err != nil {
							t.Error(err)
							continue
						}
						res, err := a.Perturb(t.Context(), o, im, 1)
						if err != nil {
							t.Error(err)
							continue
						}
						if f, b := a.Passes(classes); res.Forward > f || res.Backward > b || res.Forward == 0 {
							t.Errorf("%s, %s: %d and %d passes of %d and %d", name, a.Name(), res.Forward, res.Backward, f, b)
						}
						if res.Adversarial == nil {
							continue
						}
						z := make([]float32, classes)
						if err := o.Logits(t.Context(), res.Adversarial, z); err != nil {
							t.Error(err)
						}
						if d := n.Distance(res.Adversarial, im.Pixels); d > eps*(1+1e-5) || !attacks.Broken(z, im.Label) {
							t.Errorf("%s, %s, %v: at distance %v of %v, broken %v", name, a.Name(), n, d, eps, attacks.Broken(z, im.Label))
						}
					}
				}
			}
		}
	}
}

// TestCustom pins the defaults of AutoAttack's constructor and who gets which parameter.
func TestCustom(t *testing.T) {
	r, err := attacks.Custom(attacks.L1, 12, 10, []attacks.Component{
		{Kind: "square"}, {Kind: "fab-t"}, {Kind: "fab"}, {Kind: "apgd-t"}, {Kind: "apgd-dlr"}, {Kind: "apgd-ce"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	passes := [][2]int{{5001, 0}, {1 + 9*200, 9 * 101}, {5 * 100 * 10, 5 * 901}, {1 + 9*101, 9 * 101}, {505, 505}, {505, 505}}
	for i, a := range r.Components {
		if f, b := a.Passes(10); [2]int{f, b} != passes[i] {
			t.Errorf("%s makes %d and %d passes, want %v", a.Name(), f, b, passes[i])
		}
	}
	if r.Name != "autoattack-custom/1" || r.Norm != attacks.L1 || r.Epsilon != 12 || componentNames(r) != "square fab-t fab apgd-t apgd-dlr apgd-ce" {
		t.Errorf("%+v", r)
	}

	r, err = attacks.Custom(attacks.Linf, 0.1, 10, []attacks.Component{
		{Kind: "apgd-t", Options: map[string]any{"targets": 3, "loss": "logit-difference"}}, {Kind: "apgd-dlr", Options: map[string]any{"restarts": 1, "loss": "margin"}},
		{Kind: "fab-t"}, {Kind: "square"}, {Kind: "apgd-ce"}},
		map[string]any{"steps": 50, "targets": 4, "restarts": 2})
	if err != nil {
		t.Fatal(err)
	}
	want := []attacks.Attack{
		attacks.APGD{Epsilon: 0.1, Loss: attacks.LogitDifference, Steps: 50, Restarts: 2, Targets: 3},
		attacks.APGD{Epsilon: 0.1, Loss: attacks.Margin, Steps: 50, Restarts: 1},
		attacks.FAB{Epsilon: 0.1, Targeted: true, Steps: 50, Restarts: 2, Targets: 4},
		attacks.Square{Epsilon: 0.1, Restarts: 2},
		attacks.APGD{Epsilon: 0.1, Steps: 50, Restarts: 2},
	}
	if !slices.Equal(r.Components, want) || r.Fallback != "" {
		t.Errorf("%+v\nwant %+v", r.Components, want)
	}

	for _, c := range []struct {
		component attacks.Component
		shared    map[string]any
		want      string
	}{
		{attacks.Component{Kind: "cw"}, nil, `autoattack-custom, component 1: unknown attack "cw" (want ` + strings.Join(attacks.Kinds(), ", ") + ")"},
		{attacks.Component{Kind: "square", Options: map[string]any{"steps": 3}}, nil,
			`autoattack-custom, component 1: square: unknown parameter "steps" (allowed: p_init, queries, rescale_schedule, restarts)`},
		{attacks.Component{Kind: "square"}, map[string]any{"queries": 3, "steps": 3}, `autoattack-custom: no component has a parameter "steps"`},
		{attacks.Component{Kind: "square"}, map[string]any{"queries": -1}, `autoattack-custom, component 1: square: parameter "queries" must be a whole number from 1 on, not -1`},
	} {
		if _, err := attacks.Custom(attacks.Linf, 0.1, 10, []attacks.Component{c.component}, c.shared); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if _, err := attacks.Custom(attacks.Linf, 0.1, 10, nil, nil); err == nil {
		t.Error("no error for no components")
	}
}

// TestVerdictOnly: every attack of a recipe that can stop at its first success does; the
// recipe's own are left as they are.
func TestVerdictOnly(t *testing.T) {
	full, err := attacks.Standard(attacks.L2, 0.5, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range full.Components {
		a, stops := attacks.VerdictOnly(full.Components[i]), true
		switch a := a.(type) {
		case attacks.APGD:
			stops = a.StopAtSuccess && !full.Components[i].(attacks.APGD).StopAtSuccess
		case attacks.FAB:
			stops = a.StopAtSuccess && !full.Components[i].(attacks.FAB).StopAtSuccess
		}
		if !stops || a.Name() != full.Components[i].Name() {
			t.Errorf("%+v from %+v", a, full.Components[i])
		}
	}
}
