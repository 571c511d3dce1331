package attacks_test

import (
	"math"
	"strings"
	"testing"

	"selfheal/attacks"
)

// TestStandard pins AutoAttack's budgets.
func TestStandard(t *testing.T) {
	for _, n := range allNorms {
		r, err := attacks.Standard(n, 0.1, 10)
		if err != nil {
			t.Fatal(err)
		}
		ce := attacks.APGD{Norm: n, Epsilon: 0.1, Steps: 100, Restarts: 1}
		dlr := attacks.APGD{Norm: n, Epsilon: 0.1, Loss: attacks.TargetedDLR, Steps: 100, Restarts: 1, Targets: 9}
		if n == attacks.L1 {
			ce.Restarts, ce.LargeRadii, dlr.Targets, dlr.LargeRadii = 5, true, 5, true
		}
		want := []attacks.Attack{ce, dlr,
			attacks.FAB{Norm: n, Epsilon: 0.1, Targeted: true, Steps: 100, Restarts: 1, Targets: 9},
			attacks.Square{Norm: n, Epsilon: 0.1, Queries: 5000, Restarts: 1}}
		if r.Name != "autoattack-standard/1" || r.Norm != n || r.Epsilon != 0.1 || len(r.Components) != len(want) {
			t.Fatalf("%+v", r)
		}
		names := ""
		for i, c := range r.Components {
			if c != want[i] {
				t.Errorf("%v: component %d is %+v, want %+v", n, i, c, want[i])
			}
			names += c.Name() + " "
		}
		if names != "apgd-ce apgd-t fab-t square " {
			t.Errorf("order %s", names)
		}
		if n != attacks.L1 {
			f, b := 0, 0
			for _, c := range r.Components[:2] {
				cf, cb := c.Passes(10)
				f, b = f+cf, b+cb
			}
			if b != 1010 || f != 1011 {
				t.Errorf("APGD makes %d and %d passes", f, b)
			}
		}
	}
	r, err := attacks.Standard(attacks.Linf, 0.1, 5)
	if err != nil || r.Components[1].(attacks.APGD).Targets != 4 || r.Components[2].(attacks.FAB).Targets != 4 {
		t.Errorf("5 classes: %+v, %v", r, err)
	}
	for _, bad := range []struct {
		eps     float64
		classes int
	}{{0.1, 1}, {0.1, 0}, {0, 10}, {-1, 10}, {math.NaN(), 10}, {math.Inf(1), 10}} {
		if _, err := attacks.Standard(attacks.Linf, bad.eps, bad.classes); err == nil {
			t.Errorf("no error for epsilon %v, %d classes", bad.eps, bad.classes)
		}
	}
	if _, err := attacks.Standard(attacks.Linf, 0.1, 1); err == nil || !strings.Contains(err.Error(), "needs at least 2 classes, the model has 1") {
		t.Error(err)
	}
}

func TestNew(t *testing.T) {
	p := attacks.Params{Norm: attacks.L2, Epsilon: 0.5, Options: map[string]any{}}
	for _, kind := range attacks.Kinds() {
		a, err := attacks.New(kind, p)
		if err != nil || a.Name() != kind {
			t.Errorf("%s: %v, %v", kind, a, err)
		}
	}
	if got := len(attacks.Kinds()); got != 9 {
		t.Errorf("%d kinds", got)
	}
	p.Options = map[string]any{"steps": 7, "step_size": "2/255", "loss": "margin", "restarts": "3"}
	a, err := attacks.New("pgd", p)
	if want := (attacks.PGD{Norm: attacks.L2, Epsilon: 0.5, Steps: 7, Restarts: 3, StepSize: 2. / 255, Loss: attacks.Margin}); err != nil || a != want {
		t.Errorf("%+v, %v", a, err)
	}
	for _, c := range []struct {
		kind, loss string
		want       attacks.Attack
	}{
		{"apgd-t", "ce-targeted", attacks.APGD{Norm: attacks.L2, Epsilon: 0.5, Loss: attacks.TargetedCrossEntropy}},
		{"apgd-t", "logit-difference", attacks.APGD{Norm: attacks.L2, Epsilon: 0.5, Loss: attacks.LogitDifference}},
		{"apgd-dlr", "margin", attacks.APGD{Norm: attacks.L2, Epsilon: 0.5, Loss: attacks.Margin}},
		{"bisection", "margin", attacks.Bisection{Norm: attacks.L2, Epsilon: 0.5, Untargeted: true}},
	} {
		p.Options = map[string]any{"loss": c.loss}
		if a, err := attacks.New(c.kind, p); err != nil || a != c.want {
			t.Errorf("%+v, %v", a, err)
		}
	}
	p.Options = map[string]any{"schedule": "cosine"}
	if a, err := attacks.New("pgd", p); err != nil || a.(attacks.PGD).Schedule != attacks.CosineSteps {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestNewErrors(t *testing.T) {
	for _, c := range []struct {
		kind    string
		epsilon float64
		options map[string]any
		want    string
	}{
		{"cw", 1, nil, `unknown attack "cw" (want apgd-ce, apgd-dlr, apgd-t, bisection, fab, fab-t, fgsm, pgd, square)`},
		{"fgsm", 1, map[string]any{"steps": 3}, `fgsm: unknown parameter "steps" (allowed: loss)`},
		{"square", 1, map[string]any{"query": 3}, `square: unknown parameter "query" (allowed: p_init, queries, rescale_schedule, restarts)`},
		{"pgd", 1, map[string]any{"steps": 2.5}, `pgd: parameter "steps" must be a whole number from 1 on, not 2.5`},
		{"pgd", 1, map[string]any{"steps": "many"}, `pgd: parameter "steps" must be a whole number from 1 on, not "many"`},
		{"pgd", 1, map[string]any{"steps": nil}, `pgd: parameter "steps" must be a whole number from 1 on, not <nil>`},
		{"pgd", 1, map[string]any{"step_size": "1/0"}, `pgd: parameter "step_size" must be a positive number, not "1/0"`},
		{"pgd", 1, map[string]any{"loss": "logit-difference"}, `pgd: parameter "loss" must be one of ce, dlr, margin, not "logit-difference"`},
		{"pgd", 1, map[string]any{"schedule": "step"}, `pgd: parameter "schedule" must be one of constant, linear, cosine, not "step"`},
		{"bisection", 1, map[string]any{"tolerance": 0.6}, `bisection: tolerance must lie in [1e-6, 0.5], not 0.6`},
		{"square", 1, map[string]any{"rescale_schedule": 1}, `square: parameter "rescale_schedule" must be true or false, not 1`},
		{"square", 1, map[string]any{"p_init": 1.5}, `square: p_init must lie in (0, 1], not 1.5`},
		{"fab", 1, map[string]any{"targets": 3}, `fab: unknown parameter "targets" (allowed: alpha_max, beta, eta, restarts, steps)`},
		{"fab-t", 1, map[string]any{"eta": 0.5}, `fab-t: eta must be at least 1, not 0.5`},
		{"apgd-ce", 0, nil, `apgd-ce: epsilon must be positive and finite, not 0`},
		{"apgd-ce", 1, map[string]any{"large_radii": true}, `apgd-ce: large radii exist only in l1, not linf`},
	} {
		_, err := attacks.New(c.kind, attacks.Params{Epsilon: c.epsilon, Options: c.options})
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}
