package view

import (
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Corruptions is what a suite has of one attack of kind corruption: a cell for each corruption and severity, which
// have tables and a figure of their own. Everywhere else their mean stands for them.
type Corruptions struct {
	Attack     string
	Names      []string // of the corruptions
	Severities []string
	cells      map[cellKey]*result.Cell
}

// sortOut takes a cell of a corruption out of the suite's others.
func (s *Suite) sortOut(c *result.Cell) bool {
	name, a, ok := result.AttackOf(s.File.Attacks, c.Attack)
	if !ok || !a.Corruptions() {
		return false
	}
	i := slices.IndexFunc(s.Corrupted, func(by *Corruptions) bool { return by.Attack == name })
	if i < 0 {
		by := &Corruptions{Attack: name, cells: map[cellKey]*result.Cell{}}
		for _, cell := range a.Cells(name) {
			parts := strings.Split(cell, ":")
			by.Names, by.Severities = Once(by.Names, parts[1]), Once(by.Severities, parts[2])
		}
		i, s.Corrupted = len(s.Corrupted), append(s.Corrupted, by)
	}
	if c.Error == "" {
		s.Corrupted[i].cells[keyOf(c)] = c
	}
	s.Attacks = Once(s.Attacks, name)
	return true
}

// cell is that of a corruption at a severity, or nil.
func (by *Corruptions) cell(model, defense, name, severity string) *result.Cell {
	return by.cells[cellKey{model, defense, by.Attack + ":" + name + ":" + severity, -1}]
}

// Normalised reports whether AlexNet's errors are known.
func (by *Corruptions) Normalised() bool {
	for _, c := range by.cells {
		if c.AlexNetError > 0 {
			return true
		}
	}
	return false
}

// Over lists the cells of some corruptions and severities; nil where one is missing.
func (by *Corruptions) Over(model, defense string, names, severities []string) (list []*result.Cell) {
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

// MeanOf is a cell that says of some others their mean accuracy. It has no interval: the images of its cells are the
// same ones.
func MeanOf(of []*result.Cell) *result.Cell {
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
			m.Warnings = Once(m.Warnings, w)
		}
	}
	return &m
}

// addMeans gives the suite a cell for each model and defense of which every corruption is there.
func (s *Suite) addMeans() {
	for _, by := range s.Corrupted {
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				if c := MeanOf(by.Over(m, d, by.Names, by.Severities)); c != nil {
					c.Attack = by.Attack
					s.cells[keyOf(c)] = c
				}
			}
		}
	}
}

// EachCorrupted lists the cells of corruptions, which are no columns.
func (s *Suite) EachCorrupted() (out []Compared) {
	for _, by := range s.Corrupted {
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				for _, name := range by.Names {
					for _, severity := range by.Severities {
						if c := by.cell(m, d, name, severity); c != nil {
							col := words.Column{Attack: c.Attack, Recipe: c.Recipe}
							out = append(out, Compared{Model: m, Defense: d, Column: col, Cell: c,
								Alone: by.cell(m, "none", name, severity)})
						}
					}
				}
			}
		}
	}
	return out
}

// Singles makes a list of every item.
func Singles(items []string) (lists [][]string) {
	for _, item := range items {
		lists = append(lists, []string{item})
	}
	return lists
}
