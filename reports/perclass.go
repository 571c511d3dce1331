package reports

import (
	"cmp"
	"maps"
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

func (t tally) String() string {
	if t.n == 0 {
		return dash
	}
	return percent(t.share(), t.n)
}

const (
	manyClasses = 20   // above it a table has the ends only
	endClasses  = 10   // of each end
	mostClasses = 1000 // rows of a page's tables of all classes
)

// byClass is a class of one row of the accuracy table: its images, and its accuracy under
// each column on both sides.
type byClass struct {
	label, images int
	sides         [][2]tally
}

// weight is what classes are put in order by: the mean accuracy over the columns on a side.
func (c byClass) weight(side int) float64 {
	var sum, n float64
	for _, t := range c.sides {
		if t[side].n > 0 {
			sum, n = sum+t[side].share(), n+1
		}
	}
	return sum / max(n, 1)
}

// classes sorts the records of a row's cells by class, in the order of the labels; nil
// where there are none.
func (s *suite) classes(r row) (out []byClass) {
	found := map[int]byClass{}
	for i, e := range r.Entries {
		for side, c := range []*result.Cell{e.Baseline, e.Controlled} {
			if c == nil || s.margins[keyOf(c)] == nil {
				continue
			}
			for label, t := range s.margins[keyOf(c)].classes {
				b, known := found[label]
				if !known {
					b = byClass{label: label, sides: make([][2]tally, len(r.Entries))}
				}
				b.sides[i][side], b.images = t, max(b.images, t.n)
				found[label] = b
			}
		}
	}
	for _, label := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[label])
	}
	return out
}

// ends are the classes of lowest and of highest weight, in the order of that; of equal ones
// the lower label comes first.
func ends(classes []byClass, side int) []byClass {
	by := slices.SortedStableFunc(slices.Values(classes),
		func(a, b byClass) int { return cmp.Compare(a.weight(side), b.weight(side)) })
	return append(by[:endClasses:endClasses], by[len(by)-endClasses:]...)
}

// ClassTables give the accuracy of each class, a line a class, model and control; from the
// records, so that without them there is none. Of many classes the first table has the ends,
// and a second all of them.
func (s suiteTables) ClassTables() []table {
	what, whose, side := "Accuracy in % by class"+s.ofFirstSeed()+versus(s.Controls), "of the network", 0
	if len(s.Controls) > 0 {
		what, whose, side = what+", upper / lower bar", "of the controlled network", 1
	}
	t := table{Anchor: s.Slug, Caption: s.caption(what)}
	t.lead("Model", len(s.Models) > 1)
	t.lead("Control", len(s.Controls) > 1)
	t.lead("Class", true)
	t.Head = append(append(t.Head, "Images"), s.heads()...)
	whole, many := t, 0
	for _, r := range s.Rows() {
		classes := s.classes(r)
		for _, c := range classes {
			whole.Rows = append(whole.Rows, s.classRow(r, c))
		}
		if many = max(many, len(classes)); len(classes) > manyClasses {
			classes = ends(classes, side)
		}
		for _, c := range classes {
			t.Rows = append(t.Rows, s.classRow(r, c))
		}
	}
	if many <= manyClasses {
		return []table{t.marked()}
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

func (s suiteTables) classRow(r row, c byClass) (line []box) {
	if len(s.Models) > 1 {
		line = append(line, text(clean(r.Model)))
	}
	if len(s.Controls) > 1 {
		line = append(line, text(clean(r.Control)))
	}
	line = append(line, text(s.className(c.label)), text(thousands(c.images)))
	for _, both := range c.sides {
		b := text(both[0].String())
		if r.Control == "" {
			b.Bar = both[0].share()
		} else {
			b.Pair = &[2]float64{both[0].share(), both[1].share()}
			b.Spans = append(b.Spans, span{Text: " / "}, span{Text: both[1].String()})
		}
		line = append(line, b)
	}
	return line
}

// className is a class by its name where the data set has names, else by its number.
func (s *suite) className(label int) string {
	if label >= 0 && label < len(s.classNames) {
		return clean(s.classNames[label])
	}
	return strconv.Itoa(label)
}
