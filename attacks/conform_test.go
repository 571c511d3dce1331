package attacks_test

import (
	"testing"

	"selfheal/attacks"
	"selfheal/attacks/attacktest"
)

// TestConformance runs every attack through the suite. A new attack adds a row.
func TestConformance(t *testing.T) {
	inL1 := func(n attacks.Norm, restarts int) int { // AutoAttack makes 5 restarts there
		if n == attacks.L1 {
			return restarts
		}
		return 1
	}
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
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.Margin, Restarts: inL1(n, 5)}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"apgd-t", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.TargetedDLR, Restarts: inL1(n, 5)}
		}, attacktest.Expectation{Breaks: 1}},
		{"apgd-ce-targeted", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.TargetedCrossEntropy, Steps: 30}
			// Its maximum is not the point furthest beyond the target's boundary.
		}, attacktest.Expectation{Breaks: 1, Reach: [3]float64{1.3, 1.4, 1.6}}},
		{"apgd large radii", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, LargeRadii: n == attacks.L1}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"apgd eot", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, EOT: 3, Steps: 30, Restarts: 3}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"apgd-logit-difference", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.APGD{Norm: n, Epsilon: e, Loss: attacks.LogitDifference, Restarts: inL1(n, 5)}
		}, attacktest.Expectation{Classes: 3, Breaks: 1}},
		{"fab", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.FAB{Norm: n, Epsilon: e, Steps: 30}
		}, attacktest.Expectation{Breaks: 1, Seedless: true}},
		{"fab-t", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.FAB{Norm: n, Epsilon: e, Targeted: true, Steps: 40}
		}, attacktest.Expectation{Breaks: 1, Seedless: true}},
		{"square", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.Square{Norm: n, Epsilon: e, Queries: 300}
		}, attacktest.Expectation{Breaks: 0.2, Reach: [3]float64{4, 6, 4}}},
		{"pgd", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.PGD{Norm: n, Epsilon: e}
			// The default steps don't lead all the way round the ball in ℓ2 and ℓ1.
		}, attacktest.Expectation{Classes: 2, Breaks: 1, Reach: [3]float64{0, 1.1, 1.6}}},
		{"pgd long steps", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.PGD{Norm: n, Epsilon: e, Steps: 40, StepSize: e}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"pgd linear schedule", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.PGD{Norm: n, Epsilon: e, Loss: attacks.Margin, Steps: 40, StepSize: e, Schedule: attacks.LinearSteps}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"pgd cosine schedule", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.PGD{Norm: n, Epsilon: e, Steps: 40, StepSize: e, Schedule: attacks.CosineSteps, Restarts: 2}
		}, attacktest.Expectation{Classes: 2, Breaks: 1}},
		{"bisection", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.Bisection{Norm: n, Epsilon: e}
		}, attacktest.Expectation{Breaks: 1, Minimal: true}},
		{"bisection margin", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.Bisection{Norm: n, Epsilon: e, Untargeted: true, Restarts: 2}
		}, attacktest.Expectation{Classes: 2, Breaks: 1, Minimal: true}},
		{"fgsm", func(n attacks.Norm, e float64) attacks.Attack {
			return attacks.FGSM{Norm: n, Epsilon: e}
		}, attacktest.Expectation{Classes: 2, Breaks: 1, Seedless: true}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { attacktest.Conform(t, r.make, r.want) })
	}
}
