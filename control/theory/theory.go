// Package theory checks the paper's theory on systems small enough to compute every term of every statement: the
// margins that a projection onto the data's manifold enlarges ("A Margin-based Analysis", Proposition 1) and the
// error of a network under closed-loop control ("Theoretical Error Analysis", Theorems 1 and 2).
//
// [Run] runs all experiments. Each has a file and a result of its own, draws everything from a seed, and states its
// claims as rows of one table. docs/measured/theory.md says precisely what bounds what.
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
	// Progress, unless nil, is called as each experiment begins.
	Progress func(name string)

	wrong map[string]float64 // factors on the theory's values, by claim: tests see each check fail
}

// Result holds the results of all experiments.
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
	GlobalControl  *GlobalControl   `json:"global_control"`
	AnySubmersion  *AnySubmersion   `json:"any_submersion"`
}

// Passed reports whether every check passed.
func (r *Result) Passed() bool {
	return len(r.Checks) > 0 && !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Pass })
}

// Run runs all experiments in order. It returns an error if ctx is cancelled or a solver does not converge. A check
// that fails is a row of the result, not an error.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &Result{Seed: o.Seed, Quick: o.Quick}
	for i, e := range experiments {
		if o.Progress != nil {
			o.Progress(e.name)
		}
		if err := ctx.Err(); err != nil { // each takes a second or two
			return nil, err
		}
		for _, row := range e.run(r, o, o.random(uint64(i+1))) { // no experiment depends on another's draws
			if row.Part = e.name; !number.Finite(row.Measured) {
				return nil, errDiverged
			}
			r.Checks = append(r.Checks, row)
		}
	}
	return r, nil
}

// experiment is a row of the table of experiments; run sets its field of the result.
type experiment struct {
	name string
	run  func(*Result, Options, *rand.Rand) []Check
}

var experiments = []experiment{
	{"linear reactive defence", linearDefence},
	{"margins on a curve", margins},
	{"proposition 1", projectedRatio},
	{"theorem 1", linearLoop},
	{"theorem 2", nonlinearLoop},
	{"manifold curvature", bending},
	{"controls of the whole", globalControl}, // the last, as an experiment's draws depend on its place
	{"any submersion", anySubmersion},
}

func (o Options) pick(full, quick int) int {
	if o.Quick {
		return quick
	}
	return full
}

func (o Options) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, stream)) }

// factor returns the factor on the theory's value in a claim: 1 outside tests.
func (o Options) factor(claim string) float64 {
	if wrong, ok := o.wrong[claim]; ok {
		return wrong
	}
	return 1
}

// Check is one row of the table: a claim, and whether it holds.
type Check struct {
	Part      string  `json:"part"`
	Name      string  `json:"name"`
	Claim     string  `json:"claim"`
	Relation  string  `json:"relation"` // "≤", "≥" or "=", between Measured and Expected
	Measured  float64 `json:"measured"`
	Expected  float64 `json:"expected"`
	Tolerance float64 `json:"tolerance"` // absolute
	// Factor bounds by how many times a bound may exceed the measured value. 0 means no limit.
	Factor float64 `json:"factor,omitempty"`
	Pass   bool    `json:"pass"`
}

// Looseness writes Factor in words, or "" if it is 0.
func (c Check) Looseness() string {
	if c.Factor == 0 {
		return ""
	}
	return fmt.Sprintf("loose by up to %g times", c.Factor)
}

// within adds that a bound may exceed the measured value by no more than a factor.
func (c Check) within(factor float64) Check {
	c.Factor, c.Pass = factor, c.Pass && c.Expected <= factor*c.Measured
	return c
}

func atMost(name, claim string, measured, bound, tolerance float64) Check {
	return Check{Name: name, Claim: claim, Relation: "≤", Measured: measured, Expected: bound, Tolerance: tolerance,
		Pass: measured <= bound+tolerance}
}

func atLeast(name, claim string, measured, bound, tolerance float64) Check {
	return Check{Name: name, Claim: claim, Relation: "≥", Measured: measured, Expected: bound, Tolerance: tolerance,
		Pass: measured >= bound-tolerance}
}

func equal(name, claim string, measured, expected, tolerance float64) Check {
	return Check{Name: name, Claim: claim, Relation: "=", Measured: measured, Expected: expected, Tolerance: tolerance,
		Pass: math.Abs(measured-expected) <= tolerance}
}
