package table

import (
	"fmt"
	"slices"

	"selfheal/harness/compare"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// matrixEntries is how many entries a matrix has room for.
const matrixEntries = 24

// MatrixTable has the difference of any two entries under attack; none where there are too many.
func (g Group) MatrixTable() Table {
	t := Table{Lead: 1, Caption: "Line less column, in points, " + g.under() +
		", on shared images; bold where significant", Head: []string{"Model · control"}}
	if n := len(g.Entries); n < 2 || n > matrixEntries {
		return t
	}
	at := map[[2]int]compare.Pair{}
	for _, p := range g.Pairs {
		at[[2]int{p.A, p.B}] = p
	}
	for i := range g.Entries {
		t.Head = append(t.Head, view.EntryKey(i))
		line := []Box{text(view.EntryKey(i) + "  " + view.EntryName(g.Entries[i]))}
		for k := range g.Entries {
			p, sign := at[[2]int{i, k}], 1.0
			if k < i {
				p, sign = at[[2]int{k, i}], -1
			}
			switch {
			case i == k:
				line = append(line, text(""))
			case p.Robust == nil:
				line = append(line, Box{Bar: -1, Spans: []Span{{Text: "n/c", Small: true}}})
			default:
				line = append(line, bold(words.Points(sign*p.Robust.Difference, 1), p.Robust.Significant))
			}
		}
		t.Rows = append(t.Rows, line)
	}
	t.note("", "%s", testNote(g.Tested, "pair"))
	why := map[string]int{}
	for _, p := range g.Pairs {
		why[p.Why]++
	}
	for _, w := range []string{"no image in common", "no attack in common"} {
		if why[w] > 0 {
			t.note("", "n/c: not comparable, %s (%s).", w, words.Plural(why[w], "pair"))
		}
	}
	return t
}

// testNote says how differences are tested.
func testNote(n int, what string) string {
	return fmt.Sprintf("Exact McNemar tests, two-sided, on the images that both have; p corrected for %s (Holm), "+
		"significant at %v.", words.Plural(n, what), compare.Alpha)
}

// testHead heads the columns of [tested].
var testHead = []string{"Shared images", "Only A", "Only B", "A − B (points)", "95 % interval", "p", "p (Holm)"}

func tested(t *compare.Test) []Box {
	return boxes(t.Shared, t.OnlyA, t.OnlyB, bold(words.Points(t.Difference, 1), t.Significant),
		fmt.Sprintf("[%s,"+words.Nbsp+"%s]", words.Points(t.Interval[0], 1), words.Points(t.Interval[1], 1)),
		pValue(t.P), pValue(t.Holm))
}

// under says on what pairs are tested.
func (g Group) under() string {
	if by := g.RankedBy; len(by) == 1 && g.Columns[by[0]].Attack == "none" {
		return "without an attack"
	}
	return "under attack"
}

// mostPairs is how many pairs a table has room for.
const mostPairs = 1000

// PairTable has a line a pair.
func (g Group) PairTable() Table {
	t := Table{Lead: 2, Caption: "Every pair, " + g.under(),
		Head: slices.Concat([]string{"A", "B"}, testHead, []string{"Clean, A − B"})}
	corrupted := slices.ContainsFunc(g.Pairs, func(p compare.Pair) bool { return p.Corrupted != nil })
	if corrupted {
		t.Head = append(t.Head, "Corrupted, A − B")
	}
	for _, p := range g.Pairs {
		if len(g.Pairs) > mostPairs && p.B != p.A+1 {
			continue
		}
		line := boxes(g.Labels[p.A], g.Labels[p.B])
		if p.Robust == nil {
			line = append(line, boxes("0", words.Dash, words.Dash, words.Dash, p.Why, words.Dash, words.Dash)...)
		} else {
			line = append(line, tested(p.Robust)...)
		}
		clean, sign := text(words.Dash), text(words.Dash)
		if p.Clean != nil {
			clean = bold(words.Points(p.Clean.Difference, 1), p.Clean.Significant)
		}
		if p.Corrupted != nil {
			sign = bold(words.Points(p.Corrupted.Difference, 1), p.Corrupted.Significant)
		}
		t.Rows = append(t.Rows, append(line, clean, sign)[:len(t.Head)])
	}
	if corrupted {
		t.note("", "Corrupted: mean accuracy over the corruptions that both have; an exact sign test on which of the "+
			"two is right on an image under more of them.")
	}
	t.note("", "%s", testNote(g.Tested, "pair"))
	t.note("", "Only A: images that A alone is right on. Bold differences are significant. Pairs of which one has no "+
		"rank are tested under the attacks that both have.")
	return t.marked()
}
