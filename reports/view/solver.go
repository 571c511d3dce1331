package view

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Study is a solver study, arranged for reading.
type Study struct {
	*result.SolverStudy
	Heading, Slug string // the suite's heading and the study's anchor on a page
}

func (s Study) Name() string { return words.Clean(s.Model) + " · " + words.Clean(s.Control) }

func (s Study) Facts() string {
	out := fmt.Sprintf("%s · %s", words.Clean(s.Dataset), words.Plural(s.N, "clean image"))
	if s.Attack != "" {
		c := words.Column{Column: cell.Column{Attack: s.Attack, Epsilon: s.Epsilon}, Norm: s.Norm, Recipe: s.Recipe}
		out += ", and as many made by " + c.Title() + " on the undefended network"
	}
	return out
}

func (s Study) Kinds() []string {
	return lists.Distinct(s.Baseline, func(b result.Score) string { return b.Images })
}

// AtDefaultRate is the method name of the control's own solver at the default rate and momentum.
const AtDefaultRate = "default"

func methodOf(c result.SolverCurve) string {
	if c.Default {
		return AtDefaultRate
	}
	return c.Settings.Method
}

func (s Study) Called(method string) string {
	switch method {
	case "none":
		return "undefended"
	case AtDefaultRate:
		return words.Clean(s.Solver.Method) + " at the default rate"
	}
	return words.Clean(method)
}

func (s Study) Curve(method, kind string) *result.SolverCurve {
	return lists.Find(s.Curves, func(c result.SolverCurve) bool {
		return methodOf(c) == method && c.Images == kind && len(c.Points) > 0
	})
}

func (s Study) Methods() []string { return lists.Distinct(s.Curves, methodOf) }

func (s Study) Cost(method string) *result.SolverCost {
	return lists.Find(s.Costs, func(c result.SolverCost) bool { return c.Method == method })
}

// Sentences says what the control adds to an answer, and whether its own solver and the default one converge.
func (s Study) Sentences() (out []string) {
	bare, own := s.Cost("none"), s.Cost(s.Solver.Method)
	if bare != nil && own != nil && bare.Milliseconds > 0 {
		out = append(out, fmt.Sprintf("An answer of %s under %s costs %s by FLOPs and %s ms for one "+
			"image alone; the undefended network's costs 1 and %s ms: control adds %s ms, %.1f %% of the time.",
			words.Clean(s.Model), words.Clean(s.Control), words.PlainPasses(own.Passes),
			words.ThreeDigits(own.Milliseconds), words.ThreeDigits(bare.Milliseconds),
			words.ThreeDigits(own.Milliseconds-bare.Milliseconds),
			100*(1-bare.Milliseconds/own.Milliseconds)))
	}
	for _, r := range s.Rates() {
		said := lists.Map(r.Outcomes, func(o result.SolverOutcome) string {
			one := fmt.Sprintf("on %s images the mean objective %s, below the greedy start on %s %% of them",
				words.Clean(o.Images), course(o.Sweeps), words.Percent(o.BelowGreedy, s.N))
			if o.NotFinite > 0 {
				one += fmt.Sprintf(" and not finite on %s %%", words.Percent(o.NotFinite, s.N))
			}
			return one
		})
		if said != nil {
			out = append(out, s.ratesOf(r)+": "+strings.Join(said, "; ")+".")
		}
	}
	return out
}

// Rates returns the runs that show whether the control's own rate and momentum, and the default ones, converge.
func (s Study) Rates() []result.SolverRun {
	return lists.Only(s.Runs,
		func(r result.SolverRun) bool { return r.Why == result.OwnSolver || r.Why == result.DefaultRate })
}

func (s Study) ratesOf(r result.SolverRun) string {
	what, rate, momentum := "The control's own rate and momentum", r.Settings.LearningRate, r.Settings.Momentum
	switch {
	case r.Why == result.DefaultRate:
		what = "The default rate and momentum"
	case rate == s.Defaults.LearningRate && momentum == s.Defaults.Momentum:
		what += ", the default ones"
	}
	return what + " (" + words.ThreeDigits(rate) + ", " + words.ThreeDigits(momentum) + ")"
}

func course(sweeps []result.Mean) string {
	first, last := sweeps[0].Objective, sweeps[len(sweeps)-1].Objective
	if first == nil || last == nil {
		return "does not stay finite"
	}
	how := "never rises,"
	if len(sweeps) > 1 {
		how = "falls with every sweep,"
	}
	const rounding = 1e-6 // as for fractions of the images
	for i, m := range sweeps[1:] {
		before := *sweeps[i].Objective
		switch {
		case m.Objective == nil || *m.Objective > before*(1+rounding):
			return fmt.Sprintf("goes from %s to %s, not falling with every sweep", words.FourDigits(*first),
				words.FourDigits(*last))
		case *m.Objective >= before:
			how = "never rises,"
		}
	}
	return fmt.Sprintf("%s from %s to %s", how, words.FourDigits(*first), words.FourDigits(*last))
}

// ShownSweeps returns those of n sweeps that fit into a table: the first, the last, and others evenly between them.
func ShownSweeps(n int) (out []int) {
	const most = 5
	for i := range min(n, most) {
		k := i + 1
		if n > most {
			k = 1 + i*(n-1)/(most-1)
		}
		out = append(out, k)
	}
	return out
}

// Studies returns the studies of all suites, each with its own section.
func (v *Report) Studies() []Study {
	return slices.Concat(lists.Map(v.Suites, func(s *Suite) []Study { return s.Studies })...)
}

// Traced is a model under a control whose cells record the control layer by layer.
type Traced struct {
	Model, Control string
	Layers         []string
	Columns        []words.Column
	Solvers        []*result.Solver // one per column
}

// Traced lists the suite's traced models and controls, in its order.
func (s *Suite) Traced() (out []Traced) {
	for _, one := range s.Lines() {
		t := Traced{Model: one.Model, Control: one.Defense}
		for i, c := range one.Cells {
			if one.Index == 0 || c == nil || c.Solver == nil || len(c.Solver.Layers) == 0 ||
				t.Solvers != nil && len(c.Solver.Layers) != len(t.Layers) {
				continue
			}
			if t.Solvers == nil {
				name := func(l result.SolverLayer) string { return words.LayerName(l.At) }
				t.Layers = lists.Map(c.Solver.Layers, name)
			}
			t.Columns, t.Solvers = append(t.Columns, s.Columns[i]), append(t.Solvers, c.Solver)
		}
		if t.Solvers != nil {
			out = append(out, t)
		}
	}
	return out
}

func (t Traced) Name() string { return words.Clean(t.Model) + " · " + words.Clean(t.Control) }

// Sweeps returns the number of sweeps recorded for every column; 0 if they were not.
func (t Traced) Sweeps() int {
	all := lists.Distinct(t.Solvers, func(s *result.Solver) int { return len(s.Sweeps) })
	if len(all) > 1 {
		return 0
	}
	return max(all[0]-1, 0)
}

// MostTraced is the largest number of networks under a control in a figure of traces.
const MostTraced = 6
