package table

import (
	"cmp"

	"selfheal/harness/result"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// CorruptionTables are the scores of the suite's corruptions, and the accuracy under each of them.
func (s Suite) CorruptionTables() (list []Table) {
	for _, by := range s.Corrupted {
		list = append(list, s.corruptionScores(by), s.corruptionTable(by))
	}
	return list
}

// corruptionScores has the mean corruption errors, a line a model and defense.
func (s Suite) corruptionScores(by *view.Corruptions) Table {
	t := Table{Anchor: s.Slug, Lead: 2, Caption: "Common corruptions (" + words.Clean(by.Attack) +
		"): means over corruptions and severities, in %",
		Head: []string{"Model", "Defense", "Clean error", "Mean accuracy", "Mean corruption error"}}
	normalised := by.Normalised()
	if normalised {
		t.Head = append(t.Head, "mCE")
		t.note("", "mCE: each corruption's error divided by AlexNet's, as the corruptions' authors do it.")
	}
	for _, m := range s.Models {
		for _, d := range s.Defenses() {
			all := view.MeanOf(by.Over(m, d, by.Names, by.Severities))
			line := []any{words.Clean(m), words.DefenseName(d), wrong(s.Cell(m, d, s.Columns[0])), words.Accuracy(all), wrong(all)}
			if normalised {
				line = append(line, relative(by, m, d))
			}
			t.add(line...)
		}
	}
	return t.marked()
}

// wrong is a cell's error in per cent, or a dash.
func wrong(c *result.Cell) string {
	if c == nil {
		return words.Dash
	}
	return words.Percent(1-c.Accuracy, c.N)
}

// relative is the mean corruption error that is normalised by AlexNet's, in per cent; a dash where AlexNet's is not
// known or of other severities.
func relative(by *view.Corruptions, model, defense string) string {
	sum := 0.0
	for _, name := range by.Names {
		c := view.MeanOf(by.Over(model, defense, []string{name}, by.Severities))
		if c == nil || c.AlexNetError == 0 || len(by.Severities) < 5 {
			return words.Dash
		}
		sum += (1 - c.Accuracy) / c.AlexNetError
	}
	return words.Percent(sum/float64(len(by.Names)), 1)
}

// corruptionTable has the accuracy under each corruption at each severity.
func (s Suite) corruptionTable(by *view.Corruptions) Table {
	several := len(s.Controls) > 1
	t := Table{Anchor: s.Slug, Caption: "Accuracy in % by corruption (" + words.Clean(by.Attack) + ") and severity" +
		versus(s.Controls) + s.OfFirstSeed()}
	t.lead("Model", true)
	t.lead("Control", several)
	t.lead("Corruption", true)
	t.Head = append(append(t.Head, by.Severities...), "Mean")
	for _, r := range s.Rows() {
		add := func(title string, names []string) {
			line := boxes(words.Clean(r.Model))
			if several {
				line = append(line, text(words.Clean(r.Control)))
			}
			line = append(line, text(title))
			for _, severities := range append(view.Singles(by.Severities), by.Severities) {
				e := view.Entry{Baseline: view.MeanOf(by.Over(r.Model, "none", names, severities)),
					Controlled: view.MeanOf(by.Over(r.Model, cmp.Or(r.Control, "none"), names, severities))}
				line = append(line, s.pair(e, words.Accuracy, true, r.Control != ""))
			}
			t.Rows = append(t.Rows, line)
		}
		for _, name := range by.Names {
			add(words.CorruptionTitle(name), []string{name})
		}
		if len(by.Names) > 1 {
			add("Mean", by.Names)
		}
	}
	return t.marked()
}
