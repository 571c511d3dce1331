package view

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Apart is an attack whose cells are not columns of the suite's tables. Corruptions have a cell for each corruption and
// severity; other tables show their mean. A certificate has a cell for each epsilon; smoothing's cells are for the
// smoothed classifiers.
type Apart struct {
	Attack            string
	Of                result.Attack
	Columns           []words.Column // of its cells; a certificate's in ascending order of epsilon
	Names, Severities []string       // of corruptions
	Normalised        bool           // AlexNet's errors are known
	cells
	radii  map[cellKey][]float64 // from records of smoothing, and proved ones of a bracket: one per image, no epsilon
	broken map[cellKey][]float64 // from a bracket's records, +Inf if nothing breaks the image
}

// setApart removes a cell of a corruption or a certificate from the suite's other cells.
func (s *Suite) setApart(c *result.Cell) bool {
	name, a, ok := result.AttackOf(s.File.Attacks, c.Attack)
	list := &s.Certified
	switch {
	case ok && a.Corruptions():
		list, s.Attacks = &s.Corrupted, lists.Once(s.Attacks, name)
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
	by := &Apart{Attack: name, Of: a, cells: cells{}, radii: map[cellKey][]float64{}, broken: map[cellKey][]float64{}}
	for _, attack := range a.Cells(name) {
		col := words.ColumnOf(attack)
		col.Recipe = a.Recipe
		if parts := strings.Split(attack, ":"); a.Corruptions() {
			by.Names, by.Severities = lists.Once(by.Names, parts[1]), lists.Once(by.Severities, parts[2])
			by.Columns = append(by.Columns, col)
			continue
		}
		for _, e := range slices.Sorted(slices.Values(a.Strengths())) {
			col.Epsilon, col.Norm = cell.Epsilon(e), *a.Norm
			by.Columns = append(by.Columns, col)
		}
		if a.Brackets() {
			col.Norm = *a.Norm
			by.Columns = append(by.Columns, col)
		}
	}
	return by
}

// Apart lists the cells that are not columns: of corruptions, then of certificates.
func (s *Suite) Apart() (out []Compared) {
	for _, by := range slices.Concat(s.Corrupted, s.Certified) {
		for _, of := range s.Lines() {
			for _, col := range by.Columns {
				if c := by.Cell(of.Model, of.Defense, col); c != nil {
					out = append(out, Compared{Model: of.Model, Defense: of.Defense, Column: col, Cell: c,
						Alone: by.Cell(of.Model, cell.None, col)})
				}
			}
		}
	}
	return out
}

// Over lists the cells of some corruptions and severities; nil if one is missing.
func (by *Apart) Over(model, defense string, names, severities []string) (list []*result.Cell) {
	for _, name := range names {
		for _, severity := range severities {
			c := by.Cell(model, defense, words.ColumnOf(by.Attack+":"+name+":"+severity))
			if c == nil {
				return nil
			}
			list = append(list, c)
		}
	}
	return list
}

// Mean returns a cell with the mean accuracy over some corruptions and severities; nil if one is missing. It has no
// interval: its cells use the same images.
func (by *Apart) Mean(model, defense string, names, severities []string) *result.Cell {
	of := by.Over(model, defense, names, severities)
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
			m.Warnings = lists.Once(m.Warnings, w)
		}
	}
	return &m
}

// RadiiOf returns the radii for a model and defense, one per image; nil without records.
func (by *Apart) RadiiOf(model, defense string) []float64 {
	return by.radii[cellKey{model: model, defense: defense}]
}

// bracket bounds the robust accuracy of a classifier in a ball from both sides: by proofs and by attacks.
type bracket struct {
	Norm             string
	Epsilon          cell.Epsilon
	Proven, Attacked float64 // fractions of the images; −1 if unknown
}

// Brackets returns the brackets of a model and defense, at the certificate's epsilons and, for a smoothed classifier,
// at every attack's. If several attacks share a ball, it takes the one that leaves least.
func (by *Apart) Brackets(s *Suite, model, defense string) (all []bracket) {
	find := func(col words.Column) int {
		return slices.IndexFunc(all, func(b bracket) bool { return b.Norm == col.Norm && b.Epsilon == col.Epsilon })
	}
	add := func(col words.Column, proven, attacked float64) {
		i := find(col)
		if i < 0 {
			all = append(all, bracket{col.Norm, col.Epsilon, proven, attacked})
			return
		}
		b := &all[i]
		b.Proven = max(b.Proven, proven)
		if b.Attacked < 0 || attacked >= 0 && attacked < b.Attacked {
			b.Attacked = attacked
		}
	}
	for _, col := range by.Columns {
		proven, c := -1.0, by.Cell(model, defense, col)
		if c != nil {
			proven = c.Accuracy
		}
		if !by.Of.Brackets() {
			add(col, proven, -1)
			continue
		}
		for _, e := range slices.Sorted(slices.Values(by.Of.Epsilons)) {
			of := result.Bracket{}
			if c != nil {
				of = *cmp.Or(lists.Find(c.Brackets, func(b result.Bracket) bool { return b.Epsilon == e }), &of)
			}
			n := float64(max(s.N, 1))
			add(words.Column{Column: cell.Column{Epsilon: cell.Epsilon(e)}, Norm: col.Norm}, float64(of.Proven)/n,
				float64(of.Left)/n)
		}
	}
	for _, col := range s.Columns {
		c := s.Cell(model, defense, col)
		switch {
		case col.Epsilon == 0:
		case by.Of.Smooths():
			if of := by.smoothed(c); of != nil {
				add(col, float64(of.Proven)/float64(max(c.N, 1)), of.Accuracy)
			} else if slices.ContainsFunc(s.Lines(), func(of Series) bool { // other networks were attacked
				return by.smoothed(s.Cell(of.Model, of.Defense, col)) != nil
			}) {
				add(col, -1, -1)
			}
		case c != nil && find(col) >= 0: // this very classifier was attacked
			add(col, -1, c.Accuracy)
		}
	}
	norms := []string{"l2", "linf", "l1", "l0"}
	slices.SortStableFunc(all, func(a, b bracket) int {
		return cmp.Or(slices.Index(norms, a.Norm)-slices.Index(norms, b.Norm), cmp.Compare(a.Epsilon, b.Epsilon))
	})
	return all
}

// smoothed returns the answers of the certificate's classifier on a cell's images; nil if it was not asked.
func (by *Apart) smoothed(c *result.Cell) *result.Smoothed {
	if c == nil {
		return nil
	}
	return lists.Find(c.Smoothed, func(of result.Smoothed) bool { return of.Certificate == by.Attack })
}

// Curves returns a model's curves: a line for each defense that has records.
func (by *Apart) Curves(s *Suite, model string) Curves {
	c := Curves{Model: model, Attack: words.ColumnOf(by.Attack)}
	c.Attack.Norm, c.Attack.Recipe = "l2", by.Of.Recipe
	for i, d := range s.Defenses() {
		if line := by.curve(model, d); line.Steps != nil {
			line.Index = i
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

// bracketLine is a bracket's result for a defense, with a step at each radius to which an image is proved or at which
// it is broken.
type bracketLine struct {
	Defense      string
	Index        int     // index in series
	Proven, Left []Point // fractions of the images, at the same radii
}

// Bracketed returns a bracket's lines for a model, one for each defense that has records.
func (by *Apart) Bracketed(s *Suite, model string) (lines []bracketLine) {
	for i, d := range s.Defenses() {
		key := cellKey{model: model, defense: d}
		proven, broken := by.radii[key], by.broken[key]
		line := bracketLine{Defense: d, Index: i}
		at := []float64{0}
		for _, r := range slices.Concat(proven, broken) {
			if !math.IsInf(r, 1) {
				at = lists.Once(at, r)
			}
		}
		slices.Sort(at)
		share := func(of []float64, holds func(r float64) bool) float64 {
			return float64(lists.Count(of, holds)) / float64(len(of))
		}
		for _, r := range at {
			line.Proven = append(line.Proven, Point{r, share(proven, func(p float64) bool { return p > r })})
			line.Left = append(line.Left, Point{r, share(broken, func(b float64) bool { return b > r })})
		}
		if len(proven) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// curve returns the fraction of images that are proved at each radius; it is empty without records.
func (by *Apart) curve(model, defense string) Curve {
	c := Curve{Defense: defense}
	radii := slices.Sorted(slices.Values(by.RadiiOf(model, defense)))
	if len(radii) == 0 {
		return c
	}
	n, end := len(radii), 0.0
	for _, col := range by.Columns {
		if cell := by.Cell(model, defense, col); cell != nil {
			c.Points = append(c.Points, Point{float64(col.Epsilon), cell.Accuracy})
			end = float64(col.Epsilon)
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

// Smoothed returns the suite's certificates of smoothed classifiers, which have a figure.
func (s *Suite) Smoothed() []*Apart {
	return lists.Only(s.Certified, func(by *Apart) bool { return by.Of.Smooths() })
}
