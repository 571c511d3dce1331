package view

import (
	"cmp"
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Certificate is what a suite has of a certificate: a cell for each epsilon, which have a table of their own. Those of
// smoothing are of other classifiers, the smoothed ones, than all other cells, and have a figure too.
type Certificate struct {
	Attack  string
	Of      result.Attack
	cells   map[cellKey]*result.Cell
	Columns []words.Column        // of its epsilons, ascending
	radii   map[cellKey][]float64 // of the records, one an image: without an epsilon
}

// certificate takes a cell of a certificate out of the suite's others.
func (s *Suite) certificate(c *result.Cell) bool {
	a, ok := s.File.Attacks[c.Attack]
	if !ok || !a.Proves() {
		return false
	}
	i := slices.IndexFunc(s.Certified, func(by *Certificate) bool { return by.Attack == c.Attack })
	if i < 0 {
		by := &Certificate{Attack: c.Attack, Of: a, cells: map[cellKey]*result.Cell{}, radii: map[cellKey][]float64{}}
		for _, e := range slices.Sorted(slices.Values(a.Epsilons)) {
			by.Columns = append(by.Columns, words.Column{Attack: c.Attack, Epsilon: new(e), Norm: *a.Norm, Recipe: a.Recipe})
		}
		i, s.Certified = len(s.Certified), append(s.Certified, by)
	}
	if c.Error == "" {
		s.Certified[i].cells[keyOf(c)] = c
	}
	return true
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

// Cell is that of a radius, or nil.
func (by *Certificate) Cell(model, defense string, col words.Column) *result.Cell {
	return by.cells[cellKey{model, defense, by.Attack, *col.Epsilon}]
}

// RadiiOf are those of a model and defense, one an image; nil without records.
func (by *Certificate) RadiiOf(model, defense string) []float64 {
	return by.radii[cellKey{model: model, defense: defense}]
}

// EachCertified lists the cells of certificates, which are no columns.
func (s *Suite) EachCertified() (out []Compared) {
	for _, by := range s.Certified {
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
func (s *Suite) Brackets(by *Certificate, model, defense string) (all []bracket) {
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
func (s *Suite) polled(by *Certificate, model string, col words.Column) bool {
	return slices.ContainsFunc(s.Defenses(), func(d string) bool {
		c := s.Cell(model, d, col)
		return c != nil && slices.ContainsFunc(c.Smoothed, func(of result.Smoothed) bool {
			return of.Certificate == by.Attack
		})
	})
}

// Curves are those of a model: a line a defense that has records.
func (by *Certificate) Curves(s *Suite, model string) Curves {
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
func (by *Certificate) curve(model, defense string) Curve {
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
	end = max(end, radii[n-1])
	c.Steps = append(c.Steps, Point{0, share(radii, 0)})
	for i, r := range radii {
		if r > 0 && (i == n-1 || radii[i+1] > r) {
			c.Steps = append(c.Steps, Point{r, float64(n-1-i) / float64(n)})
		}
	}
	if last := c.Steps[len(c.Steps)-1]; last.Epsilon < end {
		c.Steps = append(c.Steps, Point{end, last.Accuracy})
	}
	return c
}

// share is that of the radii above r.
func share(radii []float64, r float64) float64 {
	above := 0
	for _, v := range radii {
		if v > r {
			above++
		}
	}
	return float64(above) / float64(len(radii))
}

// Smoothed are the suite's certificates of smoothed classifiers, which have a figure.
func (s *Suite) Smoothed() (list []*Certificate) {
	for _, by := range s.Certified {
		if by.Of.Smooths() {
			list = append(list, by)
		}
	}
	return list
}
