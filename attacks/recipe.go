package attacks

import "fmt"

// AutoAttack's budgets, which hold for every version (Croce & Hein 2020,
// "Reliable evaluation…", section 5, and version standard of its code).
const (
	suiteSteps   = 100
	suiteQueries = 5000
	suiteTargets = 9
)

// Standard is AutoAttack's standard version: APGD-CE, APGD-T, FAB-T and Square,
// each on what those before it left unbroken.
//
//	            ℓ∞, ℓ2                     ℓ1
//	APGD-CE     100 steps, 1 restart       5 restarts, radii 3ε, 2ε, ε
//	APGD-T      100 steps, 9 targets       5 targets, radii 3ε, 2ε, ε
//	FAB-T       100 steps, 9 targets       the same
//	Square      5000 queries               the same
//
// epsilon is in pixel units of [0,1]. classes, the model's number of classes,
// cuts the targets to classes − 1; below 4 classes APGD-T's loss is undefined
// and Standard returns an error.
func Standard(norm Norm, epsilon float64, classes int) (Recipe, error) {
	ce := APGD{Norm: norm, Epsilon: epsilon, Loss: CrossEntropy, Steps: suiteSteps, Restarts: 1}
	t := APGD{Norm: norm, Epsilon: epsilon, Loss: TargetedDLR, Steps: suiteSteps, Restarts: 1, Targets: suiteTargets}
	if norm == L1 {
		ce.Restarts, ce.LargeRadii = 5, true
		t.Targets, t.LargeRadii = 5, true
	}
	return recipe("autoattack-standard/1", norm, epsilon, classes, ce, t,
		FAB{Norm: norm, Epsilon: epsilon, Targeted: true, Steps: suiteSteps, Restarts: 1, Targets: suiteTargets},
		Square{Norm: norm, Epsilon: epsilon, Queries: suiteQueries, Restarts: 1})
}

// Plus is AutoAttack's plus version: APGD-CE and APGD-DLR with 5 restarts, FAB
// with 5 restarts, Square, APGD-T and FAB-T, in this order. It makes no
// difference between the norms. It needs 4 classes, as [Standard] does.
func Plus(norm Norm, epsilon float64, classes int) (Recipe, error) {
	apgd := APGD{Norm: norm, Epsilon: epsilon, Steps: suiteSteps, Restarts: 5}
	dlr, t := apgd, apgd
	dlr.Loss = DLR
	t.Loss, t.Restarts, t.Targets = TargetedDLR, 1, suiteTargets
	return recipe("autoattack-plus/1", norm, epsilon, classes, apgd, dlr,
		FAB{Norm: norm, Epsilon: epsilon, Steps: suiteSteps, Restarts: 5},
		Square{Norm: norm, Epsilon: epsilon, Queries: suiteQueries, Restarts: 1}, t,
		FAB{Norm: norm, Epsilon: epsilon, Targeted: true, Steps: suiteSteps, Restarts: 1, Targets: suiteTargets})
}

// Rand is AutoAttack's version for randomised models: APGD-CE and APGD-DLR with
// gradients averaged over 20 passes. It needs 3 classes.
func Rand(norm Norm, epsilon float64, classes int) (Recipe, error) {
	ce := APGD{Norm: norm, Epsilon: epsilon, Steps: suiteSteps, Restarts: 1, EOT: 20}
	dlr := ce
	dlr.Loss = DLR
	return recipe("autoattack-rand/1", norm, epsilon, classes, ce, dlr)
}

// recipe cuts targets to the classes there are and checks every component but
// for the image's shape, which is not known yet.
func recipe(name string, norm Norm, epsilon float64, classes int, components ...Attack) (Recipe, error) {
	for i, c := range components {
		switch a := c.(type) {
		case APGD:
			a.Targets = min(a.Targets, classes-1)
			components[i] = a
		case FAB:
			a.Targets = min(a.Targets, classes-1)
			components[i] = a
		}
		if err := c.Check(classes, Shape{C: 1, H: 5, W: 5}); err != nil {
			return Recipe{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return Recipe{Name: name, Norm: norm, Epsilon: epsilon, Components: components}, nil
}
