package table

import (
	"cmp"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/internal/lists"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// Further returns the suite's tables at the end of its section on a page, which folds them if they are long.
func (s Suite) Further() []Table {
	first := []Table{s.UnionTable(), s.IntervalTable()}
	return filled(slices.Concat(first, s.ClassTables(), s.SetTables(true), s.CellTables(Page))...)
}

func filled(all ...Table) []Table {
	return slices.DeleteFunc(all, func(t Table) bool { return len(t.Rows) == 0 })
}

// table starts a table whose numbers depend on the suite's attacker.
func (s Suite) table(caption string, lead int, head ...string) Table {
	return Table{Anchor: s.Slug, Caption: s.Caption(caption), Lead: lead, Head: head, plain: len(s.Controls) == 0}
}

// AccuracyTable is the paper's table: undefended / controlled under each attack.
func (s Suite) AccuracyTable() Table {
	several, what := len(s.Controls) > 1, versus(s.Controls)
	if s.Sides[0] != "" {
		several, what = false, ": "+words.Clean(s.Sides[0])+" / "+words.Clean(s.Sides[1])+" control"
	}
	t := s.table("Accuracy in %"+what+s.OverSeeds(), 1, "Model")
	t.Notes, t.sides = footnotes(s), s.Sides
	t.lead(controlHead, several)
	t.head(true, s.Heads()...)
	for _, r := range s.Rows() {
		line := boxes(r.Model, shown(several, r.Control))
		line[len(line)-1].mark(s.RowMarks(r.Model, r.Control))
		for i := range s.Columns {
			line = append(line, s.pair(r.Entry(i), view.Scored, true, r.Control != ""))
		}
		t.add(line)
	}
	return t.marked()
}

// IntervalTable gives every accuracy with its 95 % interval, one line per model and defense.
func (s Suite) IntervalTable() Table {
	t := s.table("Accuracy in % with 95 % Wilson intervals"+s.OfFirstSeed(), 2, "Model", defenseHead)
	t.head(true, s.Heads()...)
	for _, one := range s.Lines() {
		values := lists.Map(one.Cells, func(c *result.Cell) string {
			return strings.TrimSpace(words.Accuracy(c) + " " + words.Interval(c))
		})
		who := text(words.DefenseName(one.Defense)).mark(s.RowMarks(one.Model, one.Defense))
		t.add(one.Model, who, values)
	}
	return t.marked()
}

func percents(n int, shares ...float64) []string {
	return lists.Map(shares, func(share float64) string { return words.Percent(share, n) })
}

const (
	manyClasses = 20   // with more, a table shows only the ends
	endClasses  = 10   // at each end
	mostClasses = 1000 // rows of a page's table of all classes
)

// ends returns the classes of lowest and of highest weight; among equals the lower label comes first.
func ends(classes []view.Class, side int) []view.Class {
	by := slices.SortedStableFunc(slices.Values(classes),
		func(a, b view.Class) int { return cmp.Compare(a.Weight(side), b.Weight(side)) })
	return append(by[:endClasses:endClasses], by[len(by)-endClasses:]...)
}

// ClassTables gives the accuracy of each class, one line per class, model and control. They need records. If there are
// many classes, the first table has the ends, and a second one all of them.
func (s Suite) ClassTables() []Table {
	for _, m := range s.Models {
		if task := s.File.Models[m].Task; task != nil && !task.Classifies() {
			return nil // all images are of the class right
		}
	}
	what, whose, side := "Accuracy in % by class"+s.OfFirstSeed()+versus(s.Controls), "of the network", 0
	if len(s.Controls) > 0 {
		what, whose, side = what+", upper / lower bar", "of the controlled network", 1
	}
	models, controls := len(s.Models) > 1, len(s.Controls) > 1
	t := s.table(what, 0)
	t.lead("Model", models)
	t.lead(controlHead, controls)
	t.lead("Class", true)
	t.head(true, "Images")
	t.head(true, s.Heads()...)
	whole, many := t, 0
	for _, r := range s.Rows() {
		classes := s.Classes(r)
		add := func(t *Table, classes []view.Class) {
			for _, c := range classes {
				t.add(shown(models, r.Model), shown(controls, r.Control), s.ClassName(c.Label), c.Images,
					classBoxes(c, r.Control != ""))
			}
		}
		add(&whole, classes)
		if many = max(many, len(classes)); len(classes) > manyClasses {
			classes = ends(classes, side)
		}
		add(&t, classes)
	}
	if many <= manyClasses {
		return []Table{t.marked()}
	}
	t.note("", "Of %d classes, the %d with the lowest and the %d with the highest mean accuracy %s over the "+
		"columns; of equal ones the lower label comes first.", many, endClasses, endClasses, whose)
	if len(whole.Rows) > mostClasses {
		t.note("", "All %d lines would be too many for a page: records.jsonl has label and verdict of every image.",
			len(whole.Rows))
		return []Table{t.marked()}
	}
	whole.Caption = "All classes. " + whole.Caption
	return []Table{t.marked(), whole.marked()}
}

func shareOf(t result.Tally) string {
	if t.N == 0 {
		return words.Dash
	}
	return words.Percent(t.Share(), t.N)
}

func classBoxes(c view.Class, controlled bool) (line []Box) {
	for _, both := range c.Sides {
		b := text(shareOf(both[0]))
		if !controlled {
			b.Bar = both[0].Share()
		} else {
			b.Pair = &[2]float64{both[0].Share(), both[1].Share()}
			b.Spans = append(b.Spans, Span{Text: " / "}, Span{Text: shareOf(both[1])})
		}
		line = append(line, b)
	}
	return line
}

// ComparisonTable puts our numbers beside the published ones, one line per cell, of a paper's table one line per pair.
// It has no rows if the suite has none.
// Published numbers of networks that the suite lacks are counted below it.
func (s Suite) ComparisonTable() Table {
	switch {
	case s.Repeated != nil:
		return s.repeatedTable()
	case s.Published == nil:
		return Table{}
	}
	ours := "ours" + words.If(s.Seeds > 1, s.OfFirstSeed()+",")
	t := s.table("Accuracy in %: "+ours+" beside "+publishedSource(s.Published.Source), 3, "Model", defenseHead,
		"Attack", "Ours", "95 % interval", "Published", "Difference (points)", inIntervalHead)
	count := map[string]int{}
	var lacking []string
	for _, c := range s.Compared() {
		if !slices.Contains(s.Models, c.Model) {
			lacking = append(lacking, words.Clean(c.Model))
			continue
		}
		theirs, difference := words.Dash, words.Dash
		if c.Published != nil {
			theirs = words.Percent(*c.Published, 0)
			if c.Cell != nil {
				difference = words.Points(c.Difference(), 2)
			}
		}
		count[c.Verdict()]++
		t.add(c.Model, words.DefenseName(c.Defense), c.Column.Title(), words.Accuracy(c.Cell),
			cmp.Or(words.Interval(c.Cell), words.Dash), theirs, difference, c.Verdict())
	}
	t.note("", "%d of %s within our 95 %% intervals. Extra, as the source lacks them: %s. Published and not run: %s",
		count["yes"], words.Plural(count["yes"]+count["no, below"]+count["no, above"], "published number"),
		words.Plural(count["extra"], "cell"), words.Plural(count["not run"]+len(lacking), "number"))
	if len(lacking) > 0 {
		t.note("", "%s not in this table, of networks that the suite lacks: %s",
			words.Plural(len(lacking), "published number"), strings.Join(slices.Compact(lacking), ", "))
	}
	if s.OtherAttacker() {
		t.note("", "Not the same attacker: the published one is %s, ours %s", words.Clean(s.Published.Mode),
			s.Attacker().Name)
	}
	return t.marked()
}

// repeatedTable lists each pair of accuracies of a paper's table beside what was run for it.
func (s Suite) repeatedTable() Table {
	t := s.table("Each pair beside what was run", 2, "Network", "Attack", "Published", "Ours", "Images", "Made by",
		"Run")
	count := map[string]int{}
	for _, p := range s.Repeated {
		pair := words.Percent(p.Paper.Accuracy[0], 0) + " / " + words.Percent(p.Paper.Accuracy[1], 0)
		column := words.Column{Norm: p.Paper.Attack.Norm, Recipe: p.Paper.Attack.Kind}
		column.Attack, column.Epsilon = p.Paper.Attack.Name, cell.Epsilon(p.Paper.Attack.Epsilon)
		lead := []string{p.Paper.Model + ", " + p.Paper.Training, column.Title()}
		if p.Ours[1] == nil {
			count["not run"]++
			t.add(lead, pair, words.Dash, words.Dash, words.Dash, "no")
			continue
		}
		how := "on the paper's architecture"
		if p.Other != "" {
			how = "on another network"
		}
		count[how]++
		ours := strings.Join(lists.Map(p.Ours[:], words.Accuracy), " / ")
		t.add(lead, pair, ours+" "+words.Interval(p.Ours[1]), p.Ours[1].N,
			cmp.Or(words.If(p.Column.Attack != cell.None, p.Column.Title()), words.Dash), cmp.Or(p.Other, "yes"))
	}
	t.note("", "%d of %s run on the paper's architecture, %d on another network, which the last column names. The "+
		"second number has the interval.", count["on the paper's architecture"],
		words.Plural(len(s.Repeated), "pair"), count["on another network"])
	if slices.Contains(s.Models, "RN-50") {
		t.note("", "The authors' program builds its RN-50 from the blocks of an RN-34.")
	}
	return t.marked()
}

func publishedSource(source string) string {
	if t, known := published.Lookup(source); known {
		return "the paper's " + t.Name
	}
	if source == "config" {
		return "the numbers that the config gives"
	}
	return "the numbers of " + words.Clean(source)
}
