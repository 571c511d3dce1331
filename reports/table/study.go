package table

import (
	"fmt"

	"selfheal/harness/result"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// mean writes a mean objective.
func mean(m result.Mean) string {
	if m.Objective == nil {
		return "∞"
	}
	return words.FourDigits(*m.Objective)
}

func standardError(m result.Mean) string {
	if m.Objective == nil {
		return words.Dash
	}
	return words.ThreeDigits(m.StandardError)
}

// sweepsOf writes how many sweeps of how many ascent steps a solver makes.
func sweepsOf(s result.SolverSettings) string {
	if s.Outer == 0 {
		return words.Dash
	}
	return fmt.Sprintf("%d × %d", s.Outer, s.Inner)
}

// methodTable compares the methods from the same start.
func methodTable(s view.Study) Table {
	t := Table{Lead: 2, Caption: "Methods from the same start",
		Head: []string{"Method", "Images", "Sweeps × steps", "Plain passes", "Time per image (ms)", "Objective",
			"Standard error", "Accuracy (%)"}}
	row := func(method, kind, sweeps, passes, objective, e string, accuracy float64) {
		ms := words.Dash
		if c := s.Cost(method); c != nil {
			ms = words.ThreeDigits(c.Milliseconds)
		}
		t.add(s.Called(method), words.Clean(kind), sweeps, passes, ms, objective, e, words.Percent(accuracy, s.N))
	}
	for _, b := range s.Baseline {
		row("none", b.Images, words.Dash, "1", words.Dash, words.Dash, b.Accuracy)
	}
	for _, m := range s.Methods() {
		for _, kind := range s.Kinds() {
			if c := s.Curve(m, kind); c != nil {
				end := c.Points[len(c.Points)-1]
				row(m, kind, sweepsOf(c.Settings), words.ThreeDigits(end.Passes), mean(end.Mean), standardError(end.Mean),
					end.Accuracy)
			}
		}
	}
	return t.marked()
}

// convergenceTable follows the objective from sweep to sweep at the control's own rate and
// momentum and at the default ones.
func convergenceTable(s view.Study) Table {
	t := Table{Lead: 3, Caption: "Mean objective after each sweep",
		Head: []string{"Learning rate", "Momentum", "Images", "Greedy start"}}
	runs := s.Rates()
	if len(runs) == 0 || len(runs[0].Outcomes) == 0 {
		return t
	}
	shown := view.ShownSweeps(len(runs[0].Outcomes[0].Sweeps) - 1)
	for _, k := range shown {
		t.Head = append(t.Head, fmt.Sprintf("Sweep %d", k))
	}
	t.Head = append(t.Head, "Below greedy (%)", "Never rising (%)", "Not finite (%)", "Accuracy (%)")
	for _, r := range runs {
		for _, o := range r.Outcomes {
			line := boxes(words.ThreeDigits(r.Settings.LearningRate), words.ThreeDigits(r.Settings.Momentum), words.Clean(o.Images),
				mean(o.Sweeps[0]))
			for _, k := range shown {
				line = append(line, text(mean(o.Sweeps[k])))
			}
			t.Rows = append(t.Rows, append(line, outcomeShares(s, o)...))
		}
	}
	return t.marked()
}

// outcomeShares are the last columns of the tables below.
func outcomeShares(s view.Study, o result.SolverOutcome) []Box {
	return boxes(words.Percent(o.BelowGreedy, s.N), words.Percent(o.NonIncreasing, s.N), words.Percent(o.NotFinite, s.N),
		words.Percent(o.Accuracy, s.N))
}

// settingNames are how the settings of a sweep read.
var settingNames = map[string]string{
	result.SetRegularization: "regularization c", result.SetOuter: "outer, sweeps", result.SetInner: "inner, steps",
	result.SetLearningRate: "learning rate", result.SetMomentum: "momentum",
}

// settingTable lists what the control's solver comes to with one setting changed.
func settingTable(s view.Study) Table {
	t := Table{Lead: 3, Caption: "One setting changed, the others the control's own",
		Head: []string{"Setting", "Value", "Images", "Plain passes", "Objective", "Standard error", "Below greedy (%)",
			"Never rising (%)", "Not finite (%)", "Accuracy (%)"}}
	own := s.Solver
	t.note("", "Bold: the control's own value. Its solver is %s, %s, c = %s, learning rate %s, momentum %s.",
		words.Clean(own.Method), sweepsOf(own), words.ThreeDigits(own.Regularization), words.ThreeDigits(own.LearningRate),
		words.ThreeDigits(own.Momentum))
	for _, r := range s.Runs {
		name, swept := settingNames[r.Why]
		if !swept {
			continue
		}
		for _, o := range r.Outcomes {
			value := text(words.ThreeDigits(r.Value))
			value.Spans[0].Bold = r.Own
			line := boxes(name, value, words.Clean(o.Images), words.ThreeDigits(r.Passes), mean(o.Final()),
				standardError(o.Final()))
			t.Rows = append(t.Rows, append(line, outcomeShares(s, o)...))
		}
	}
	return t.marked()
}

// Study are all of a study.
func Study(s view.Study) []Table {
	return filled(methodTable(s), convergenceTable(s), settingTable(s))
}
