package reports

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/compare"
)

// matrixEntries is how many entries a matrix has room for.
const matrixEntries = 24

// MatrixTable has the difference of any two entries under attack; none where there are too many.
func (g *group) MatrixTable() table {
	t := table{Lead: 1, Caption: "Line less column, in points, " + g.under() +
		", on shared images; bold where significant", Head: []string{"Model · control"}}
	if n := len(g.Entries); n < 2 || n > matrixEntries {
		return t
	}
	at := map[[2]int]compare.Pair{}
	for _, p := range g.Pairs {
		at[[2]int{p.A, p.B}] = p
	}
	for i := range g.Entries {
		t.Head = append(t.Head, key(i))
		line := []box{text(key(i) + "  " + name(g.Entries[i]))}
		for k := range g.Entries {
			p, sign := at[[2]int{i, k}], 1.0
			if k < i {
				p, sign = at[[2]int{k, i}], -1
			}
			switch {
			case i == k:
				line = append(line, text(""))
			case p.Robust == nil:
				line = append(line, box{Bar: -1, Spans: []span{{Text: "n/c", Small: true}}})
			default:
				line = append(line, difference(sign*p.Robust.Difference, p.Robust.Chance))
			}
		}
		t.Rows = append(t.Rows, line)
	}
	t.note("", "%s", testNote(g.Tested, "pair"))
	for _, why := range []string{"no image in common", "no attack in common"} {
		if n := countOf(g.Pairs, func(p compare.Pair) bool { return p.Why == why }); n > 0 {
			t.note("", "n/c: not comparable, %s (%s).", why, plural(n, "pair"))
		}
	}
	return t
}

// testNote says how differences are tested.
func testNote(n int, what string) string {
	return fmt.Sprintf("Exact McNemar tests, two-sided, on the images that both have; p corrected for %s (Holm), "+
		"significant at %v.", plural(n, what), compare.Alpha)
}

// tenths is a difference in percentage points.
func tenths(share float64) string {
	s := fmt.Sprintf("%+.1f", 100*share)
	if s == "-0.0" || s == "+0.0" {
		return "0.0"
	}
	return strings.Replace(s, "-", "−", 1)
}

// testHead heads the columns of [tested].
var testHead = []string{"Shared images", "Only A", "Only B", "A − B (points)", "95 % interval", "p", "p (Holm)"}

// difference is one in points, bold where it is significant.
func difference(share float64, c compare.Chance) box {
	return box{Bar: -1, Spans: []span{{Text: tenths(share), Bold: c.Significant}}}
}

func tested(t *compare.Test) []box {
	return boxes(thousands(t.Shared), thousands(t.OnlyA), thousands(t.OnlyB), difference(t.Difference, t.Chance),
		fmt.Sprintf("[%s,"+nbsp+"%s]", tenths(t.Interval[0]), tenths(t.Interval[1])), pValue(t.P), pValue(t.Holm))
}

// under says on what pairs are tested.
func (g *group) under() string {
	if by := g.Group.RankedBy; len(by) == 1 && g.Columns[by[0]].Attack == "none" {
		return "without an attack"
	}
	return "under attack"
}

// mostPairs is how many pairs a table has room for.
const mostPairs = 1000

// PairTable has a line a pair.
func (g *group) PairTable() table {
	t := table{Lead: 2, Caption: "Every pair, " + g.under(),
		Head: slices.Concat([]string{"A", "B"}, testHead, []string{"Clean, A − B"})}
	corrupted := slices.ContainsFunc(g.Pairs, func(p compare.Pair) bool { return p.Corrupted != nil })
	if corrupted {
		t.Head = append(t.Head, "Corrupted, A − B")
	}
	for _, p := range g.Pairs {
		if len(g.Pairs) > mostPairs && p.B != p.A+1 {
			continue
		}
		line := boxes(g.labels[p.A], g.labels[p.B])
		if p.Robust == nil {
			line = append(line, boxes("0", dash, dash, dash, p.Why, dash, dash)...)
		} else {
			line = append(line, tested(p.Robust)...)
		}
		clean, sign := text(dash), text(dash)
		if p.Clean != nil {
			clean = difference(p.Clean.Difference, p.Clean.Chance)
		}
		if p.Corrupted != nil {
			sign = difference(p.Corrupted.Difference, p.Corrupted.Chance)
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
