package reports

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/compare"
	"selfheal/harness/result"
)

// of writes a score, with its interval where asked.
func scoreText(s *compare.Score) string {
	if s == nil {
		return dash
	}
	return percent(s.Accuracy, s.N)
}

func scoreInterval(s *compare.Score) string {
	if s == nil {
		return dash
	}
	return fmt.Sprintf("[%s,"+nbsp+"%s]", percent(s.CI95[0], s.N), percent(s.CI95[1], s.N))
}

// under is what an entry has under a heading: of several columns the mean, where it has all.
func (h head) under(e compare.Entry) box {
	mean, n := 0.0, 0
	for _, c := range h.columns {
		cell := e.Cells[c]
		if cell.Score == nil {
			return box{Bar: -1, Spans: []span{{Text: cell.Missing, Small: true}}}
		}
		mean, n = mean+cell.Score.Accuracy, cell.Score.N
	}
	return text(percent(mean/float64(len(h.columns)), n))
}

// RankTable has a line an entry.
func (g *group) RankTable() table {
	of := func(value func(compare.Entry) string) bool { return len(distinct(g.Entries, value)) > 1 }
	attackers := of(func(e compare.Entry) string { return e.Attacker })
	sizes := of(func(e compare.Entry) string { return fmt.Sprint(e.N) })
	t := table{Anchor: "rank-" + g.Slug, Caption: "Accuracy in %, ranked", Head: []string{"Model · control"}, Lead: 1}
	if !attackers {
		t.Caption += "; attacker: " + clean(g.Entries[0].Attacker)
	}
	t.lead("Run", g.runs > 1)
	t.lead("Attacker", attackers)
	t.Head = append(t.Head, "Rank", "Ranks left open")
	if sizes {
		t.Head = append(t.Head, "Images")
	}
	worst := len(g.Group.RankedBy) > 1
	if worst {
		t.Head = append(t.Head, "Worst")
	}
	t.Head = append(t.Head, "95 % interval")
	for _, h := range g.heads {
		t.Head = append(t.Head, h.Title)
	}
	for i, e := range g.Entries {
		who := box{Bar: -1, Spans: []span{{Text: key(i), Bold: true}, {Text: "  " + name(e)}}}
		line := []box{who}
		if g.runs > 1 {
			line = append(line, text(clean(e.Run)))
		}
		if attackers {
			b := text(e.Attacker)
			if e.Attacker == result.Oblivious {
				b.Spans[0].Mark = "1"
			}
			line = append(line, b)
		}
		line = append(line, text(g.rankText(e)), text(open(e)))
		if sizes {
			line = append(line, text(thousands(e.N)))
		}
		if worst {
			b := text(scoreText(e.Worst))
			if e.Worst != nil {
				b.Bar, b.Spans[0].Bold = e.Worst.Accuracy, true
			}
			line = append(line, b)
		}
		line = append(line, text(scoreInterval(e.Worst)))
		for _, h := range g.heads {
			line = append(line, h.under(e))
		}
		t.Rows = append(t.Rows, line)
	}
	t.note("", "Ranks left open: those that the tests below do not exclude; = marks equals.")
	if sizes {
		t.note("", "Accuracies are over each entry's own images; the tests are over shared ones.")
	}
	if slices.ContainsFunc(g.Entries, func(e compare.Entry) bool { return e.Attacker == result.Oblivious }) {
		t.note(
			"1",
			"An oblivious attacker does not know the control: such a number says how well control repairs, and is "+
				"no bound for one who does.",
		)
	}
	for i, c := range g.Columns {
		if len(c.Seeds) > 1 {
			t.note("", "%s was made from several seeds: %s.", g.attack(i), strings.Trim(fmt.Sprint(c.Seeds), "[]"))
		}
	}
	return t
}

// rankText is an entry's rank, 2= where another has the same.
func (g *group) rankText(e compare.Entry) string {
	if e.Rank == 0 {
		return dash
	}
	n := 0
	for _, o := range g.Entries {
		if o.Rank == e.Rank {
			n++
		}
	}
	return fmt.Sprint(e.Rank) + strings.Repeat("=", min(n-1, 1))
}

// open is the range of ranks that the tests leave open.
func open(e compare.Entry) string {
	switch {
	case e.Rank == 0:
		return dash
	case e.Open[0] == e.Open[1]:
		return fmt.Sprint(e.Open[0])
	}
	return fmt.Sprintf("%d–%d", e.Open[0], e.Open[1])
}

// matrixEntries is how many entries a matrix has room for.
const matrixEntries = 24

// MatrixTable has the difference of any two entries under attack; none where there are too many.
func (g *group) MatrixTable() table {
	t := table{Lead: 1, Caption: "Line less column, in points, on shared images under attack; bold where significant",
		Head: []string{"Model · control"}}
	if n := len(g.Entries); n < 2 || n > matrixEntries {
		return t
	}
	at := map[[2]int]compare.Pair{}
	for _, p := range g.Pairs {
		at[[2]int{p.A, p.B}] = p
	}
	for i := range g.Entries {
		t.Head = append(t.Head, key(i))
		line := []box{text(g.label(i))}
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
				b := text(tenths(sign * p.Robust.Difference))
				b.Spans[0].Bold = p.Robust.Significant
				line = append(line, b)
			}
		}
		t.Rows = append(t.Rows, line)
	}
	t.note("", "%s", testNote(len(g.Pairs), "pair"))
	why := map[string]int{}
	for _, p := range g.Pairs {
		why[p.Why]++
	}
	for _, w := range []string{"no image in common", "no attack in common"} {
		if why[w] > 0 {
			t.note("", "n/c: not comparable, %s (%s).", w, plural(why[w], "pair"))
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

// probability writes a p-value.
func probability(p float64) string {
	switch {
	case p < 1e-4:
		return "<0.0001"
	case p < 0.01:
		return fmt.Sprintf("%.4f", p)
	}
	return fmt.Sprintf("%.2f", p)
}

// testHead heads the columns of [tested].
var testHead = []string{"Shared images", "Only A", "Only B", "A − B (points)", "95 % interval", "p", "p (Holm)"}

func tested(t *compare.Test) []box {
	diff := text(tenths(t.Difference))
	diff.Spans[0].Bold = t.Significant
	return boxes(thousands(t.Shared), thousands(t.OnlyA), thousands(t.OnlyB), diff,
		fmt.Sprintf("[%s,"+nbsp+"%s]", tenths(t.Interval[0]), tenths(t.Interval[1])), probability(t.P),
		probability(t.Holm))
}

// PairTable has a line a pair.
func (g *group) PairTable() table {
	t := table{
		Lead:    2,
		Caption: "Every pair, under attack",
		Head: append([]string{"A", "B"}, append(slices.Clone(testHead),
			"Clean, A − B")...),
	}
	for _, p := range g.Pairs {
		line := boxes(g.label(p.A), g.label(p.B))
		if p.Robust == nil {
			line = append(line, text("0"))
			line = append(line, boxes(dash, dash, dash, p.Why, dash, dash)...)
		} else {
			line = append(line, tested(p.Robust)...)
		}
		clean := text(dash)
		if p.Clean != nil {
			clean = text(tenths(p.Clean.Difference))
			clean.Spans[0].Bold = p.Clean.Significant
		}
		t.Rows = append(t.Rows, append(line, clean))
	}
	t.note("", "%s", testNote(len(g.Pairs), "pair"))
	t.note(
		"",
		"Only A: images that A alone is right on. Bold differences are significant. Pairs of which one has no rank "+
			"are tested under the attacks that both have.",
	)
	return t.marked()
}

// AttackTable says how each column was made.
func (g *group) AttackTable() table {
	t := table{Lead: 1, Caption: "How the attacks were made", Head: []string{"Attack", "Recipe", "Seeds", "Entries",
		settingsHead}}
	for i, c := range g.Columns {
		if c.Attack == "none" {
			continue
		}
		said := clean(c.Title)
		if c.Settings == nil {
			said = "the results do not say"
		}
		t.add(g.attack(i), clean(c.Recipe), strings.Trim(fmt.Sprint(c.Seeds), "[]"), fmt.Sprint(c.Entries), said)
	}
	return t
}

// RunTable lists the runs.
func (c *comparison) RunTable() table {
	t := table{Lead: 1, Caption: "Runs", Head: []string{"Run", "Created", "Seed", "selfheal", "Provider", "Precision",
		"State"}}
	for _, r := range c.Runs {
		state := "finished"
		if r.Unfinished {
			state = "unfinished"
		}
		t.add(clean(r.Name), r.Created.UTC().Format("2006-01-02 15:04"), fmt.Sprint(r.Seed), clean(r.Selfheal),
			clean(r.Provider), clean(r.Precision), state)
	}
	return t
}

// HistoryTables have a line a run, a table a history.
func (g *group) HistoryTables() (out []table) {
	for i, s := range g.History {
		t := table{Lead: 1, Caption: g.historyName(s), Head: []string{"Run", "Created", "Model file"}}
		for _, l := range s.Lines {
			t.Head = append(t.Head, g.attack(l.Column))
		}
		for at, p := range s.Points {
			line := boxes(clean(p.Run), p.Created.UTC().Format("2006-01-02 15:04"), clip(clean(p.SHA256), 9))
			for _, l := range s.Lines {
				b := head{columns: []int{l.Column}}.under(g.Entries[p.Entry])
				for _, step := range l.Steps {
					if step.To == at && step.Test != nil && step.Test.Significant {
						b.Spans[0].Bold = true
						b.Spans = append(b.Spans, span{Text: " (" + tenths(step.Test.Difference) + ")"})
					}
				}
				line = append(line, b)
			}
			t.Rows = append(t.Rows, line)
		}
		if i == len(g.History)-1 {
			t.note("", "Bold: a significant change from the run before, in points on shared images. %s",
				testNote(g.steps(), "step"))
		}
		out = append(out, t)
	}
	return out
}

// steps counts those of all histories.
func (g *group) steps() (n int) {
	for _, s := range g.History {
		for _, l := range s.Lines {
			n += len(l.Steps)
		}
	}
	return n
}

// historyName is what a history is of.
func (g *group) historyName(s compare.Series) string {
	return "From run to run: " + name(compare.Entry{Model: s.Model, Defense: s.Defense}) + ", " + s.Attacker
}
