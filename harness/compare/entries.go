package compare

import (
	"cmp"
	"fmt"
	"slices"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
)

// find makes the group's entries and returns their columns.
func (g *Group) find() map[string]*Column {
	columns := map[string]*Column{}
	type key struct{ model, defense, attacker string }
	for _, s := range g.sets {
		run, at := s.run, map[key]*Entry{}
		var order []*Entry
		for i := range run.File.Cells {
			c := &run.File.Cells[i]
			if c.Dataset != s.name || judged(*c) && c.N != s.n {
				continue
			}
			k := key{c.Model, c.Defense, result.AttackerOf(c.Mode, c.Defense != cell.None)}
			e := at[k]
			if e == nil {
				e = &Entry{Run: run.Name, Row: c.Row, Attacker: k.attacker, N: s.n,
					SHA256: run.File.Models[c.Model].SHA256, set: s, found: map[string]*result.Cell{}}
				at[k], order = e, append(order, e)
			}
			col := columnOf(run, c)
			// several suites may have the same cell
			if old := e.found[col.key]; old != nil && (judged(*old) || !judged(*c)) {
				continue
			}
			if e.found[col.key] = c; judged(*c) {
				col.join(columns, run.Seed)
			}
		}
		for _, e := range order {
			for _, o := range order { // what no attacker made belongs to the lines of every attacker of its suite
				for key, c := range o.found {
					col, several := columnOf(run, c), slices.ContainsFunc(run.File.Suites, func(s result.Suite) bool {
						return s.Name == c.Suite && len(s.Modes) > 0
					})
					if several && o.Row == e.Row && !col.adversarial() && e.found[key] == nil {
						if e.found[key] = c; judged(*c) {
							col.join(columns, run.Seed)
						}
					}
				}
			}
		}
		g.Entries = append(g.Entries, lists.Map(order, func(e *Entry) Entry { return *e })...)
	}
	return columns
}

func (c Column) join(columns map[string]*Column, seed uint64) {
	if columns[c.key] == nil {
		columns[c.key] = &c
	}
	known := columns[c.key]
	known.Attack, known.Title = min(known.Attack, c.Attack), max(known.Title, c.Title)
	if !c.clean() && !slices.Contains(known.Seeds, seed) {
		known.Seeds = append(known.Seeds, seed)
	}
	known.Entries++
}

// arrange orders the columns and gives every entry its cells.
func (g *Group) arrange(found map[string]*Column) {
	for _, c := range found {
		slices.Sort(c.Seeds)
		g.Columns = append(g.Columns, *c)
	}
	slices.SortFunc(g.Columns, compareColumns)
	tellApart(g.Columns)
	for i := range g.Entries {
		e := &g.Entries[i]
		for _, col := range g.Columns {
			one := Cell{Missing: "not run"}
			switch c := e.found[col.key]; {
			case c != nil && judged(*c):
				one = Cell{Score: score(c.N, c.Correct), verdicts: c.Verdicts}
				if !col.clean() {
					one.Seed = e.set.run.Seed
				}
			case c != nil:
				one.Missing = "failed"
			case e.set.run.Unfinished:
				one.Missing = "not yet"
			}
			e.Cells = append(e.Cells, one)
		}
	}
}

func score(n, correct int) *Score {
	return &Score{n, correct, float64(correct) / float64(n), stats.Wilson(correct, n)}
}

// right reports whether an entry is right on an image under every one of some columns. It must have them all.
func (e *Entry) right(image int, columns []int) bool {
	return !slices.ContainsFunc(columns, func(c int) bool { return e.Cells[c].verdicts[image] != '1' })
}

// count returns the number of images that an entry is right on under every one of some columns.
func (e *Entry) count(columns []int) int {
	return len(lists.Indices(e.N, func(image int) bool { return e.right(image, columns) }))
}

// order ranks by the fraction of images that are right under every chosen column, then by clean accuracy, then by
// name.
func (g *Group) order() {
	g.RankedBy = g.rankedBy()
	for i := range g.Entries {
		e := &g.Entries[i]
		if lacks := lists.Count(g.RankedBy, func(c int) bool { return e.Cells[c].Score == nil }); lacks > 0 {
			e.Unranked = fmt.Sprintf("it lacks %d of the %d columns that the ranking is by", lacks, len(g.RankedBy))
			continue
		}
		e.Place = Place{1, [2]int{1, 1}, score(e.N, e.count(g.RankedBy))}
	}
	accuracy := func(s *Score) float64 {
		if s == nil {
			return -1
		}
		return s.Accuracy
	}
	clean := func(e Entry) float64 { // a clean cell is in the first column
		if !g.Columns[0].clean() {
			return -1
		}
		return accuracy(e.Cells[0].Score)
	}
	last := func(e *Entry) int { // orders entries apart after the ranking, and entries without rank last
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
			cmp.Compare(clean(b), clean(a)), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Defense, b.Defense),
			cmp.Compare(a.Attacker, b.Attacker), a.set.run.Created.Compare(b.set.run.Created),
			cmp.Compare(a.Run, b.Run), cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.N, b.N))
	})
}

// apart reports whether attacks rank an entry whose attacker did not know the control: its accuracy is not an upper
// bound.
func (g *Group) apart(e *Entry) bool {
	return e.unaware() && len(g.RankedBy) > 0 && g.Columns[g.RankedBy[0]].adversarial()
}

// unaware reports whether the attacker did not know the control.
func (e *Entry) unaware() bool {
	return e.Attacker == result.Oblivious || e.Attacker == result.Transfer
}

// Rivals reports whether two entries are ranked together.
func (g *Group) Rivals(a, b *Entry) bool { return g.apart(a) == g.apart(b) }

// rankedBy returns the attacks that all entries have which share the most common attack or, of several such, the
// hardest. Without attacks it returns clean images, else any column.
func (g *Group) rankedBy() []int {
	for _, kind := range []func(Column) bool{Column.adversarial, Column.clean, func(Column) bool { return true }} {
		by := lists.Indices(len(g.Columns), func(i int) bool { return kind(g.Columns[i]) })
		if len(by) > 0 {
			return g.shared(by)
		}
	}
	return []int{}
}

// shared returns, of some columns, those that every entry has which has the most common one or, of several such, the
// hardest.
func (g *Group) shared(by []int) []int {
	best := slices.MinFunc(by, func(a, b int) int {
		return cmp.Or(g.Columns[b].Entries-g.Columns[a].Entries, cmp.Compare(g.mean(a), g.mean(b)))
	})
	return slices.DeleteFunc(by, func(i int) bool {
		return slices.ContainsFunc(g.Entries, func(e Entry) bool {
			return e.Cells[best].Score != nil && e.Cells[i].Score == nil
		})
	})
}

func (g *Group) mean(column int) (mean float64) {
	n := 0
	for _, e := range g.Entries {
		if s := e.Cells[column].Score; s != nil {
			mean, n = mean+s.Accuracy, n+1
		}
	}
	return mean / float64(max(n, 1))
}
