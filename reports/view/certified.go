package view

import (
	"cmp"
	"slices"
	"sort"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

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
func (s *Suite) Smoothed() (list []*Apart) {
	for _, by := range s.Certified {
		if by.Of.Smooths() {
			list = append(list, by)
		}
	}
	return list
}
