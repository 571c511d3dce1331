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

// collectNotes numbers the warnings of the suite's cells: in the order of the cells,
// those about optimisation loops last.
func (s *suite) collectNotes() {
	raise := func(w result.Warning, where ...string) {
		i := slices.IndexFunc(s.Notes, func(n note) bool { return n.Warning == w })
		if i < 0 {
			i, s.Notes = len(s.Notes), append(s.Notes, note{Warning: w})
		}
		s.Notes[i].Where = once(s.Notes[i].Where, strings.Join(where, ", "))
	}
	s.each(func(c *result.Cell, col column) {
		for _, w := range c.Warnings {
			where := []string{clean(c.Model), defenseName(c.Defense), col.Title()}
			if w.ID == loopID {
				where = where[:2]
			}
			raise(w, where...)
		}
	})
	for _, c := range s.failed {
		attack := clean(c.Attack)
		if c.Epsilon != nil {
			attack += " (" + number.Format(*c.Epsilon) + ")"
		}
		raise(result.Warning{ID: "error", Message: clean(c.Error)}, clean(c.Model), defenseName(c.Defense), attack)
	}
	loops := slices.DeleteFunc(slices.Clone(s.Notes), func(n note) bool { return n.ID != loopID })
	s.Notes = slices.DeleteFunc(s.Notes, func(n note) bool { return n.ID == loopID })
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
	return append(append(out, s.titles()...), s.agreement()...)
}

// agreement says of attacks in another precision than the judge's how they agree with the same in float32.
func (s *suite) agreement() (out []footnote) {
	var all result.Agreement
	s.each(func(c *result.Cell, _ column) {
		if c.Agreement != nil {
			all.N, all.Agree = all.N+c.Agreement.N, all.Agree+c.Agreement.Agree
		}
	})
	if all.N > 0 {
		out = append(out, footnote{"", fmt.Sprintf("attacks' passes ran in less than float32, verdicts are of "+
			"float32; of %d images that stood and were attacked again in float32, %d stood again", all.N, all.Agree)})
	}
	return out
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
