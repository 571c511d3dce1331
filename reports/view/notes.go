package view

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/number"
	"selfheal/reports/words"
)

// LoopID is the warning about a defense that solves an optimisation problem at
// inference, which RobustBench's rules ask to be told apart. It concerns every number
// of the defense, so its mark stands at the head of the row instead of in each cell.
const (
	LoopID   = "optimisation-loop"
	LoopMark = "†"
)

// note is a footnote: a warning, and the cells or rows it was raised in.
type note struct {
	result.Warning
	Mark  string // "1", "2", …; loopMark with a number behind it where there are several
	Where []string
}

// collectNotes numbers the warnings of the suite's cells: in the order of the cells,
// those about optimisation loops last.
func (s *Suite) collectNotes() {
	raise := func(w result.Warning, where ...string) {
		i := slices.IndexFunc(s.Notes, func(n note) bool { return n.Warning == w })
		if i < 0 {
			i, s.Notes = len(s.Notes), append(s.Notes, note{Warning: w})
		}
		s.Notes[i].Where = Once(s.Notes[i].Where, strings.Join(where, ", "))
	}
	s.Each(func(c *result.Cell, col words.Column) {
		for _, w := range c.Warnings {
			where := []string{words.Clean(c.Model), words.DefenseName(c.Defense), col.Title()}
			if w.ID == LoopID {
				where = where[:2]
			}
			raise(w, where...)
		}
	})
	for _, c := range s.failed {
		attack := words.Clean(c.Attack)
		if c.Epsilon != nil {
			attack += " (" + number.Format(*c.Epsilon) + ")"
		}
		raise(result.Warning{ID: "error", Message: words.Clean(c.Error)}, words.Clean(c.Model), words.DefenseName(c.Defense), attack)
	}
	loops := slices.DeleteFunc(slices.Clone(s.Notes), func(n note) bool { return n.ID != LoopID })
	s.Notes = slices.DeleteFunc(s.Notes, func(n note) bool { return n.ID == LoopID })
	for i := range s.Notes {
		s.Notes[i].Mark = fmt.Sprint(i + 1)
	}
	for i := range loops {
		loops[i].Mark = LoopMark
		if len(loops) > 1 {
			loops[i].Mark += fmt.Sprint(i + 1)
		}
	}
	s.Notes = append(s.Notes, loops...)
}

// Marks returns the marks of the footnotes of a cell, "1,3" or "", but for those at the
// head of its row.
func (s *Suite) Marks(c *result.Cell) string {
	return s.marks(func(n note) bool { return n.ID != LoopID && c != nil && slices.Contains(c.Warnings, n.Warning) })
}

// RowMarks returns the marks at the head of a row: of a model under a defense.
func (s *Suite) RowMarks(model, defense string) string {
	return s.marks(func(n note) bool {
		return n.ID == LoopID && slices.ContainsFunc(s.Columns, func(col words.Column) bool {
			c := s.Cell(model, defense, col)
			return c != nil && slices.Contains(c.Warnings, n.Warning)
		})
	})
}

func (s *Suite) marks(of func(n note) bool) string {
	var marks []string
	for _, n := range s.Notes {
		if of(n) {
			marks = append(marks, n.Mark)
		}
	}
	return strings.Join(marks, ",")
}

// Looped reports whether a defense of the suite is an optimisation loop.
func (s *Suite) Looped(defense string) bool {
	return slices.ContainsFunc(s.Models, func(m string) bool { return s.RowMarks(m, defense) != "" })
}
