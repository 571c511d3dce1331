package reports

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/compare"
	"selfheal/harness/result"
)

// scoreText is an accuracy in per cent.
func scoreText(s *compare.Score) string {
	if s == nil {
		return dash
	}
	return percent(s.Accuracy, s.N)
}

func scoreInterval(s *compare.Score) string {
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

// runHead heads a column of runs' names.
const runHead = "Run"

// RankTable has a line an entry.
func (g *group) RankTable() table {
	of := func(value func(compare.Entry) string) bool { return len(distinct(g.Entries, value)) > 1 }
	attacked := slices.ContainsFunc(g.Columns, func(c compare.Column) bool { return c.Norm != nil })
	attackers := attacked && of(func(e compare.Entry) string { return e.Attacker })
	sizes := of(func(e compare.Entry) string { return fmt.Sprint(e.N) })
	t := table{Anchor: "rank-" + g.Slug, Caption: "Accuracy in %, ranked", Head: []string{"Model · control"}, Lead: 1}
	if attacked && !attackers {
		t.Caption += "; attacker: " + clean(g.Entries[0].Attacker)
	}
	t.Head = append(t.Head, "Rank (open)", g.rankHead()+", 95"+nbsp+"%"+nbsp+"interval")
	if attackers {
		t.Head = append(t.Head, attackerHead)
	}
	heads := g.heads
	if by := g.Group.RankedBy; len(by) == 1 { // which the ranking shows
		heads = slices.DeleteFunc(slices.Clone(heads), func(h head) bool { return slices.Equal(h.columns, by) })
	}
	for _, h := range heads {
		t.Head = append(t.Head, h.Title)
	}
	if sizes {
		t.Head = append(t.Head, "Images")
	}
	if g.runs > 1 {
		t.Head = append(t.Head, runHead)
	}
	for i, e := range g.Entries {
		line := []box{{Bar: -1, Spans: []span{{Text: key(i) + "  " + name(e)}}}}
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
			line = append(line, text(thousands(e.N)))
		}
		if g.runs > 1 {
			line = append(line, text(clean(e.Run)))
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
	for _, said := range distinct(g.Columns, func(c compare.Column) string { return seeds(c) }) {
		if strings.Contains(said, ",") {
			t.note("", "Attacks were made from several seeds (%s): %s.", said, some(g.made(said)))
		}
	}
	return t
}

// seeds lists a column's.
func seeds(c compare.Column) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Seeds), " ", ", "), "[]")
}

// made are the columns with these seeds.
func (g *group) made(said string) (out []string) {
	for i, c := range g.Columns {
		if seeds(c) == said {
			out = append(out, g.attack(i))
		}
	}
	return out
}

// rankHead is what the ranking is by, in a word.
func (g *group) rankHead() string {
	if by := g.Group.RankedBy; len(by) == 1 {
		return g.attack(by[0])
	}
	return "Worst"
}

// rankBox is an entry's rank, and those that the tests leave open.
func (g *group) rankBox(e compare.Entry) box {
	b := text(g.rankText(e))
	if e.Rank > 0 {
		b.Spans = append(b.Spans, span{Text: " "}, span{Text: open(e), Small: true})
	}
	return b
}

// worst is what an entry is ranked by.
func (g *group) worst(e compare.Entry) box {
	by := g.Group.RankedBy
	switch {
	case e.Worst == nil && len(by) == 1:
		return head{columns: by}.under(e)
	case e.Worst == nil:
		return text(dash)
	}
	return box{Bar: e.Worst.Accuracy, Spans: []span{{Text: scoreText(e.Worst)}, {Text: " "},
		{Text: scoreInterval(e.Worst), Small: true}}}
}

// rankText is an entry's rank, 2= where another has the same.
func (g *group) rankText(e compare.Entry) string {
	if e.Rank == 0 {
		return dash
	}
	n := countOf(g.Entries, func(o compare.Entry) bool { return o.Rank == e.Rank && g.Rivals(&o, &e) })
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
func (g *group) AttackTable() table {
	t := table{Lead: 2, Caption: "How the attacks were made",
		Head: []string{"Attack", madeHead, "Recipe", "Seeds", "Lines", settingsHead}}
	for i, c := range g.Columns {
		if c.Attack == "none" {
			continue
		}
		said := described(settings(c.Settings))
		if c.Settings == nil {
			said = text("the results do not say")
		}
		t.add(g.attack(i), described(clean(c.Title)), clean(c.Recipe), seeds(c), fmt.Sprint(c.Entries), said)
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

// CorruptionTable has the mean accuracy over the severities of each corruption.
func (g *group) CorruptionTable() table {
	t := table{Lead: 1, Caption: "Accuracy in % by corruption, mean over the severities",
		Head: []string{"Model · control"}}
	var heads []head
	for i, c := range g.Columns {
		corruption, _, severity := strings.Cut(c.Variant, ":")
		if !severity {
			continue
		}
		title := corruptionTitle(corruption)
		k := slices.IndexFunc(heads, func(h head) bool { return h.Title == title })
		if k < 0 {
			k, heads = len(heads), append(heads, head{Title: title})
			t.Head = append(t.Head, title)
		}
		heads[k].columns = append(heads[k].columns, i)
	}
	for i, e := range g.Entries {
		line := []box{text(g.labels[i])}
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
				testNote(g.Steps, "step"))
		}
		out = append(out, t)
	}
	return out
}

// historyName is what a history is of.
func (g *group) historyName(s compare.Series) string {
	return "From run to run: " + name(compare.Entry{Model: s.Model, Defense: s.Defense}) + ", " + s.Attacker
}
