package table

import (
	"fmt"
	"strings"

	"selfheal/harness/result"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// Footnote is a note as it is written; without a mark it is about the whole table.
type Footnote struct{ Mark, Text string }

// Anchor is the end of a mark's id in the page.
func (n Footnote) Anchor() string { return MarkAnchor(n.Mark) }

func MarkAnchor(mark string) string { return strings.ReplaceAll(mark, view.LoopMark, "loop") }

// footnotes writes the notes: id, message and what they concern.
func (s Suite) footnotes() []Footnote {
	const most = 4
	var out []Footnote
	for _, n := range s.Notes {
		where, more := n.Where, ""
		if len(where) > most {
			more = fmt.Sprintf("; and %d more", len(where)-most)
			where = where[:most]
		}
		out = append(out, Footnote{n.Mark, fmt.Sprintf("%s: %s (%s%s)", words.Clean(n.ID), words.Clean(n.Message),
			strings.Join(where, "; "), more)})
	}
	return append(append(out, s.titles()...), s.agreement()...)
}

// agreement says of attacks in another precision than the judge's how they agree with the same in float32.
func (s Suite) agreement() (out []Footnote) {
	var all result.Agreement
	s.Each(func(c *result.Cell, _ words.Column) {
		if c.Agreement != nil {
			all.N, all.Agree = all.N+c.Agreement.N, all.Agree+c.Agreement.Agree
		}
	})
	if all.N > 0 {
		out = append(out, Footnote{"", fmt.Sprintf("attacks' passes ran in less than float32, verdicts are of "+
			"float32; of %d images that stood and were attacked again in float32, %d stood again", all.N, all.Agree)})
	}
	return out
}

// titles say how single attacks were made whose columns' heads don't.
func (s Suite) titles() (out []Footnote) {
	for _, c := range s.Columns {
		if made := s.File.Attacks[c.Attack]; c.AttackTitle != "" && made.Components == nil && c.AttackTitle != c.Short() {
			out = view.Once(out, Footnote{"", c.Name() + ": " + words.Clean(c.AttackTitle)})
		}
	}
	return out
}
