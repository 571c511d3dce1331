package view

import (
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Apart is what a suite has of an attack whose cells are no columns of its tables. They have tables, a figure and lines
// of tables.csv of their own. An attack of kind corruption has a cell for each corruption and severity, and everywhere
// else their mean stands for them. A certificate has one for each epsilon; those of smoothing are of other classifiers,
// the smoothed ones, than all other cells.
type Apart struct {
	Attack            string
	Of                result.Attack
	Columns           []words.Column // of its cells; of a certificate by epsilon, ascending
	Names, Severities []string       // of corruptions
	cells             map[cellKey]*result.Cell
	radii             map[cellKey][]float64 // of smoothing's records, one an image: without an epsilon
}

// setApart takes a cell of a corruption or a certificate out of the suite's others.
func (s *Suite) setApart(c *result.Cell) bool {
	name, a, ok := result.AttackOf(s.File.Attacks, c.Attack)
	list := &s.Certified
	switch {
	case ok && a.Corruptions():
		list, s.Attacks = &s.Corrupted, Once(s.Attacks, name)
	case !ok || !a.Proves():
		return false
	}
	i := slices.IndexFunc(*list, func(by *Apart) bool { return by.Attack == name })
	if i < 0 {
		i, *list = len(*list), append(*list, newApart(name, a))
	}
	if c.Error == "" {
		(*list)[i].cells[keyOf(c)] = c
	}
	return true
}

func newApart(name string, a result.Attack) *Apart {
	by := &Apart{Attack: name, Of: a, cells: map[cellKey]*result.Cell{}, radii: map[cellKey][]float64{}}
	for _, cell := range a.Cells(name) {
		if parts := strings.Split(cell, ":"); a.Corruptions() {
			by.Names, by.Severities = Once(by.Names, parts[1]), Once(by.Severities, parts[2])
			by.Columns = append(by.Columns, words.Column{Attack: cell, Recipe: a.Recipe})
		}
	}
	if a.Proves() {
		for _, e := range slices.Sorted(slices.Values(a.Epsilons)) {
			by.Columns = append(by.Columns, words.Column{Attack: name, Epsilon: new(e), Norm: *a.Norm, Recipe: a.Recipe})
		}
	}
	return by
}

// Cell is that of a column, or nil.
func (by *Apart) Cell(model, defense string, col words.Column) *result.Cell {
	return by.cells[cellKey{model, defense, col.Attack, words.OrMinusOne(col.Epsilon)}]
}

// Apart lists the cells that are no columns: those of corruptions, then those of certificates.
func (s *Suite) Apart() (out []Compared) {
	for _, by := range slices.Concat(s.Corrupted, s.Certified) {
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				for _, col := range by.Columns {
					if c := by.Cell(m, d, col); c != nil {
						out = append(out, Compared{Model: m, Defense: d, Column: col, Cell: c,
							Alone: by.Cell(m, "none", col)})
					}
				}
			}
		}
	}
	return out
}

// Normalised reports whether AlexNet's errors are known.
func (by *Apart) Normalised() bool {
	for _, c := range by.cells {
		if c.AlexNetError > 0 {
			return true
		}
	}
	return false
}

// Over lists the cells of some corruptions and severities; nil where one is missing.
func (by *Apart) Over(model, defense string, names, severities []string) (list []*result.Cell) {
	for _, name := range names {
		for _, severity := range severities {
			c := by.Cell(model, defense, words.Column{Attack: by.Attack + ":" + name + ":" + severity})
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

// Singles makes a list of every item.
func Singles(items []string) (lists [][]string) {
	for _, item := range items {
		lists = append(lists, []string{item})
	}
	return lists
}
