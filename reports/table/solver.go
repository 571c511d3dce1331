package table

import (
	"fmt"
	"slices"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// mean writes a mean objective and its standard error.
func mean(m result.Mean) []string {
	if m.Objective == nil {
		return []string{"∞", words.Dash}
	}
	return []string{words.FourDigits(*m.Objective), words.ThreeDigits(m.StandardError)}
}

// sweepsOf writes a solver's numbers of sweeps and of ascent steps.
func sweepsOf(s result.SolverSettings) string {
	if s.Outer == 0 {
		return words.Dash
	}
	return fmt.Sprintf("%d × %d", s.Outer, s.Inner)
}

func methodTable(s view.Study) Table {
	t := Table{Lead: 2, Caption: "Methods from the same start",
		Head: []string{"Method", "Images", "Sweeps × steps", "Plain passes", "Time per image (ms)", "Objective",
			"Standard error", "Accuracy (%)"}}
	row := func(method, kind, sweeps, passes string, ends []string, accuracy float64) {
		ms := words.Dash
		if c := s.Cost(method); c != nil {
			ms = words.ThreeDigits(c.Milliseconds)
		}
		t.add(s.Called(method), kind, sweeps, passes, ms, ends, words.Percent(accuracy, s.N))
	}
	for _, b := range s.Baseline {
		row(cell.None, b.Images, words.Dash, "1", []string{words.Dash, words.Dash}, b.Accuracy)
	}
	for _, m := range s.Methods() {
		for _, kind := range s.Kinds() {
			if c := s.Curve(m, kind); c != nil {
				end := c.Points[len(c.Points)-1]
				row(m, kind, sweepsOf(c.Settings), words.ThreeDigits(end.Passes),
					mean(end.Mean), end.Accuracy)
			}
		}
	}
	return t.marked()
}

// headSweeps adds headings for those of n sweeps that fit.
func (t *Table) headSweeps(n int) []int {
	sweeps := view.ShownSweeps(n)
	for _, k := range sweeps {
		t.head(true, fmt.Sprintf("Sweep %d", k))
	}
	return sweeps
}

// convergenceTable shows the objective from sweep to sweep, at the control's own rate and momentum and at the default
// ones.
func convergenceTable(s view.Study) Table {
	t := Table{Lead: 3, Caption: "Mean objective after each sweep",
		Head: []string{"Learning rate", "Momentum", "Images", "Greedy start"}}
	runs := s.Rates()
	if len(runs) == 0 || len(runs[0].Outcomes) == 0 {
		return t
	}
	sweeps := t.headSweeps(len(runs[0].Outcomes[0].Sweeps) - 1)
	t.head(true, outcomeHead...)
	for _, r := range runs {
		for _, o := range r.Outcomes {
			means := lists.Map(append([]int{0}, sweeps...), func(k int) string { return mean(o.Sweeps[k])[0] })
			t.add(words.ThreeDigits(r.Settings.LearningRate), words.ThreeDigits(r.Settings.Momentum), o.Images, means,
				percents(s.N, o.BelowGreedy, o.NonIncreasing, o.NotFinite, o.Accuracy))
		}
	}
	return t.marked()
}

var outcomeHead = []string{"Below greedy (%)", "Never rising (%)", "Not finite (%)", "Accuracy (%)"}

var settingNames = map[string]string{
	result.SetRegularization: "regularization c", result.SetOuter: "outer, sweeps", result.SetInner: "inner, steps",
	result.SetLearningRate: "learning rate", result.SetMomentum: "momentum",
}

// settingTable lists the solver's results with one setting changed.
func settingTable(s view.Study) Table {
	t := Table{Lead: 3, Caption: "One setting changed, the others the control's own",
		Head: append([]string{"Setting", "Value", "Images", "Plain passes", "Objective", "Standard error"},
			outcomeHead...)}
	own := s.Solver
	t.note("", "Bold: the control's own value. Its solver is %s, %s, c = %s, learning rate %s, momentum %s.",
		words.Clean(own.Method), sweepsOf(own), words.ThreeDigits(own.Regularization),
		words.ThreeDigits(own.LearningRate), words.ThreeDigits(own.Momentum))
	for _, r := range s.Runs {
		name, swept := settingNames[r.Why]
		if !swept {
			continue
		}
		for _, o := range r.Outcomes {
			t.add(name, bold(words.ThreeDigits(r.Value), r.Own), o.Images, words.ThreeDigits(r.Passes), mean(o.Final()),
				percents(s.N, o.BelowGreedy, o.NonIncreasing, o.NotFinite, o.Accuracy))
		}
	}
	return t.marked()
}

// Study returns all tables of a study.
func Study(s view.Study) []Table {
	return filled(methodTable(s), convergenceTable(s), settingTable(s))
}

func layerTable(s Suite, all []view.Traced, caption string, of func(result.SolverLayer) float64) Table {
	t := s.table(caption+s.OfFirstSeed(), 3, "Model", "Control", "Layer")
	t.head(true, s.Heads()...)
	for _, one := range all {
		for i, layer := range one.Layers {
			if len(one.Layers) > 1 { // numbered as in a figure
				layer = fmt.Sprintf("%d: %s", i+1, layer)
			}
			var values []string
			for _, col := range s.Columns {
				value := words.Dash
				if k := slices.IndexFunc(one.Columns, col.Same); k >= 0 {
					value = words.ThreeDigits(of(one.Solvers[k].Layers[i]))
				}
				values = append(values, value)
			}
			t.add(one.Model, words.DefenseName(one.Control), layer, values)
		}
	}
	return t.marked()
}

// sweepTable shows the objective's difference from the greedy start after each sweep.
func sweepTable(s Suite, all []view.Traced) Table {
	t := s.table("Objective at the greedy start, and its difference from that after each sweep, mean over "+
		"the first images"+s.OfFirstSeed(), 3, "Model", "Control", "Images", "Traced", "Greedy start")
	all = lists.Only(all, func(one view.Traced) bool { return one.Sweeps() > 0 })
	sweeps := t.headSweeps(slices.Max(append(lists.Map(all, view.Traced.Sweeps), 0)))
	for _, one := range all {
		for i, v := range one.Solvers {
			var values []string
			for _, k := range sweeps {
				value := words.Dash
				if k < len(v.Sweeps) {
					value = words.Signed(v.Sweeps[k] - v.Sweeps[0])
				}
				values = append(values, value)
			}
			t.add(one.Model, words.DefenseName(one.Control), one.Columns[i].Title(), v.Traced,
				words.FourDigits(v.Sweeps[0]), values)
		}
	}
	return t.marked()
}

// TraceTables shows norms and losses by layer, and the objective from sweep to sweep.
func (s Suite) TraceTables() []Table {
	all := s.Traced()
	norm := func(l result.SolverLayer) float64 { return l.ControlNorm }
	loss := func(l result.SolverLayer) float64 { return l.Loss }
	return filled(layerTable(s, all, "Control norm ‖u_t‖ by layer", norm),
		layerTable(s, all, "Running loss by layer, at the end", loss), sweepTable(s, all))
}
