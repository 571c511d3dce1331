package reports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/result"
)

// studies are a suite's solver studies, in the order of the file.
func studies(f *result.File, suite string) (out []study) {
	for i := range f.Solver {
		if f.Solver[i].Suite == suite {
			out = append(out, study{SolverStudy: &f.Solver[i]})
		}
	}
	return out
}

// study is a solver study as it is read.
type study struct {
	*result.SolverStudy
	Heading, Slug string // the suite's heading and the study's anchor, on a page
}

// Name is what was studied.
func (s study) Name() string { return clean(s.Model) + " · " + clean(s.Control) }

// Facts say on what.
func (s study) Facts() string {
	out := fmt.Sprintf("%s · %s", clean(s.Dataset), plural(s.N, "clean image"))
	if s.Attack != "" {
		c := column{Attack: s.Attack, Epsilon: s.Epsilon, norm: s.Norm, recipe: s.Recipe}
		out += ", and as many made by " + c.Title() + " on the undefended network"
	}
	return out
}

// kinds are the kinds of images studied.
func (s study) kinds() []string {
	return distinct(s.Baseline, func(b result.Score) string { return b.Images })
}

// atDefaultRate stands, among the methods, for the control's own at the default rate and
// momentum.
const atDefaultRate = "default"

// methodOf is what a curve is of.
func methodOf(c result.SolverCurve) string {
	if c.Default {
		return atDefaultRate
	}
	return c.Settings.Method
}

// called is how a method reads.
func (s study) called(method string) string {
	switch method {
	case "none":
		return "undefended"
	case atDefaultRate:
		return clean(s.Solver.Method) + " at the default rate"
	}
	return clean(method)
}

// curve finds the curve of a method on images of a kind.
func (s study) curve(method, kind string) *result.SolverCurve {
	for i, c := range s.Curves {
		if methodOf(c) == method && c.Images == kind && len(c.Points) > 0 {
			return &s.Curves[i]
		}
	}
	return nil
}

// methods are those that there are curves of, in their order.
func (s study) methods() []string { return distinct(s.Curves, methodOf) }

// cost finds what an answer of a method costs.
func (s study) cost(method string) *result.SolverCost {
	i := slices.IndexFunc(s.Costs, func(c result.SolverCost) bool { return c.Method == method })
	if i < 0 {
		return nil
	}
	return &s.Costs[i]
}

// Sentences say what the study found: what the control adds to an answer, and whether its
// own solver and the default one converge.
func (s study) Sentences() []string {
	var out []string
	bare, own := s.cost("none"), s.cost(s.Solver.Method)
	if bare != nil && own != nil && bare.Milliseconds > 0 {
		out = append(out, fmt.Sprintf("An answer of %s under %s costs %s by FLOPs and %s ms for one "+
			"image alone; the undefended network's costs 1 and %s ms: control adds %s ms, %.1f %% of the time.",
			clean(s.Model), clean(s.Control), plainPasses(own.Passes), threeDigits(own.Milliseconds),
			threeDigits(bare.Milliseconds), threeDigits(own.Milliseconds-bare.Milliseconds),
			100*(1-bare.Milliseconds/own.Milliseconds)))
	}
	for _, r := range s.rates() {
		var said []string
		for _, o := range r.Outcomes {
			one := fmt.Sprintf("on %s images the mean objective %s, below the greedy start on %s %% of them",
				clean(o.Images), course(o.Sweeps), percent(o.BelowGreedy, s.N))
			if o.NotFinite > 0 {
				one += fmt.Sprintf(" and not finite on %s %%", percent(o.NotFinite, s.N))
			}
			said = append(said, one)
		}
		if said != nil {
			out = append(out, s.ratesOf(r)+": "+strings.Join(said, "; ")+".")
		}
	}
	return out
}

// rates are the runs that tell whether rate and momentum converge: the control's own and,
// where they are others, the default ones.
func (s study) rates() []result.SolverRun {
	return slices.DeleteFunc(slices.Clone(s.Runs),
		func(r result.SolverRun) bool { return r.Why != result.OwnSolver && r.Why != result.DefaultRate })
}

// ratesOf says whose rate and momentum a run has.
func (s study) ratesOf(r result.SolverRun) string {
	what := "The control's own rate and momentum"
	switch same := r.Settings.LearningRate == s.Defaults.LearningRate && r.Settings.Momentum == s.Defaults.Momentum; {
	case r.Why == result.DefaultRate:
		what = "The default rate and momentum"
	case same:
		what += ", the default ones"
	}
	return fmt.Sprintf("%s (%s, %s)", what, threeDigits(r.Settings.LearningRate), threeDigits(r.Settings.Momentum))
}

// course says in words how a mean objective goes from sweep to sweep.
func course(sweeps []result.Mean) string {
	first, last := sweeps[0].Objective, sweeps[len(sweeps)-1].Objective
	if first == nil || last == nil {
		return "does not stay finite"
	}
	how := "never rises,"
	if len(sweeps) > 1 {
		how = "falls with every sweep,"
	}
	const rounding = 1e-6 // as in the shares of images
	for i, m := range sweeps[1:] {
		before := *sweeps[i].Objective
		switch {
		case m.Objective == nil || *m.Objective > before*(1+rounding):
			return fmt.Sprintf("goes from %s to %s, not falling with every sweep", fourDigits(*first),
				fourDigits(*last))
		case *m.Objective >= before:
			how = "never rises,"
		}
	}
	return fmt.Sprintf("%s from %s to %s", how, fourDigits(*first), fourDigits(*last))
}

// mean writes a mean objective.
func mean(m result.Mean) string {
	if m.Objective == nil {
		return "∞"
	}
	return fourDigits(*m.Objective)
}

// fourDigits writes an objective with four significant digits: where the greedy start is
// nearly optimal, as with linear embeddings, fewer don't show what a solver gains.
func fourDigits(x float64) string {
	if x >= 1e3 {
		return threeDigits(x) // a diverging one
	}
	return strings.ReplaceAll(strconv.FormatFloat(x, 'g', 4, 64), "-", "−")
}

func standardError(m result.Mean) string {
	if m.Objective == nil {
		return dash
	}
	return threeDigits(m.StandardError)
}

// sweepsOf writes how many sweeps of how many ascent steps a solver makes.
func sweepsOf(s result.SolverSettings) string {
	if s.Outer == 0 {
		return dash
	}
	return fmt.Sprintf("%d × %d", s.Outer, s.Inner)
}

// methodTable compares the methods from the same start.
func methodTable(s study) table {
	t := table{Lead: 2, Caption: "Methods from the same start",
		Head: []string{"Method", "Images", "Sweeps × steps", "Plain passes", "Time per image (ms)", "Objective",
			"Standard error", "Accuracy (%)"}}
	row := func(method, kind, sweeps, passes, objective, e string, accuracy float64) {
		ms := dash
		if c := s.cost(method); c != nil {
			ms = threeDigits(c.Milliseconds)
		}
		t.add(s.called(method), clean(kind), sweeps, passes, ms, objective, e, percent(accuracy, s.N))
	}
	for _, b := range s.Baseline {
		row("none", b.Images, dash, "1", dash, dash, b.Accuracy)
	}
	for _, m := range s.methods() {
		for _, kind := range s.kinds() {
			if c := s.curve(m, kind); c != nil {
				end := c.Points[len(c.Points)-1]
				row(m, kind, sweepsOf(c.Settings), threeDigits(end.Passes), mean(end.Mean), standardError(end.Mean),
					end.Accuracy)
			}
		}
	}
	return t.marked()
}

// convergenceTable follows the objective from sweep to sweep at the control's own rate and
// momentum and at the default ones.
func convergenceTable(s study) table {
	t := table{Lead: 3, Caption: "Mean objective after each sweep",
		Head: []string{"Learning rate", "Momentum", "Images", "Greedy start"}}
	runs := s.rates()
	if len(runs) == 0 || len(runs[0].Outcomes) == 0 {
		return t
	}
	shown := shownSweeps(len(runs[0].Outcomes[0].Sweeps) - 1)
	for _, k := range shown {
		t.Head = append(t.Head, fmt.Sprintf("Sweep %d", k))
	}
	t.Head = append(t.Head, "Below greedy (%)", "Never rising (%)", "Not finite (%)", "Accuracy (%)")
	for _, r := range runs {
		for _, o := range r.Outcomes {
			line := boxes(threeDigits(r.Settings.LearningRate), threeDigits(r.Settings.Momentum), clean(o.Images),
				mean(o.Sweeps[0]))
			for _, k := range shown {
				line = append(line, text(mean(o.Sweeps[k])))
			}
			t.Rows = append(t.Rows, append(line, outcomeShares(s, o)...))
		}
	}
	return t.marked()
}

// shownSweeps are those of n sweeps that a table has room for: the first, the last, and
// others evenly between them.
func shownSweeps(n int) []int {
	const most = 5
	var out []int
	for i := range min(n, most) {
		k := i + 1
		if n > most {
			k = 1 + i*(n-1)/(most-1)
		}
		out = append(out, k)
	}
	return out
}

// outcomeShares are the last columns of the tables below.
func outcomeShares(s study, o result.SolverOutcome) []box {
	return boxes(percent(o.BelowGreedy, s.N), percent(o.NonIncreasing, s.N), percent(o.NotFinite, s.N),
		percent(o.Accuracy, s.N))
}

// settingNames are how the settings of a sweep read.
var settingNames = map[string]string{
	result.SetRegularization: "regularization c", result.SetOuter: "outer, sweeps", result.SetInner: "inner, steps",
	result.SetLearningRate: "learning rate", result.SetMomentum: "momentum",
}

// settingTable lists what the control's solver comes to with one setting changed.
func settingTable(s study) table {
	t := table{Lead: 3, Caption: "One setting changed, the others the control's own",
		Head: []string{"Setting", "Value", "Images", "Plain passes", "Objective", "Standard error", "Below greedy (%)",
			"Never rising (%)", "Not finite (%)", "Accuracy (%)"}}
	own := s.Solver
	t.note("", "Bold: the control's own value. Its solver is %s, %s, c = %s, learning rate %s, momentum %s.",
		clean(own.Method), sweepsOf(own), threeDigits(own.Regularization), threeDigits(own.LearningRate),
		threeDigits(own.Momentum))
	for _, r := range s.Runs {
		name, swept := settingNames[r.Why]
		if !swept {
			continue
		}
		for _, o := range r.Outcomes {
			value := text(threeDigits(r.Value))
			value.Spans[0].Bold = r.Own
			line := boxes(name, value, clean(o.Images), threeDigits(r.Passes), mean(o.Final()),
				standardError(o.Final()))
			t.Rows = append(t.Rows, append(line, outcomeShares(s, o)...))
		}
	}
	return t.marked()
}

// studyTables are all of a study.
func studyTables(s study) []table {
	return filled(methodTable(s), convergenceTable(s), settingTable(s))
}

// Studies are those of all suites, each with a section of its own.
func (v *view) Studies() (out []study) {
	slugs := map[string]bool{}
	for _, s := range v.Suites {
		for _, st := range s.studies {
			st.Heading, st.Slug = s.Heading(), uniqueSlug(s.Slug+"-"+st.Model+"-"+st.Control, slugs)
			out = append(out, st)
		}
	}
	return out
}
