// Package theory checks the paper's theory on systems small enough that every term of
// every statement can be computed: the margins that a projection onto the data's
// manifold enlarges ("A Margin-based Analysis", Proposition 1) and the error of a
// network under closed-loop control ("Theoretical Error Analysis", Theorems 1 and 2).
//
// Each experiment has a file and a plain result of its own, draws everything from a
// seed, and states its claims as rows of one table: what was measured, what the theory
// says, and whether the two agree. docs/theory.md says precisely what bounds what.
package theory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"selfheal/internal/number"
)

// Options says how to run the experiments. The zero value is the full run of seed 0.
type Options struct {
	Seed  uint64
	Quick bool // fewer draws and coarser grids
	// Progress, if set, is told which experiment begins.
	Progress func(name string)

	claims *claims  // what the checks compare with; nil for the paper's constants
	only   []string // the experiments to run; nil for all
}

// Result is what all experiments found.
type Result struct {
	Seed           uint64           `json:"seed"`
	Quick          bool             `json:"quick"`
	Checks         []Check          `json:"checks"`
	LinearDefence  *LinearDefence   `json:"linear_defence"`
	Margins        *Margins         `json:"margins"`
	ProjectedRatio *ProjectedRatio  `json:"proposition_1"`
	LinearLoop     *LinearLoop      `json:"theorem_1"`
	NonlinearLoop  *NonlinearLoop   `json:"theorem_2"`
	Curvature      *ManifoldBending `json:"curvature"`
}

// Passed reports whether every check passed.
func (r *Result) Passed() bool {
	return len(r.Checks) > 0 && !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Pass })
}

// Run runs all experiments in order. It returns an error when ctx is cancelled or a
// solver does not converge; a check that fails is a row of the result, not an error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.claims == nil {
		o.claims = stated()
	}
	r := &Result{Seed: o.Seed, Quick: o.Quick}
	for i, e := range []struct {
		name string
		run  experiment
	}{
		{"linear reactive defence", into(&r.LinearDefence, linearDefence)},
		{"margins on a curve", into(&r.Margins, margins)},
		{"proposition 1", into(&r.ProjectedRatio, projectedRatio)},
		{"theorem 1", into(&r.LinearLoop, linearLoop)},
		{"theorem 2", into(&r.NonlinearLoop, nonlinearLoop)},
		{"manifold curvature", into(&r.Curvature, manifoldBending)},
	} {
		if o.only != nil && !slices.Contains(o.only, e.name) {
			continue
		}
		if o.Progress != nil {
			o.Progress(e.name)
		}
		rows, err := e.run(ctx, o, o.random(uint64(i+1))) // none depends on another's draws
		if err != nil {
			return nil, err
		}
		for i := range rows {
			rows[i].Part = e.name
		}
		r.Checks = append(r.Checks, rows...)
	}
	return r, nil
}

// experiment draws from the random numbers that are its own.
type experiment func(context.Context, Options, *rand.Rand) ([]Check, error)

// into is an experiment whose own result goes to a field.
func into[T any](to **T, run func(context.Context, Options, *rand.Rand) (*T, []Check, error)) experiment {
	return func(ctx context.Context, o Options, rng *rand.Rand) (checks []Check, err error) {
		*to, checks, err = run(ctx, o, rng)
		return checks, err
	}
}

// pick is full, or quick in a quick run.
func (o Options) pick(full, quick int) int {
	if o.Quick {
		return quick
	}
	return full
}

func (o Options) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, stream)) }

// claims are factors on what the theory says, 1 where it is as stated. Tests set one of
// them wrong and see the check fail.
type claims struct {
	accuracy     float64 // of the three accuracies of the linear defence
	marginGain   float64 // of the margin of F∘P on a line
	lineMargin   float64 // of the point-to-line distances
	medial       float64 // of the margin of F∘E on the curve
	geodesic     float64 // of the curve's length, and of d_M as a bound
	gainNeeded   float64 // by which d_e(F∘E) must exceed d_e(F)
	ratio        float64 // of √(r/d)
	ratioMean    float64 // of the ratio's exact mean
	alpha        float64 // of α = c/(1+c)
	linearBound  float64 // of Theorem 1's bound
	control      float64 // of the bound on ‖u^M − u^P‖
	linearise    float64 // of the ε² term
	order        float64 // of its order, 2
	regular      float64 // of the c that the linearised system takes
	nonlinear    float64 // of Theorem 2's bound
	bending      float64 // of the manifolds' curvature
	bendingError float64 // of the leading error that curvature makes
	bendingOrder float64 // of its order in the curvature, 1
	contraction  float64 // of the distances that a projection may keep
}

func stated() *claims {
	return &claims{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
}

// Check is one row of the table: a claim, and whether it holds.
type Check struct {
	Part      string  `json:"part"`
	Name      string  `json:"name"`
	Claim     string  `json:"claim"`
	Relation  string  `json:"relation"` // "≤", "≥" or "=": Measured to Expected
	Measured  float64 `json:"measured"`
	Expected  float64 `json:"expected"`
	Tolerance float64 `json:"tolerance"` // absolute
	// Factor is how loose a bound may be: by so many times it may exceed what was measured. It
	// keeps a bound that is far too large from passing as well; 0 asks for nothing.
	Factor float64 `json:"factor,omitempty"`
	Pass   bool    `json:"pass"`
}

// Looseness says in words what Factor asks for; "" for nothing.
func (c Check) Looseness() string {
	if c.Factor == 0 {
		return ""
	}
	return fmt.Sprintf("loose by up to %g times", c.Factor)
}

// within fails a bound that exceeds what was measured by more than a factor.
func (c Check) within(factor float64) Check {
	c.Factor, c.Pass = factor, c.Pass && c.Expected <= factor*c.Measured
	return c
}

func atMost(name, claim string, measured, bound, tolerance float64) Check {
	return check(name, claim, "≤", measured, bound, tolerance, measured <= bound+tolerance)
}

func atLeast(name, claim string, measured, bound, tolerance float64) Check {
	return check(name, claim, "≥", measured, bound, tolerance, measured >= bound-tolerance)
}

func equal(name, claim string, measured, expected, tolerance float64) Check {
	return check(name, claim, "=", measured, expected, tolerance, math.Abs(measured-expected) <= tolerance)
}

// check is a row. It fails where the measured value is no finite number; JSON has none for it.
func check(name, claim, relation string, measured, expected, tolerance float64, pass bool) Check {
	if !number.Finite(measured) {
		measured, pass = math.MaxFloat64, false
	}
	return Check{Name: name, Claim: claim, Relation: relation, Measured: measured, Expected: expected,
		Tolerance: tolerance, Pass: pass}
}
