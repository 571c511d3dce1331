package reports

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/number"
)

// loopID is the warning about a defense that solves an optimisation problem at
// inference, which RobustBench's rules ask to be told apart. It concerns every number
// of the defense, so its mark stands at the head of the row instead of in each cell.
const (
	loopID   = "optimisation-loop"
	loopMark = "†"
)

// note is a footnote: a warning, and the cells or rows it was raised in.
type note struct {
	result.Warning
	Mark  string // "1", "2", …; loopMark with a number behind it where there are several
	Where []string
}

// footnote is a note as it is written; without a mark it is about the whole table.
type footnote struct{ Mark, Text string }

// Anchor is the end of a mark's id in the page.
func (n footnote) Anchor() string { return markAnchor(n.Mark) }

func markAnchor(mark string) string { return strings.ReplaceAll(mark, loopMark, "loop") }

// looped reports whether a cell is of a defense that is an optimisation loop.
func looped(c *result.Cell) bool {
	return c != nil && slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return w.ID == loopID })
}

// collectNotes numbers the warnings of the suite's cells: in the order of the cells,
// those about optimisation loops last.
func (s *suite) collectNotes() {
	var loops []note
	find := func(list *[]note, w result.Warning) *note {
		i := slices.IndexFunc(*list, func(n note) bool { return n.Warning == w })
		if i < 0 {
			i = len(*list)
			*list = append(*list, note{Warning: w})
		}
		return &(*list)[i]
	}
	s.each(func(c *result.Cell, col column) {
		for _, w := range c.Warnings {
			list, where := &s.Notes, fmt.Sprintf("%s, %s, %s", clean(c.Model), defenseName(c.Defense), col.Title())
			if w.ID == loopID {
				list, where = &loops, fmt.Sprintf("%s, %s", clean(c.Model), defenseName(c.Defense))
			}
			n := find(list, w)
			n.Where = once(n.Where, where)
		}
	})
	for _, c := range s.failed {
		where := fmt.Sprintf("%s, %s, %s", clean(c.Model), defenseName(c.Defense), clean(c.Attack))
		if c.Epsilon != nil {
			where += " (" + number.Format(*c.Epsilon) + ")"
		}
		n := find(&s.Notes, result.Warning{ID: "error", Message: clean(c.Error)})
		n.Where = append(n.Where, where)
	}
	for i := range s.Notes {
		s.Notes[i].Mark = fmt.Sprint(i + 1)
	}
	for i := range loops {
		loops[i].Mark = loopMark
		if len(loops) > 1 {
			loops[i].Mark += fmt.Sprint(i + 1)
		}
	}
	s.Notes = append(s.Notes, loops...)
}

// Marks returns the marks of the footnotes of a cell, "1,3" or "", but for those at the
// head of its row.
func (s *suite) Marks(c *result.Cell) string {
	return s.marks(func(n note) bool { return n.ID != loopID && c != nil && slices.Contains(c.Warnings, n.Warning) })
}

// RowMarks returns the marks at the head of a row: of a model under a defense.
func (s *suite) RowMarks(model, defense string) string {
	return s.marks(func(n note) bool {
		return n.ID == loopID && slices.ContainsFunc(s.Columns, func(col column) bool {
			c := s.Cell(model, defense, col)
			return c != nil && slices.Contains(c.Warnings, n.Warning)
		})
	})
}

func (s *suite) marks(of func(n note) bool) string {
	var marks []string
	for _, n := range s.Notes {
		if of(n) {
			marks = append(marks, n.Mark)
		}
	}
	return strings.Join(marks, ",")
}

// Looped reports whether a defense of the suite is an optimisation loop.
func (s *suite) Looped(defense string) bool {
	return slices.ContainsFunc(s.Models, func(m string) bool { return s.RowMarks(m, defense) != "" })
}

// footnotes writes the notes: id, message and what they concern.
func (s *suite) footnotes() []footnote {
	const most = 4
	var out []footnote
	for _, n := range s.Notes {
		where, more := n.Where, ""
		if len(where) > most {
			more = fmt.Sprintf("; and %d more", len(where)-most)
			where = where[:most]
		}
		out = append(out, footnote{n.Mark, fmt.Sprintf("%s: %s (%s%s)", clean(n.ID), clean(n.Message),
			strings.Join(where, "; "), more)})
	}
	return append(out, s.titles()...)
}

// titles say how single attacks were made whose columns' heads don't.
func (s *suite) titles() (out []footnote) {
	for _, c := range s.Columns {
		if made := s.attacks[c.Attack]; c.title != "" && made.Components == nil && c.title != c.Short() {
			out = once(out, footnote{"", c.Name() + ": " + clean(c.title)})
		}
	}
	return out
}
