package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// find makes the group's entries and returns their columns.
func (g *Group) find(runs []Run) map[string]Column {
	columns := map[string]Column{}
	type key struct{ model, defense, attacker string }
	for _, s := range g.sets {
		run, at := runs[s.run], map[key]*Entry{}
		var order []*Entry
		for i := range run.File.Cells {
			c := &run.File.Cells[i]
			if c.Dataset != s.name || judged(*c) && c.N != s.n {
				continue
			}
			k := key{c.Model, c.Defense, result.AttackerOf(c.Mode, c.Defense != none).Name}
			e := at[k]
			if e == nil {
				e = &Entry{
					Run:      run.Name,
					Dataset:  s.name,
					Model:    k.model,
					Defense:  k.defense,
					Attacker: k.attacker,
					N:        s.n,
					SHA256:   run.File.Models[c.Model].SHA256,
					set:      s,
					created:  run.Created,
					seed:     run.Seed,
					waiting:  run.Unfinished,
					found:    map[string]*result.Cell{},
					failed:   map[string]bool{},
				}
				at[k], order = e, append(order, e)
			}
			col := columnOf(run, c)
			switch {
			case !judged(*c):
				e.failed[col.key] = true
			case e.found[col.key] == nil: // suites may repeat it
				e.found[col.key] = c
				if known, seen := columns[col.key]; seen {
					col.Attack, col.Title = min(known.Attack, col.Attack), max(known.Title, col.Title)
					col.Seeds, col.Entries = known.Seeds, known.Entries
				}
				if seed := run.Seed; col.Attack != none && !slices.Contains(col.Seeds, seed) {
					col.Seeds = append(col.Seeds, seed)
				}
				col.Entries++
				columns[col.key] = col
			}
		}
		for _, e := range order {
			g.Entries = append(g.Entries, *e)
		}
	}
	return columns
}

// arrange orders the columns and gives every entry its cells.
func (g *Group) arrange(found map[string]Column) {
	for key, c := range found {
		c.key = key
		if c.Seeds == nil {
			c.Seeds = []uint64{}
		}
		slices.Sort(c.Seeds)
		g.Columns = append(g.Columns, c)
	}
	slices.SortFunc(g.Columns, compareColumns)
	tellApart(g.Columns)
	for i := range g.Entries {
		e := &g.Entries[i]
		for _, col := range g.Columns {
			cell := Cell{Missing: "not run"}
			switch c := e.found[col.key]; {
			case c != nil:
				cell = Cell{Score: score(c.N, c.Correct), verdicts: c.Verdicts}
				if col.Attack != none {
					cell.Seed = e.seed
				}
			case e.failed[col.key]:
				cell.Missing = "failed"
			case e.waiting:
				cell.Missing = "not yet"
			}
			e.Cells = append(e.Cells, cell)
		}
	}
}

func score(n, correct int) *Score {
	return &Score{n, correct, float64(correct) / float64(n), stats.Wilson(correct, n)}
}

// has reports whether the entry has a cell in every one of some columns.
func (e *Entry) has(columns []int) bool {
	return !slices.ContainsFunc(columns, func(c int) bool { return e.Cells[c].Score == nil })
}

// rank chooses the columns to rank by and puts the entries in order: rivals together, by the share of images that they
// are right on under every one of these, then by clean accuracy, then by name.
func (g *Group) rank() {
	g.RankedBy = g.rankedBy()
	for i := range g.Entries {
		e := &g.Entries[i]
		if len(g.RankedBy) == 0 || !e.has(g.RankedBy) {
			e.Unranked = g.lacks(e)
			continue
		}
		right := 0
		for k := range e.N {
			if !slices.ContainsFunc(g.RankedBy, func(c int) bool { return e.Cells[c].verdicts[k] != '1' }) {
				right++
			}
		}
		e.Worst = score(e.N, right)
	}
	accuracy := func(s *Score) float64 {
		if s == nil {
			return -1
		}
		return s.Accuracy
	}
	last := func(e *Entry) int { // those without a rank, and before them those that are apart
		switch {
		case e.Worst == nil:
			return 2
		case g.apart(e):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(g.Entries, func(a, b Entry) int {
		return cmp.Or(last(&a)-last(&b), cmp.Compare(accuracy(b.Worst), accuracy(a.Worst)),
			cmp.Compare(accuracy(g.clean(&b)), accuracy(g.clean(&a))), strings.Compare(a.Model, b.Model),
			strings.Compare(a.Defense, b.Defense), strings.Compare(a.Attacker, b.Attacker),
			a.created.Compare(b.created), strings.Compare(a.Run, b.Run), strings.Compare(a.Dataset, b.Dataset),
			cmp.Compare(a.N, b.N))
	})
	first := 0
	for i := range g.Entries {
		e := &g.Entries[i]
		if !g.Rivals(e, &g.Entries[first]) {
			first = i
		}
		switch {
		case e.Worst == nil:
		case i > first && accuracy(g.Entries[i-1].Worst) == e.Worst.Accuracy:
			e.Rank = g.Entries[i-1].Rank
		default:
			e.Rank = i - first + 1
		}
	}
}

// apart reports whether attacks rank an entry whose attacker did not know the control. Such entries are ranked among
// themselves: their numbers are no bound for an attacker who knows it.
func (g *Group) apart(e *Entry) bool {
	return e.Attacker == result.Oblivious && len(g.RankedBy) > 0 && g.Columns[g.RankedBy[0]].adversarial()
}

// Rivals reports whether two entries are ranked together.
func (g *Group) Rivals(a, b *Entry) bool { return g.apart(a) == g.apart(b) }

// clean is an entry's score on clean images, nil where it has none.
func (g *Group) clean(e *Entry) *Score {
	if i := slices.IndexFunc(g.Columns, func(c Column) bool { return c.Attack == none }); i >= 0 {
		return e.Cells[i].Score
	}
	return nil
}

// rankedBy are the columns of attacks that all entries have which have the column that most have; of several such
// columns it is the one with the lowest mean accuracy. Where there are no attacks it is clean images, else what there
// is.
func (g *Group) rankedBy() []int {
	kinds := []func(Column) bool{Column.adversarial, func(c Column) bool { return c.Attack == none },
		func(Column) bool { return true }}
	for _, kind := range kinds {
		best, lowest := -1, 0.0
		for i, c := range g.Columns {
			if mean := g.mean(i); kind(c) && (best < 0 || c.Entries > g.Columns[best].Entries ||
				c.Entries == g.Columns[best].Entries && mean < lowest) {
				best, lowest = i, mean
			}
		}
		if best < 0 {
			continue
		}
		var by []int
		for i, c := range g.Columns {
			if kind(c) && !slices.ContainsFunc(g.Entries, func(e Entry) bool {
				return e.Cells[best].Score != nil && e.Cells[i].Score == nil
			}) {
				by = append(by, i)
			}
		}
		return by
	}
	return []int{}
}

// mean is the mean accuracy in a column.
func (g *Group) mean(column int) (mean float64) {
	n := 0
	for _, e := range g.Entries {
		if s := e.Cells[column].Score; s != nil {
			mean, n = mean+s.Accuracy, n+1
		}
	}
	return mean / float64(max(n, 1))
}

// lacks says why an entry has no rank.
func (g *Group) lacks(e *Entry) string {
	n := 0
	for _, c := range g.RankedBy {
		if e.Cells[c].Score == nil {
			n++
		}
	}
	return fmt.Sprintf("it lacks %d of the %d columns that the ranking is by", n, len(g.RankedBy))
}
