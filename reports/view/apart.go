package view

import (
	"cmp"
	"slices"
	"sort"
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
	Normalised        bool           // AlexNet's errors are known
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
	if by := (*list)[i]; c.Error == "" {
		by.cells[keyOf(c)], by.Normalised = c, by.Normalised || c.AlexNetError > 0
	}
	return true
}

func newApart(name string, a result.Attack) *Apart {
	by := &Apart{Attack: name, Of: a, cells: map[cellKey]*result.Cell{}, radii: map[cellKey][]float64{}}
	for _, cell := range a.Cells(name) {
		col := words.Column{Attack: cell, Recipe: a.Recipe}
		if parts := strings.Split(cell, ":"); a.Corruptions() {
			by.Names, by.Severities = Once(by.Names, parts[1]), Once(by.Severities, parts[2])
			by.Columns = append(by.Columns, col)
			continue
		}
		for _, e := range slices.Sorted(slices.Values(a.Epsilons)) {
			col.Epsilon, col.Norm = new(e), *a.Norm
			by.Columns = append(by.Columns, col)
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

// addRadius takes a record of a certificate in, of its first radius: the others say the same.
func (s *Suite) addRadius(r result.Record) {
	for _, by := range s.Certified {
		if by.Attack == r.Attack && *r.Epsilon == *by.Columns[0].Epsilon {
			key := cellKey{model: r.Model, defense: r.Defense}
			by.radii[key] = append(by.radii[key], *r.Radius)
		}
	}
}

// RadiiOf are those of a model and defense, one an image; nil without records.
func (by *Apart) RadiiOf(model, defense string) []float64 {
	return by.radii[cellKey{model: model, defense: defense}]
}

// bracket is what is known of a classifier in a ball: what is proven, and what attacks have left.
type bracket struct {
	Norm             string
	Epsilon          float64
	Proven, Attacked float64 // shares of the images; −1 where that is not known
}

// same reports whether another is of the same ball.
func (b bracket) same(o bracket) bool { return b.Norm == o.Norm && b.Epsilon == o.Epsilon }

// Brackets are those of a model and defense, at the certificate's epsilons and, of a smoothed classifier, at every
// attack's: of several attacks in one ball what is left by the one that leaves least.
func (s *Suite) Brackets(by *Apart, model, defense string) (all []bracket) {
	add := func(one bracket) {
		i := slices.IndexFunc(all, one.same)
		if i < 0 {
			all = append(all, one)
			return
		}
		b := &all[i]
		b.Proven = max(b.Proven, one.Proven)
		if b.Attacked < 0 || one.Attacked >= 0 && one.Attacked < b.Attacked {
			b.Attacked = one.Attacked
		}
	}
	for _, col := range by.Columns {
		one := bracket{col.Norm, *col.Epsilon, -1, -1}
		if c := by.Cell(model, defense, col); c != nil {
			one.Proven = c.Accuracy
		}
		add(one)
	}
	for _, col := range s.Columns {
		if col.Epsilon == nil {
			continue
		}
		one := bracket{col.Norm, *col.Epsilon, -1, -1}
		c := s.Cell(model, defense, col)
		if !by.Of.Smooths() { // the very classifier that was attacked
			if c != nil && c.Error == "" && slices.ContainsFunc(all, one.same) {
				one.Attacked = c.Accuracy
				add(one)
			}
			continue
		}
		if c != nil {
			for _, of := range c.Smoothed {
				if of.Certificate == by.Attack {
					one.Proven, one.Attacked = float64(of.Proven)/float64(max(c.N, 1)), of.Accuracy
				}
			}
		}
		if one.Attacked >= 0 || slices.ContainsFunc(s.Models, func(m string) bool { return s.polled(by, m, col) }) {
			add(one)
		}
	}
	norms := []string{"l2", "linf", "l1"}
	slices.SortStableFunc(all, func(a, b bracket) int {
		return cmp.Or(slices.Index(norms, a.Norm)-slices.Index(norms, b.Norm), cmp.Compare(a.Epsilon, b.Epsilon))
	})
	return all
}

// polled reports whether the certificate's classifiers were asked about an attack on a model.
func (s *Suite) polled(by *Apart, model string, col words.Column) bool {
	return slices.ContainsFunc(s.Defenses(), func(d string) bool {
		c := s.Cell(model, d, col)
		return c != nil && slices.ContainsFunc(c.Smoothed, func(of result.Smoothed) bool {
			return of.Certificate == by.Attack
		})
	})
}

// Curves are those of a model: a line a defense that has records.
func (by *Apart) Curves(s *Suite, model string) Curves {
	c := Curves{Model: model, Attack: words.Column{Attack: by.Attack, Norm: "l2", Recipe: by.Of.Recipe}}
	for i, d := range s.Defenses() {
		if line := by.curve(model, d); line.Steps != nil {
			line.Index = i
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

// curve is the share of images that are proven at each radius: it holds a value up to a radius and falls behind it.
// Without records there is none.
func (by *Apart) curve(model, defense string) Curve {
	c := Curve{Defense: defense}
	radii := slices.Sorted(slices.Values(by.RadiiOf(model, defense)))
	if len(radii) == 0 {
		return c
	}
	n, end := len(radii), 0.0
	for _, col := range by.Columns {
		if cell := by.Cell(model, defense, col); cell != nil {
			c.Points = append(c.Points, Point{*col.Epsilon, cell.Accuracy})
			end = *col.Epsilon
		}
	}
	for _, r := range slices.Compact(slices.Insert(slices.Clone(radii), 0, 0)) {
		above := n - sort.Search(n, func(i int) bool { return radii[i] > r })
		c.Steps = append(c.Steps, Point{r, float64(above) / float64(n)})
	}
	if last := c.Steps[len(c.Steps)-1]; last.Epsilon < end {
		c.Steps = append(c.Steps, Point{end, last.Accuracy})
	}
	return c
}

// Smoothed are the suite's certificates of smoothed classifiers, which have a figure.
func (s *Suite) Smoothed() []*Apart {
	return slices.DeleteFunc(slices.Clone(s.Certified), func(by *Apart) bool { return !by.Of.Smooths() })
}
