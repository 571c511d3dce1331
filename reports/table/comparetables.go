package table

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// Group has the tables of a group of a comparison.
type Group struct{ *view.Group }

// Comparison has the tables of a comparison.
type Comparison struct {
	*view.Comparison
	Groups []Group
}

// OfComparison makes tables of a comparison.
func OfComparison(c *view.Comparison) Comparison {
	out := Comparison{Comparison: c}
	for _, g := range c.Groups {
		out.Groups = append(out.Groups, Group{g})
	}
	return out
}

// head is what stands under one heading: a column, or all corruptions together.
type head struct {
	Title   string
	columns []int
}

const corruptionsHead = "Corruptions, mean"

// heads are a ranking's.
func (g Group) heads() (heads []head) {
	for i, c := range g.Columns {
		last := len(heads) - 1
		switch {
		case c.Variant == "":
			heads = append(heads, head{g.Attack(i), []int{i}})
		case last < 0 || !strings.HasPrefix(heads[last].Title, corruptionsHead):
			heads = append(heads, head{corruptionsHead, []int{i}})
		default:
			heads[last].columns = append(heads[last].columns, i)
		}
	}
	return heads
}

func scoreInterval(s *compare.Score) string {
	return fmt.Sprintf("[%s,"+words.Nbsp+"%s]", words.Percent(s.CI95[0], s.N), words.Percent(s.CI95[1], s.N))
}

// under is what an entry has under a heading: of several columns the mean, where it has all.
func (h head) under(e compare.Entry) Box {
	mean, n := 0.0, 0
	for _, c := range h.columns {
		cell := e.Cells[c]
		if cell.Score == nil {
			return Box{Bar: -1, Spans: []Span{{Text: cell.Missing, Small: true}}}
		}
		mean, n = mean+cell.Score.Accuracy, cell.Score.N
	}
	return text(words.Percent(mean/float64(len(h.columns)), n))
}

// runHead heads a column of runs' names.
const runHead = "Run"

// RankTable has a line an entry.
func (g Group) RankTable() Table {
	of := func(value func(compare.Entry) string) bool { return len(view.Distinct(g.Entries, value)) > 1 }
	attacked := slices.ContainsFunc(g.Columns, func(c compare.Column) bool { return c.Norm != nil })
	attackers := attacked && of(func(e compare.Entry) string { return e.Attacker })
	runs := of(func(e compare.Entry) string { return e.Run })
	sizes := of(func(e compare.Entry) string { return fmt.Sprint(e.N) })
	t := Table{Anchor: "rank-" + g.Slug, Caption: "Accuracy in %, ranked", Head: []string{"Model · control"}, Lead: 1}
	if attacked && !attackers {
		t.Caption += "; attacker: " + words.Clean(g.Entries[0].Attacker)
	}
	t.Head = append(t.Head, "Rank (open)", g.rankHead()+", 95"+words.Nbsp+"%"+words.Nbsp+"interval")
	if attackers {
		t.Head = append(t.Head, attackerHead)
	}
	heads := g.heads()
	if by := g.RankedBy; len(by) == 1 { // which the ranking shows
		heads = slices.DeleteFunc(heads, func(h head) bool { return slices.Equal(h.columns, by) })
	}
	for _, h := range heads {
		t.Head = append(t.Head, h.Title)
	}
	if sizes {
		t.Head = append(t.Head, "Images")
	}
	if runs {
		t.Head = append(t.Head, runHead)
	}
	for i, e := range g.Entries {
		line := []Box{{Bar: -1, Spans: []Span{{Text: view.EntryKey(i) + "  " + view.EntryName(e)}}}}
		if attacked && e.Attacker == result.Oblivious {
			line[0].Spans[0].Mark = "1"
		}
		line = append(line, g.rankBox(e), g.worst(e))
		if attackers {
			line = append(line, text(e.Attacker))
		}
		for _, h := range heads {
			line = append(line, h.under(e))
		}
		if sizes {
			line = append(line, text(words.Thousands(e.N)))
		}
		if runs {
			line = append(line, text(words.Clean(e.Run)))
		}
		t.Rows = append(t.Rows, line)
	}
	t.note("", "In brackets: the ranks that the tests leave open. = marks equals.")
	if sizes {
		t.note("", "Accuracies are over each line's own images, the tests over shared ones.")
	}
	if attacked &&
		slices.ContainsFunc(g.Entries, func(e compare.Entry) bool { return e.Attacker == result.Oblivious }) {
		t.note("1", "An oblivious attacker does not know the control: such a number says how well control repairs, "+
			"and is no bound for one who does. These lines are ranked among themselves.")
	}
	for _, said := range view.Distinct(g.Columns, func(c compare.Column) string { return seeds(c) }) {
		if strings.Contains(said, ",") {
			t.note("", "Attacks were made from several seeds (%s): %s.", said, words.Some(g.made(said)))
		}
	}
	return t
}

// seeds lists a column's.
func seeds(c compare.Column) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Seeds), " ", ", "), "[]")
}

// made are the columns with these seeds.
func (g Group) made(said string) (out []string) {
	for i, c := range g.Columns {
		if seeds(c) == said {
			out = append(out, g.Attack(i))
		}
	}
	return out
}

// rankHead is what the ranking is by, in a word.
func (g Group) rankHead() string {
	if by := g.RankedBy; len(by) == 1 {
		return g.Attack(by[0])
	}
	return "Worst"
}

// rankBox is an entry's rank, and those that the tests leave open.
func (g Group) rankBox(e compare.Entry) Box {
	b := text(g.rankText(e))
	if e.Rank > 0 {
		b.Spans = append(b.Spans, Span{Text: " "}, Span{Text: open(e), Small: true})
	}
	return b
}

// worst is what an entry is ranked by.
func (g Group) worst(e compare.Entry) Box {
	by := g.RankedBy
	switch {
	case e.Worst == nil && len(by) == 1:
		return head{columns: by}.under(e)
	case e.Worst == nil:
		return text(words.Dash)
	}
	return Box{Bar: e.Worst.Accuracy, Spans: []Span{{Text: view.ScoreText(e.Worst)}, {Text: " "},
		{Text: scoreInterval(e.Worst), Small: true}}}
}

// rankText is an entry's rank, 2= where another has the same.
func (g Group) rankText(e compare.Entry) string {
	if e.Rank == 0 {
		return words.Dash
	}
	n := view.CountOf(g.Entries, func(o compare.Entry) bool { return o.Rank == e.Rank && g.Rivals(&o, &e) })
	return fmt.Sprint(e.Rank) + strings.Repeat("=", min(n-1, 1))
}

// open is the range of ranks that the tests leave open.
func open(e compare.Entry) string {
	if e.Open[0] == e.Open[1] {
		return fmt.Sprintf("(%d)", e.Open[0])
	}
	return fmt.Sprintf("(%d–%d)", e.Open[0], e.Open[1])
}

// AttackTable says how each column was made.
func (g Group) AttackTable() Table {
	t := Table{Lead: 2, Caption: "How the attacks were made",
		Head: []string{"Attack", madeHead, "Recipe", "Seeds", "Lines", settingsHead}}
	for i, c := range g.Columns {
		if c.Attack == "none" {
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

// RunTable lists the runs.
func (c Comparison) RunTable() Table {
	t := Table{Lead: 1, Caption: "Runs", Head: []string{"Run", "Created", "Seed", "selfheal", "Provider", "Precision",
		"State"}}
	for _, r := range c.Runs {
		state := "finished"
		if r.Unfinished {
			state = "unfinished"
		}
		t.add(r.Name, r.Created.UTC().Format("2006-01-02 15:04"), fmt.Sprint(r.Seed), r.Selfheal, r.Provider,
			r.Precision, state)
	}
	return t
}

// CorruptionTable has the mean accuracy over the severities of each corruption.
func (g Group) CorruptionTable() Table {
	t := Table{Lead: 1, Caption: "Accuracy in % by corruption, mean over the severities",
		Head: []string{"Model · control"}}
	var heads []head
	for i, c := range g.Columns {
		corruption, _, severity := strings.Cut(c.Variant, ":")
		if !severity {
			continue
		}
		title := words.CorruptionTitle(corruption)
		k := slices.IndexFunc(heads, func(h head) bool { return h.Title == title })
		if k < 0 {
			k, heads = len(heads), append(heads, head{Title: title})
			t.Head = append(t.Head, title)
		}
		heads[k].columns = append(heads[k].columns, i)
	}
	for i, e := range g.Entries {
		line := []Box{text(g.Labels[i])}
		for _, h := range heads {
			line = append(line, h.under(e))
		}
		if heads != nil {
			t.Rows = append(t.Rows, line)
		}
	}
	return t
}

// HistoryTables have a line a run, a table a history.
func (g Group) HistoryTables() (out []Table) {
	for i, s := range g.History {
		t := Table{Lead: 1, Caption: g.HistoryName(s), Head: []string{"Run", "Created", "Model file"}}
		for _, l := range s.Lines {
			t.Head = append(t.Head, g.Attack(l.Column))
		}
		for at, p := range s.Points {
			line := boxes(p.Run, p.Created.UTC().Format("2006-01-02 15:04"), words.Clip(words.Clean(p.SHA256), 9))
			for _, l := range s.Lines {
				b := head{columns: []int{l.Column}}.under(g.Entries[p.Entry])
				for _, step := range l.Steps {
					if step.To == at && step.Test != nil && step.Test.Significant {
						b.Spans[0].Bold = true
						b.Spans = append(b.Spans, Span{Text: " (" + words.Points(step.Test.Difference, 1) + ")"})
					}
				}
				line = append(line, b)
			}
			t.Rows = append(t.Rows, line)
		}
		if i == len(g.History)-1 {
			t.note("", "Bold: a significant change from the run before, in points on shared images. %s",
				testNote(g.Steps, "step"))
		}
		out = append(out, t)
	}
	return out
}
