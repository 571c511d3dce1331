package attacks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
// epsilon is in pixel units of [0,1]. classes, the model's number of classes (at
// least 2), cuts the targets to classes − 1. Where a loss needs more classes, the
// recipe falls back to one that is defined, says so in its name
// ("autoattack-standard-few/1") and explains it in [Recipe.Fallback]: the logit
// difference instead of targeted DLR below 4 classes, the margin instead of DLR
// below 3. Each is the numerator of the loss it replaces, and APGD's steps do not
// depend on a loss's scale.
func Standard(norm Norm, epsilon float64, classes int) (Recipe, error) {
	ce := APGD{Norm: norm, Epsilon: epsilon, Loss: CrossEntropy, Steps: suiteSteps, Restarts: 1}
	t := APGD{Norm: norm, Epsilon: epsilon, Loss: TargetedDLR, Steps: suiteSteps, Restarts: 1, Targets: suiteTargets}
	if norm == L1 {
		ce.Restarts, ce.LargeRadii = 5, true
		t.Targets, t.LargeRadii = 5, true
	}
	return recipe("standard", norm, epsilon, classes, ce, t,
		FAB{Norm: norm, Epsilon: epsilon, Targeted: true, Steps: suiteSteps, Restarts: 1, Targets: suiteTargets},
		Square{Norm: norm, Epsilon: epsilon, Queries: suiteQueries, Restarts: 1})
}

// Plus is AutoAttack's plus version: APGD-CE and APGD-DLR with 5 restarts, FAB
// with 5 restarts, Square, APGD-T and FAB-T, in this order. It makes no
// difference between the norms. With few classes it falls back as [Standard] does.
func Plus(norm Norm, epsilon float64, classes int) (Recipe, error) {
	apgd := APGD{Norm: norm, Epsilon: epsilon, Steps: suiteSteps, Restarts: 5}
	dlr, t := apgd, apgd
	dlr.Loss = DLR
	t.Loss, t.Restarts, t.Targets = TargetedDLR, 1, suiteTargets
	return recipe("plus", norm, epsilon, classes, apgd, dlr,
		FAB{Norm: norm, Epsilon: epsilon, Steps: suiteSteps, Restarts: 5},
		Square{Norm: norm, Epsilon: epsilon, Queries: suiteQueries, Restarts: 1}, t,
		FAB{Norm: norm, Epsilon: epsilon, Targeted: true, Steps: suiteSteps, Restarts: 1, Targets: suiteTargets})
}

// Rand is AutoAttack's version for randomised models: APGD-CE and APGD-DLR with
// gradients averaged over 20 passes. With 2 classes it falls back as [Standard] does.
func Rand(norm Norm, epsilon float64, classes int) (Recipe, error) {
	ce := APGD{Norm: norm, Epsilon: epsilon, Steps: suiteSteps, Restarts: 1, EOT: 20}
	dlr := ce
	dlr.Loss = DLR
	return recipe("rand", norm, epsilon, classes, ce, dlr)
}

// Component is an attack of a recipe of one's own: a kind (see [Kinds]) and its
// parameters as in [Params].
type Component struct {
	Kind    string
	Options map[string]any
}

// customRestarts are the restarts of AutoAttack's constructor where they differ
// from the attack's own default; its other defaults are the attacks' own.
var customRestarts = map[string]int{"apgd-ce": 5, "apgd-dlr": 5, "fab": 5}

// Custom is AutoAttack's custom version: these components in this order, each on
// what those before it left unbroken. shared holds parameters for every component
// that has them; a component's own come first. A parameter given nowhere has the
// default of AutoAttack's constructor: 5 restarts of apgd-ce, apgd-dlr and fab,
// and for the rest those that [New] gives. With few classes it falls back as
// [Standard] does. A shared parameter that no component has is an error, as is
// whatever New refuses.
//
// A kind listed twice draws the same random numbers twice.
func Custom(norm Norm, epsilon float64, classes int, components []Component, shared map[string]any) (Recipe, error) {
	if len(components) == 0 {
		return Recipe{}, fmt.Errorf("autoattack-custom: there are no components")
	}
	known := map[string]bool{}
	made := make([]Attack, len(components))
	for i, c := range components {
		options := map[string]any{}
		for _, name := range Parameters(c.Kind) {
			known[name] = true
			if v, ok := shared[name]; ok {
				options[name] = v
			} else if n := customRestarts[c.Kind]; n > 0 && name == "restarts" {
				options[name] = n
			}
		}
		maps.Copy(options, c.Options)
		var err error
		if made[i], err = New(c.Kind, Params{Norm: norm, Epsilon: epsilon, Options: options}); err != nil {
			return Recipe{}, fmt.Errorf("autoattack-custom, component %d: %w", i+1, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		if !known[name] {
			return Recipe{}, fmt.Errorf("autoattack-custom: no component has a parameter %q", name)
		}
	}
	return recipe("custom", norm, epsilon, classes, made...)
}

// recipe fits AutoAttack's components to the classes there are and checks all of
// them but for the image's shape, which is not known yet.
func recipe(version string, norm Norm, epsilon float64, classes int, components ...Attack) (Recipe, error) {
	name := "autoattack-" + version
	var replaced []string
	for i, c := range components {
		fitted := fitted(c, classes)
		if before, after := lossOf(c), lossOf(fitted); before != after {
			replaced = append(replaced, fmt.Sprintf("%s climbs %s instead of %s, which needs %d", c.Name(), after, before, before.MinClasses()))
		}
		if err := fitted.Check(classes, Shape{C: 1, H: 5, W: 5}); err != nil {
			return Recipe{}, fmt.Errorf("%s: %w", name, err)
		}
		components[i] = fitted
	}
	r := Recipe{Norm: norm, Epsilon: epsilon, Components: components}
	if replaced != nil {
		name += "-few"
		r.Fallback = fmt.Sprintf("the model has only %d classes: %s", classes, strings.Join(replaced, "; "))
	}
	r.Name = name + "/1"
	return r, nil
}

// fitted cuts an attack's targets to classes − 1 and replaces a loss that needs
// more classes than there are.
func fitted(a Attack, classes int) Attack {
	switch a := a.(type) {
	case APGD:
		a.Loss, a.Targets = a.Loss.fitted(classes), min(a.Targets, classes-1)
		return a
	case PGD:
		a.Loss = a.Loss.fitted(classes)
		return a
	case FGSM:
		a.Loss = a.Loss.fitted(classes)
		return a
	case FAB:
		a.Targets = min(a.Targets, classes-1)
		return a
	case Bisection:
		a.Targets = min(a.Targets, classes-1)
		return a
	}
	return a
}

// lossOf is the loss of an attack that can be chosen, for others cross-entropy.
func lossOf(a Attack) Loss {
	switch a := a.(type) {
	case APGD:
		return a.Loss
	case PGD:
		return a.Loss
	case FGSM:
		return a.Loss
	}
	return CrossEntropy
}

// fitted is l, or where there are too few classes for it its numerator.
func (l Loss) fitted(classes int) Loss {
	switch {
	case classes >= l.MinClasses() || classes < 2: // with one class nothing is defined
		return l
	case l == DLR:
		return Margin
	default:
		return LogitDifference
	}
}
