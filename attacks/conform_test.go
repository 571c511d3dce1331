package attacks_test

import (
	"testing"

	"selfheal/attacks"
	"selfheal/attacks/attacktest"
)

// TestConformance runs every attack through the suite. A new attack adds a row.
func TestConformance(t *testing.T) {
	rows := []struct {
		name string
		make func(attacks.Norm, float64) attacks.Attack
		want attacktest.Expectation
	}{
		{"apgd-ce", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Restarts: 5}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"apgd-dlr", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.DLR, Restarts: 5}
		}, attacktest.Expectation{Classes: 3, Breaks: 1}},
		{"apgd-margin", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.Margin}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"apgd-t", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.TargetedDLR}
		}, attacktest.Expectation{Breaks: 1}},
		{"apgd-ce-targeted", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.TargetedCrossEntropy, Steps: 30}
		}, attacktest.Expectation{Breaks: 1}},
		{"apgd large radii", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, LargeRadii: n == attacks.L1}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"apgd eot", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, EOT: 3, Steps: 30, Restarts: 3}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"fab", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.FAB{Norm: n, Epsilon: e, Steps: 30}
		}, attacktest.Expectation{Breaks: 1, Seedless: true}},
		{"fab-t", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.FAB{Norm: n, Epsilon: e, Targeted: true, Steps: 40}
		}, attacktest.Expectation{Breaks: 1, Seedless: true}},
		{"square", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.Square{Norm: n, Epsilon: e, Queries: 300}
		}, attacktest.Expectation{Breaks: 0.2}},
		{"pgd", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.PGD{Norm: n, Epsilon: e}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"fgsm", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.FGSM{Norm: n, Epsilon: e}
		}, attacktest.Expectation{Classes: 2, Breaks: 1, Seedless: true}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { attacktest.Conform(t, r.make, r.want) })
	}
}
