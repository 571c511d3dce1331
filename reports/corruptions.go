package reports

import (
	"cmp"
	"slices"
	"strings"

	"selfheal/harness/result"
)

// corruptedBy is what a suite has of one attack of kind corruption: a cell for each corruption and severity, which
// have tables and a figure of their own. Everywhere else their mean stands for them.
type corruptedBy struct {
	attack     string
	names      []string // of the corruptions
	severities []string
	cells      map[cellKey]*result.Cell
}

// sortOut takes a cell of a corruption out of the suite's others.
func (s *suite) sortOut(c *result.Cell) bool {
	name, a, ok := result.AttackOf(s.attacks, c.Attack)
	if !ok || !a.Corruptions() {
		return false
	}
	i := slices.IndexFunc(s.corrupted, func(by *corruptedBy) bool { return by.attack == name })
	if i < 0 {
		by := &corruptedBy{attack: name, cells: map[cellKey]*result.Cell{}}
		for _, cell := range a.Cells(name) {
			parts := strings.Split(cell, ":")
			by.names, by.severities = once(by.names, parts[1]), once(by.severities, parts[2])
		}
		i, s.corrupted = len(s.corrupted), append(s.corrupted, by)
	}
	if c.Error == "" {
		s.corrupted[i].cells[keyOf(c)] = c
	}
	s.Attacks = once(s.Attacks, name)
	return true
}

// cell is that of a corruption at a severity, or nil.
func (by *corruptedBy) cell(model, defense, name, severity string) *result.Cell {
	return by.cells[cellKey{model, defense, by.attack + ":" + name + ":" + severity, -1}]
}

// over lists the cells of some corruptions and severities; nil where one is missing.
func (by *corruptedBy) over(model, defense string, names, severities []string) (list []*result.Cell) {
	for _, name := range names {
		for _, severity := range severities {
			c := by.cell(model, defense, name, severity)
			if c == nil {
				return nil
			}
			list = append(list, c)
		}
	}
	return list
}

// meanOf is a cell that says of some others their mean accuracy. It has no interval: the images of its cells are the
// same ones.
func meanOf(of []*result.Cell) *result.Cell {
	if len(of) == 0 {
		return nil
	}
	m := *of[0]
	m.Accuracy, m.Seconds, m.MaxNorm, m.Warnings = 0, 0, 0, nil
	m.Verdicts, m.CI95, m.Correct, m.Seeds, m.Solver = "", [2]float64{}, 0, nil, nil
	for _, c := range of {
		m.Accuracy += c.Accuracy / float64(len(of))
		m.Seconds += c.Seconds
		m.MaxNorm = max(m.MaxNorm, c.MaxNorm)
		for _, w := range c.Warnings {
			m.Warnings = once(m.Warnings, w)
		}
	}
	return &m
}

// addMeans gives the suite a cell for each model and defense of which every corruption is there.
func (s *suite) addMeans() {
	for _, by := range s.corrupted {
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				if c := meanOf(by.over(m, d, by.names, by.severities)); c != nil {
					c.Attack = by.attack
					s.cells[keyOf(c)] = c
				}
			}
		}
	}
}

// eachCorrupted lists the cells of corruptions, which are no columns.
func (s *suite) eachCorrupted() (out []compared) {
	for _, by := range s.corrupted {
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				for _, name := range by.names {
					for _, severity := range by.severities {
						if c := by.cell(m, d, name, severity); c != nil {
							col := column{Attack: c.Attack, recipe: c.Recipe}
							out = append(out, compared{model: m, defense: d, col: col, cell: c,
								alone: by.cell(m, "none", name, severity)})
						}
					}
				}
			}
		}
	}
	return out
}

// corruptionTables are the scores of the suite's corruptions, and the accuracy under each of them.
func (s suiteTables) corruptionTables() (list []table) {
	for _, by := range s.corrupted {
		list = append(list, s.corruptionScores(by), s.corruptionTable(by))
	}
	return list
}

// corruptionScores has the mean corruption errors, a line a model and defense.
func (s suiteTables) corruptionScores(by *corruptedBy) table {
	t := table{Anchor: s.Slug, Lead: 2, Caption: "Common corruptions (" + clean(by.attack) +
		"): means over corruptions and severities, in %",
		Head: []string{"Model", "Defense", "Clean error", "Mean accuracy", "Mean corruption error"}}
	normalised := false
	for _, c := range by.cells {
		normalised = normalised || c.AlexNetError > 0
	}
	if normalised {
		t.Head = append(t.Head, "mCE")
		t.note("", "mCE: each corruption's error divided by AlexNet's, as the corruptions' authors do it.")
	}
	for _, m := range s.Models {
		for _, d := range s.Defenses() {
			all := meanOf(by.over(m, d, by.names, by.severities))
			line := []any{clean(m), defenseName(d), wrong(s.Cell(m, d, s.Columns[0])), accuracy(all), wrong(all)}
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
		return dash
	}
	return percent(1-c.Accuracy, c.N)
}

// relative is the mean corruption error that is normalised by AlexNet's, in per cent; a dash where AlexNet's is not
// known or of other severities.
func relative(by *corruptedBy, model, defense string) string {
	sum := 0.0
	for _, name := range by.names {
		c := meanOf(by.over(model, defense, []string{name}, by.severities))
		if c == nil || c.AlexNetError == 0 || len(by.severities) < 5 {
			return dash
		}
		sum += (1 - c.Accuracy) / c.AlexNetError
	}
	return percent(sum/float64(len(by.names)), 1)
}

// corruptionTable has the accuracy under each corruption at each severity.
func (s suiteTables) corruptionTable(by *corruptedBy) table {
	several := len(s.Controls) > 1
	t := table{Anchor: s.Slug, Caption: "Accuracy in % by corruption (" + clean(by.attack) + ") and severity" +
		versus(s.Controls) + s.ofFirstSeed()}
	t.lead("Model", true)
	t.lead("Control", several)
	t.lead("Corruption", true)
	t.Head = append(append(t.Head, by.severities...), "Mean")
	for _, r := range s.Rows() {
		add := func(title string, names []string) {
			line := boxes(clean(r.Model))
			if several {
				line = append(line, text(clean(r.Control)))
			}
			line = append(line, text(title))
			for _, severities := range append(each(by.severities), by.severities) {
				e := entry{meanOf(by.over(r.Model, "none", names, severities)),
					meanOf(by.over(r.Model, cmp.Or(r.Control, "none"), names, severities))}
				line = append(line, s.pair(e, accuracy, true, r.Control != ""))
			}
			t.Rows = append(t.Rows, line)
		}
		for _, name := range by.names {
			add(corruptionTitle(name), []string{name})
		}
		if len(by.names) > 1 {
			add("Mean", by.names)
		}
	}
	return t.marked()
}

// each makes a list of every item.
func each(items []string) (lists [][]string) {
	for _, item := range items {
		lists = append(lists, []string{item})
	}
	return lists
}

// corruptionTitle is how a corruption reads: "Gaussian noise".
func corruptionTitle(name string) string {
	if name == "jpeg_compression" {
		return "JPEG compression"
	}
	name = strings.ReplaceAll(clean(name), "_", " ")
	return strings.ToUpper(name[:min(len(name), 1)]) + name[min(len(name), 1):]
}
