package table

import (
	"cmp"
	"slices"

	"selfheal/reports/view"
)

const (
	manyClasses = 20   // above it a table has the ends only
	endClasses  = 10   // of each end
	mostClasses = 1000 // rows of a page's tables of all classes
)

// ends are the classes of lowest and of highest weight, in the order of that; of equal ones
// the lower label comes first.
func ends(classes []view.Class, side int) []view.Class {
	by := slices.SortedStableFunc(slices.Values(classes),
		func(a, b view.Class) int { return cmp.Compare(a.Weight(side), b.Weight(side)) })
	return append(by[:endClasses:endClasses], by[len(by)-endClasses:]...)
}

// ClassTables give the accuracy of each class, a line a class, model and control; from the records, so that without
// them there is none. If there are many classes, the first table has the ends, and a
// second one all of them.
func (s Suite) ClassTables() []Table {
	what, whose, side := "Accuracy in % by class"+s.OfFirstSeed()+versus(s.Controls), "of the network", 0
	if len(s.Controls) > 0 {
		what, whose, side = what+", upper / lower bar", "of the controlled network", 1
	}
	models, controls := len(s.Models) > 1, len(s.Controls) > 1
	t := s.table(what, 0)
	t.lead("Model", models)
	t.lead("Control", controls)
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

// classBoxes are a class's accuracies, with bars.
func classBoxes(c view.Class, controlled bool) (line []Box) {
	for _, both := range c.Sides {
		b := text(both[0].String())
		if !controlled {
			b.Bar = both[0].Share()
		} else {
			b.Pair = &[2]float64{both[0].Share(), both[1].Share()}
			b.Spans = append(b.Spans, Span{Text: " / "}, Span{Text: both[1].String()})
		}
		line = append(line, b)
	}
	return line
}
