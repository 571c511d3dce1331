package reports

import (
	"cmp"
	"slices"
	"strconv"

	"selfheal/harness/result"
)

// tally counts right answers.
type tally struct{ right, n int }

func (t tally) with(verdict int) tally { return tally{t.right + verdict, t.n + 1} }

// share is the accuracy; −1 where there is no image.
func (t tally) share() float64 {
	if t.n == 0 {
		return -1
	}
	return float64(t.right) / float64(t.n)
}

const (
	manyClasses = 20   // above it a table has the ends only
	endClasses  = 10   // of each end
	mostClasses = 1000 // rows of a page's tables of all classes
)

// byClass is a class of one row of the accuracy table: its images, and its accuracy under
// each column on both sides.
type byClass struct {
	label  int
	images int
	sides  [][2]tally
}

// weight is what classes are put in order by: the mean accuracy over the columns, of the
// controlled network where there is one.
func (c byClass) weight(controlled bool) float64 {
	sum, n := 0.0, 0
	for _, t := range c.sides {
		one := t[0]
		if controlled {
			one = t[1]
		}
		if x := one.share(); x >= 0 {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(max(n, 1))
}

// classes sorts the records of a row's cells by class, in the order of the labels; nil
// where there are none.
func (s *suite) classes(r row) []byClass {
	found := map[int]*byClass{}
	for i, e := range r.Entries {
		for side, c := range []*result.Cell{e.Baseline, e.Controlled} {
			if c == nil || s.margins[keyOf(c)] == nil {
				continue
			}
			for label, t := range s.margins[keyOf(c)].classes {
				b := found[label]
				if b == nil {
					b = &byClass{label: label, sides: make([][2]tally, len(r.Entries))}
					found[label] = b
				}
				b.sides[i][side], b.images = t, max(b.images, t.n)
			}
		}
	}
	out := make([]byClass, 0, len(found))
	for _, b := range found {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b byClass) int { return cmp.Compare(a.label, b.label) })
	return out
}

// ends are the classes of lowest and of highest weight, in the order of that; of equal ones
// the lower label comes first.
func ends(classes []byClass, controlled bool) []byClass {
	by := slices.Clone(classes)
	slices.SortStableFunc(by, func(a, b byClass) int { return cmp.Compare(a.weight(controlled), b.weight(controlled)) })
	return append(by[:endClasses:endClasses], by[len(by)-endClasses:]...)
}

// ClassTables give the accuracy of each class, a line a class, model and control; from the
// records, so that without them there is none. Of many classes the first table has the ends,
// and a second all of them.
func (s *suite) ClassTables() []table {
	rows := s.Rows()
	t := table{Anchor: s.Slug}
	models, controls := len(s.Models) > 1, len(s.Controls) > 1
	what := "Accuracy in % by class" + s.ofFirstSeed()
	switch {
	case controls:
		what += ": baseline (upper bar) / controlled (lower bar)"
	case len(s.Controls) == 1:
		what += ": baseline (upper bar) / controlled (lower bar, " + clean(s.Controls[0]) + ")"
	}
	t.Caption = s.caption(what)
	t.lead("Model", models)
	t.lead("Control", controls)
	t.lead("Class", true)
	t.Head = append(append(t.Head, "Images"), s.heads()...)
	whole, many := t, 0
	for _, r := range rows {
		classes := s.classes(r)
		if many = max(many, len(classes)); len(classes) > manyClasses {
			whole.Rows = append(whole.Rows, s.classRows(r, classes, models, controls)...)
			classes = ends(classes, r.Control != "")
		}
		t.Rows = append(t.Rows, s.classRows(r, classes, models, controls)...)
	}
	if many <= manyClasses {
		return []table{t.marked()}
	}
	whose := "of the controlled network"
	if len(s.Controls) == 0 {
		whose = "of the network"
	}
	t.note("", "Of %d classes, the %d with the lowest and the %d with the highest mean accuracy %s over the "+
		"columns; of equal ones the lower label comes first.", many, endClasses, endClasses, whose)
	if len(whole.Rows) > mostClasses {
		t.note("", "All %d lines would be too many for a page: records.jsonl has label and verdict of every image.",
			len(whole.Rows))
		return []table{t.marked()}
	}
	whole.Caption = "All classes. " + whole.Caption
	return []table{t.marked(), whole.marked()}
}

func (s *suite) classRows(r row, classes []byClass, models, controls bool) [][]box {
	var out [][]box
	for _, c := range classes {
		var line []box
		if models {
			line = append(line, text(clean(r.Model)))
		}
		if controls {
			line = append(line, text(clean(r.Control)))
		}
		line = append(line, text(s.className(c.label)), text(thousands(c.images)))
		for _, both := range c.sides {
			line = append(line, classBox(both, r.Control != ""))
		}
		out = append(out, line)
	}
	return out
}

// className is a class by its name where the data set has names, else by its number.
func (s *suite) className(label int) string {
	if label >= 0 && label < len(s.classNames) {
		return clean(s.classNames[label])
	}
	return strconv.Itoa(label)
}

// classBox writes a class's accuracy on one side or both, with bars.
func classBox(both [2]tally, controlled bool) box {
	say := func(t tally) string {
		if t.n == 0 {
			return dash
		}
		return percent(t.share(), t.n)
	}
	b := text(say(both[0]))
	if !controlled {
		b.Bar = both[0].share()
		return b
	}
	b.Pair = &[2]float64{both[0].share(), both[1].share()}
	b.Spans = append(b.Spans, span{Text: " / "}, span{Text: say(both[1])})
	return b
}
