package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

type Group struct{ *view.Group }

// Comparison is a comparison of runs, arranged for reading.
type Comparison struct {
	*compare.Comparison
	Groups []Group
}

func OfComparison(c *compare.Comparison) Comparison {
	return Comparison{c, lists.Map(view.Groups(c), func(g *view.Group) Group { return Group{g} })}
}

func (c Comparison) Title() string {
	if len(c.Runs) == 1 {
		return "selfheal: one run, its models beside each other"
	}
	return fmt.Sprintf("selfheal: %d runs beside each other", len(c.Runs))
}

// Headline counts what is compared.
func (c Comparison) Headline() string {
	entries, pairs := 0, 0
	for _, g := range c.Groups {
		entries, pairs = entries+len(g.Entries), pairs+g.Tested
	}
	return fmt.Sprintf("%s, %s, %s tested on shared images", words.Plural(len(c.Runs), "run"), words.Plural(entries,
		"model with or without a control", "models, each with or without a control"), words.Plural(pairs, "pair"))
}

// heading is a heading of the tables: for one column, or for all corruptions together.
type heading struct {
	title   string
	columns []int
}

// headings returns the headings of all columns. Columns with one title share a heading; without a title, each has its
// attack's.
func (g Group) headings(title func(c compare.Column) string) (all []heading) {
	for i, c := range g.Columns {
		name := title(c)
		k := slices.IndexFunc(all, func(h heading) bool { return h.title == name })
		switch {
		case name == "":
			all = append(all, heading{g.Attack(i), []int{i}})
		case k < 0:
			all = append(all, heading{name, []int{i}})
		default:
			all[k].columns = append(all[k].columns, i)
		}
	}
	return all
}

// under returns an entry's box under a heading: for several columns their mean, if it has all of them.
func (h heading) under(e compare.Entry) Box {
	mean, n := 0.0, 0
	for _, c := range h.columns {
		cell := e.Cells[c]
		if cell.Score == nil {
			return small(cell.Missing)
		}
		mean, n = mean+cell.Score.Accuracy, cell.Score.N
	}
	return text(words.Percent(mean/float64(len(h.columns)), n))
}

func (t *Table) headUnder(all []heading) {
	t.head(true, lists.Map(all, func(h heading) string { return h.title })...)
}

func (t *Table) addUnder(all []heading, e compare.Entry, before, after []Box) {
	t.add(before, lists.Map(all, func(h heading) Box { return h.under(e) }), after)
}

func (g Group) RankTable() Table {
	differ := func(value func(compare.Entry) string) bool { return len(lists.Distinct(g.Entries, value)) > 1 }
	attacked := slices.ContainsFunc(g.Columns, func(c compare.Column) bool { return c.Norm != nil })
	attackers := attacked && differ(func(e compare.Entry) string { return e.Attacker })
	runs := differ(func(e compare.Entry) string { return e.Run })
	sizes := differ(func(e compare.Entry) string { return fmt.Sprint(e.N) })
	ranked := "Worst"
	if by := g.RankedBy; len(by) == 1 {
		ranked = g.Attack(by[0])
	}
	t := Table{Anchor: "rank-" + g.Slug, Caption: "Accuracy in %, ranked", Lead: 1,
		Head: []string{"Model · control", "Rank (open)", ranked + ", 95" + words.Nbsp + "%" + words.Nbsp + "interval"}}
	if attacked && !attackers {
		t.Caption += "; attacker: " + words.Clean(g.Entries[0].Attacker)
	}
	t.head(attackers, attackerHead)
	headings := g.headings(func(c compare.Column) string {
		return words.If(strings.Contains(c.Variant, ":"), "Corruptions, mean")
	})
	if by := g.RankedBy; len(by) == 1 { // the ranking shows it
		headings = lists.Only(headings, func(h heading) bool { return !slices.Equal(h.columns, by) })
	}
	t.headUnder(headings)
	t.head(sizes, "Images")
	t.head(runs, runHead)
	oblivious := false
	for i, e := range g.Entries {
		who := text(entryText(i, e))
		if attacked && slices.Contains([]string{result.Oblivious, result.Transfer}, e.Attacker) {
			who.Spans[0].Mark, oblivious = "1", true
		}
		shared := lists.Count(g.Entries, func(o compare.Entry) bool { return o.Rank == e.Rank && g.Rivals(&o, &e) }) > 1
		t.addUnder(headings, e, boxes(who, rankBox(e.Place, shared), g.worst(e), shown(attackers, e.Attacker)),
			boxes(shown(sizes, e.N), shown(runs, e.Run)))
	}
	t.note("", "In brackets: the ranks that the tests leave open. = marks equals.")
	if sizes {
		t.note("", "Accuracies are over each line's own images, the tests over shared ones.")
	}
	if oblivious {
		t.note("1", "An oblivious attacker does not know the control, and one of mode transfer may know another "+
			"network only: such a number says how well control repairs and how far images carry, and is no bound for "+
			"one who knows. These lines are ranked among themselves.")
	}
	for _, h := range g.headings(seeds) {
		if strings.Contains(h.title, ",") {
			t.note("", "Attacks were made from several seeds (%s): %s.", h.title, words.Some(g.Attacks(h.columns)))
		}
	}
	return t
}

// StrengthTables ranks the entries at each norm and epsilon.
func (g Group) StrengthTables() []Table {
	differ := func(value func(compare.Entry) string) bool { return len(lists.Distinct(g.Entries, value)) > 1 }
	attackers := differ(func(e compare.Entry) string { return e.Attacker })
	runs := differ(func(e compare.Entry) string { return e.Run })
	return lists.Map(g.Strengths, func(s compare.Strength) Table {
		norm, e := words.NormName(s.Norm), s.Epsilon.String()
		ranked := "Worst"
		if by := s.RankedBy; len(by) == 1 {
			ranked = g.Attack(by[0])
		}
		t := Table{Anchor: "rank-" + g.Slug, Lead: 1, Label: "rank-" + s.Norm + "-" + strings.ReplaceAll(e, "/", "-"),
			Caption: "Accuracy in %, ranked at " + norm + " " + e, Head: []string{"Model · control", "Rank (open)",
				ranked + ", 95" + words.Nbsp + "%" + words.Nbsp + "interval"}}
		t.head(attackers, attackerHead)
		t.head(true, "Behind the first (points)", "Interval", "p (Holm)")
		t.head(runs, runHead)
		for _, p := range s.Places {
			of := g.Entries[p.Entry]
			shared := lists.Count(s.Places, func(o compare.Standing) bool {
				return o.Rank == p.Rank && g.Rivals(&g.Entries[o.Entry], &of)
			}) > 1
			behind := boxes(words.Dash, words.Dash, words.Dash)
			if b := p.Behind; b != nil {
				behind = boxes(bold(words.Points(b.Difference, 1), b.Significant), pointRange(b.Agreeing),
					pValue(b.Holm))
			}
			t.add(entryText(p.Entry, of), rankBox(p.Place, shared), scoreBox(p.Worst), shown(attackers, of.Attacker),
				behind, shown(runs, of.Run))
		}
		if len(s.RankedBy) > 1 {
			t.note("", "Worst: right under every one of %s.", words.Some(g.Attacks(s.RankedBy)))
		}
		if attackers {
			t.note("", "Lines of an attacker who does not know the control are ranked among themselves.")
		}
		t.note("", "%s %s", testNote(s.Tested, "pair"), intervalNote)
		return t
	})
}

func pointRange(of [2]float64) string {
	return words.Range(words.Points(of[0], 1), words.Points(of[1], 1))
}

// scoreBox writes a score with its interval.
func scoreBox(s *compare.Score) Box {
	interval := words.Range(words.Percent(s.CI95[0], s.N), words.Percent(s.CI95[1], s.N))
	return Box{Bar: s.Accuracy, Spans: []Span{{Text: view.ScoreText(s)}, {Text: " "}, {Text: interval, Small: true}}}
}

func entryText(i int, e compare.Entry) string { return view.EntryKey(i) + "  " + view.EntryName(e) }

func seeds(c compare.Column) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Seeds), " ", ", "), "[]")
}

// rankBox returns a rank, 2= if it is shared, and the range of ranks that the tests leave open.
func rankBox(e compare.Place, shared bool) Box {
	if e.Rank == 0 {
		return text(words.Dash)
	}
	rank, open := fmt.Sprint(e.Rank)+words.If(shared, "="), fmt.Sprintf("(%d–%d)", e.Open[0], e.Open[1])
	if e.Open[0] == e.Open[1] {
		open = fmt.Sprintf("(%d)", e.Open[0])
	}
	return Box{Bar: -1, Spans: []Span{{Text: rank}, {Text: " "}, {Text: open, Small: true}}}
}

// worst returns the score that ranks an entry.
func (g Group) worst(e compare.Entry) Box {
	switch by := g.RankedBy; {
	case e.Worst == nil && len(by) == 1:
		return heading{columns: by}.under(e)
	case e.Worst == nil:
		return text(words.Dash)
	}
	return scoreBox(e.Worst)
}

func (g Group) AttackTable() Table {
	t := Table{Lead: 2, Caption: "How the attacks were made",
		Head: []string{"Attack", "Made as", "Recipe", "Seeds", "Lines", settingsHead}}
	for i, c := range g.Columns {
		if c.Attack == cell.None {
			continue
		}
		said := described(settings(c.Settings))
		if c.Settings == nil {
			said = text("the results do not say")
		}
		t.add(g.Attack(i), described(c.Title), c.Recipe, seeds(c), c.Entries, said)
	}
	return t
}

func (c Comparison) RunTable() Table {
	t := Table{Lead: 1, Caption: "Runs", Head: []string{runHead, "Created", "Seed", "selfheal", "Provider", "Precision",
		"State"}}
	for _, r := range c.Runs {
		state := words.If(r.Unfinished, "un") + "finished"
		t.add(r.Name, created(r.Created), fmt.Sprint(r.Seed), r.Selfheal, r.Provider, r.Precision, state)
	}
	return t
}

// CorruptionTable gives the mean accuracy over the severities of each corruption.
func (g Group) CorruptionTable() Table {
	t := Table{Lead: 1, Caption: "Accuracy in % by corruption, mean over the severities",
		Head: []string{"Model · control"}}
	headings := lists.Only(g.headings(func(c compare.Column) string {
		corruption, _, _ := strings.Cut(c.Variant, ":")
		return words.CorruptionTitle(corruption)
	}), func(h heading) bool { return strings.Contains(g.Columns[h.columns[0]].Variant, ":") })
	if len(headings) == 0 {
		return t
	}
	t.headUnder(headings)
	for i, e := range g.Entries {
		t.addUnder(headings, e, boxes(g.Labels[i]), nil)
	}
	return t
}

// HistoryTables returns a table for each history, with one line per run.
func (g Group) HistoryTables() (out []Table) {
	for i, s := range g.History {
		t := Table{Lead: 1, Caption: g.HistoryName(s), Head: []string{"Run", "Created", "Model file"}}
		for _, l := range s.Lines {
			t.head(true, g.Attack(l.Column))
		}
		for at, p := range s.Points {
			line := boxes(p.Run, created(p.Created), words.Clip(words.Clean(p.SHA256), 9))
			for _, l := range s.Lines {
				b := heading{columns: []int{l.Column}}.under(g.Entries[p.Entry])
				for _, step := range l.Steps {
					if step.To == at && step.Test != nil && step.Test.Significant {
						b.Spans[0].Bold = true
						b.Spans = append(b.Spans, Span{Text: " (" + words.Points(step.Test.Difference, 1) + ")"})
					}
				}
				line = append(line, b)
			}
			t.add(line)
		}
		if i == len(g.History)-1 {
			t.note("", "Bold: a significant change from the run before, in points on shared images. %s",
				testNote(g.Steps, "step"))
		}
		out = append(out, t)
	}
	return out
}

func created(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") }

// MatrixTable gives the difference of any two entries under attack; it has no rows if there are more than 24 entries.
func (g Group) MatrixTable() Table {
	t := Table{Lead: 1, Caption: "Line less column, in points, " + g.under() +
		", on shared images; bold where significant", Head: []string{"Model · control"}}
	if n := len(g.Entries); n < 2 || n > 24 {
		return t
	}
	for i, e := range g.Entries {
		t.head(true, view.EntryKey(i))
		line := boxes(entryText(i, e))
		for k := range g.Entries {
			p := lists.Find(g.Pairs, func(p compare.Pair) bool { return p.A == min(i, k) && p.B == max(i, k) })
			switch {
			case i == k:
				line = append(line, text(""))
			case p == nil || p.Robust == nil:
				line = append(line, small("n/c"))
			default:
				difference := float64(cmp.Compare(k, i)) * p.Robust.Difference
				line = append(line, bold(words.Points(difference, 1), p.Robust.Significant))
			}
		}
		t.add(line)
	}
	t.note("", "%s", testNote(g.Tested, "pair"))
	for _, w := range []string{"no image in common", "no attack in common"} {
		if n := lists.Count(g.Pairs, func(p compare.Pair) bool { return p.Why == w }); n > 0 {
			t.note("", "n/c: not comparable, %s (%s).", w, words.Plural(n, "pair"))
		}
	}
	return t
}

func testNote(n int, what string) string {
	return fmt.Sprintf("Exact McNemar tests, two-sided, on the images that both have; p corrected for %s (Holm), "+
		"significant at %v.", words.Plural(n, what), compare.Alpha)
}

// intervalNote explains the intervals of differences.
const intervalNote = "Interval: of the difference, by the score test at the level of the pair's step in Holm's " +
	"correction; it leaves out 0 where the difference is significant."

// under names the columns on which pairs are tested.
func (g Group) under() string {
	if g.Attacked() {
		return "under attack"
	}
	return "without an attack"
}

// PairTables gives a line to each pair: first for the ranked score, then for clean images if they are not the score.
func (g Group) PairTables() []Table {
	ranked := g.pairTable(g.under(), g.Tested, func(p compare.Pair) *compare.Test { return p.Robust })
	ranked.note("", "Only A: images that A alone is right on. Bold differences are significant. Pairs of which one "+
		"has no rank are tested under the attacks that both have.")
	if slices.ContainsFunc(g.Pairs, func(p compare.Pair) bool { return p.Corrupted != nil }) {
		ranked.head(true, "Corrupted, A − B")
		ranked.note("", "Corrupted: mean accuracy over the corruptions that both have; an exact sign test on which of "+
			"the two is right on an image under more of them.")
		for i, p := range g.shownPairs() {
			sign := text(words.Dash)
			if p.Corrupted != nil {
				sign = bold(words.Points(p.Corrupted.Difference, 1), p.Corrupted.Significant)
			}
			ranked.Rows[i] = append(ranked.Rows[i], sign)
		}
	}
	clean := func(p compare.Pair) *compare.Test { return p.Clean }
	tested := lists.Count(g.Pairs, func(p compare.Pair) bool { return p.Clean != nil })
	if !g.Attacked() || tested == 0 {
		return []Table{ranked}
	}
	return []Table{ranked, g.pairTable("on clean images", tested, clean)}
}

// shownPairs returns all pairs or, if there are more than a thousand, those that are next to each other.
func (g Group) shownPairs() []compare.Pair {
	return lists.Only(g.Pairs, func(p compare.Pair) bool { return len(g.Pairs) <= 1000 || p.B == p.A+1 })
}

// pairTable shows one test of each pair; tested is the number of tests.
func (g Group) pairTable(where string, tested int, of func(compare.Pair) *compare.Test) Table {
	t := Table{Lead: 2, Caption: "Every pair, " + where, Head: []string{"A", "B", "Shared images", "Only A", "Only B",
		"A − B (points)", "Interval", "p", "p (Holm)"}}
	for _, p := range g.shownPairs() {
		said := boxes("0", words.Dash, words.Dash, words.Dash, cmp.Or(p.Why, words.Dash), words.Dash, words.Dash)
		if r := of(p); r != nil {
			said = boxes(r.Shared, r.OnlyA, r.OnlyB, bold(words.Points(r.Difference, 1), r.Significant),
				pointRange(r.Agreeing), pValue(r.P), pValue(r.Holm))
		}
		t.add(g.Labels[p.A], g.Labels[p.B], said)
	}
	t.note("", "%s %s", testNote(tested, "pair"), intervalNote)
	return t.marked()
}
