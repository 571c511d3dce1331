package table

import (
	"slices"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/reports/words"
)

// pairRow is one test of a pair of networks.
type pairRow struct {
	stats.Paired
	lead        []Box
	of          [2]string // accuracies
	p, adjusted float64
}

// PairTable compares the networks of the suite's pairs on the same images under the same attack: the effect of
// quantising, pruning or another training. In mode transfer there is a row for each network of the pair that made the
// images.
func (s Suite) PairTable() Table {
	t := s.table("Pairs of networks: verdicts on the same images"+s.OfFirstSeed(), 3, "Pair", controlHead, "Attack",
		"Images", "First (%)", "Second (%)", "Second less first", "Right alone: first", "second", "p", "p, adjusted")
	var rows []*pairRow
	var family stats.Family
	for _, pair := range s.Pairs {
		for _, defense := range append([]string{cell.None}, s.Controls...) {
			for _, col := range s.Columns {
				a, b := s.Cell(pair[0], defense, col), s.Cell(pair[1], defense, col)
				if a == nil || b == nil || !Matched(a, b) || len(a.Verdicts) == 0 ||
					col.Source != "" && !slices.Contains(pair, col.Source) {
					continue
				}
				p := stats.NewPaired(a.Verdicts, b.Verdicts)
				row := &pairRow{Paired: p, p: p.McNemar(),
					lead: boxes(pair[0]+" / "+pair[1], words.DefenseName(defense), col.Title()),
					of:   [2]string{words.Accuracy(a), words.Accuracy(b)}}
				family.Add(row.p, func(corrected float64) { row.adjusted = corrected })
				rows = append(rows, row)
			}
		}
	}
	family.Holm()
	for _, r := range rows {
		points := func(share float64) string { return words.Points(share, 1) }
		drop := r.Agreeing(r.adjusted, level)
		t.add(r.lead, r.N, r.of[0], r.of[1],
			points(0-r.Drop())+" "+words.Range(points(0-drop[1]), points(0-drop[0])), r.Lost, r.Won, pValue(r.p),
			bold(pValue(r.adjusted), r.adjusted <= level))
	}
	t.note("", "In points, with the score interval of a paired difference at the level of the test's step in Holm's "+
		"correction, which leaves out 0 where the adjusted p is at most %g. Each network is attacked itself%s. "+
		"p: McNemar's exact test, two-sided; adjusted for the %s of this table (Holm), in bold up to %g.",
		level, map[bool]string{true: " or given the other's images, as the attack says"}[s.Mode == result.Transfer],
		words.Plural(len(rows), "test"), level)
	return t.marked()
}
