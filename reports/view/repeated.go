package view

import (
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/reports/words"
)

// Pair is a pair of accuracies that the paper prints, and what was run for it.
type Pair struct {
	Paper  published.Cell
	Ours   [2]*result.Cell // of the sides of the paper's table; nil if not run
	Column words.Column    // of ours
	Other  string          // the network that stands in for the paper's; "" if ours has its architecture
}

// pairs returns every pair of a paper's table, beside the cells of runs whose suites have these published numbers. The
// run of most images counts, and the first of equal ones. A network that no pair of a suite names stands in where the
// paper's was not run.
func pairs(t published.Table, runs []*Report) []Pair {
	out := make([]Pair, len(t.Cells))
	for i, of := range t.Cells {
		out[i].Paper = of
		for _, run := range runs {
			for _, s := range run.Suites {
				out[i].take(t.Name, s)
			}
		}
	}
	return out
}

// take takes a suite's cells for the pair of a table if they are better than what it has.
func (p *Pair) take(table string, s *Suite) {
	if s.Published == nil || s.OtherAttacker() {
		return
	}
	source, _ := published.Lookup(s.Published.Source)
	at := slices.Index(source.Cells, p.Paper) // the source has two numbers for each pair, in the table's order
	if at < 0 || !strings.HasPrefix(table, source.Name) || len(s.Published.Cells) != 2*len(source.Cells) {
		return
	}
	named := func(m string) bool {
		return slices.ContainsFunc(s.Published.Cells, func(c result.PublishedCell) bool { return c.Model == m })
	}
	for _, model := range s.Models {
		own := model == s.Published.Cells[2*at].Model
		if !own && named(model) {
			continue
		}
		one := Pair{Paper: p.Paper, Other: words.If(!own, model)}
		for side := range one.Ours {
			number := s.Published.Cells[2*at+side]
			k := slices.IndexFunc(s.Columns, func(c words.Column) bool { return c.Column == number.Column })
			if k < 0 {
				return
			}
			one.Column = s.Columns[k]
			one.Ours[side] = s.Cell(model, number.Defense, one.Column)
		}
		if one.rank() > p.rank() {
			*p = one
		}
	}
}

// rank is higher for what was run with the paper's architecture, and then for more images.
func (p *Pair) rank() int {
	if p.Ours[0] == nil || p.Ours[1] == nil {
		return -1
	}
	return p.Ours[1].N + map[bool]int{true: 1 << 30}[p.Other == ""]
}
