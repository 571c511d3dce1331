package view

import (
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Paper returns the paper's tables as a view, one suite per table, with the cells of runs beside them.
func Paper(runs ...*result.File) *Report {
	f := &result.File{}
	for _, t := range published.Tables() {
		addTable(f, t, t.Name, t.Caption, func(c published.Cell) string { return c.Model })
	}
	v := quoted(f)
	v.radars = paperRadars()
	ours := lists.Map(runs, Of)
	for i, t := range published.Tables() {
		if t.Sides[0] != cell.None {
			v.Suites[i].Sides = t.Sides
		}
		if runs != nil {
			v.Suites[i].Repeated = pairs(t, ours)
		}
	}
	return v
}

// quoted arranges published numbers.
func quoted(f *result.File) *Report {
	v := Of(f)
	v.Quoted = true
	for _, s := range v.Suites {
		s.Quoted = true
	}
	return v
}

// paperRadars returns the suites of the paper's figure of radar plots, one network per data set. The paper does not say
// which half of Table 2 its RN-18 comes from, so both are drawn.
func paperRadars() []*Suite {
	f := &result.File{}
	for _, r := range []struct{ model, table, title string }{
		{"RN-18", "table2", "RN-18 on CIFAR-10 (Table 2)"},
		{"WRN-76-10", "table3", "WRN-76-10 on CIFAR-100 (Table 3)"},
		{"EfficientNet-b0", "table4", "EfficientNet-b0 on Tiny-ImageNet (Table 4)"},
	} {
		t, _ := published.Lookup(r.table)
		t.Cells = lists.Only(t.Cells, func(c published.Cell) bool { return c.Model == r.model })
		addTable(f, t, r.model, r.title, func(c published.Cell) string { return c.Model + ", " + c.Training })
	}
	return quoted(f).Suites
}

// addTable adds a table as a suite called name; call names a cell's model.
func addTable(f *result.File, t published.Table, name, title string, call func(published.Cell) string) {
	f.Suites = append(f.Suites, result.Suite{Name: name, Title: title, Dataset: t.Dataset, Mode: t.Mode})
	for _, c := range t.Cells {
		for i, side := range t.Sides {
			one := result.Cell{Recipe: c.Attack.Kind, Accuracy: c.Accuracy[i], ID: cell.ID{Suite: name, Mode: t.Mode,
				Row:    cell.Row{Dataset: t.Dataset, Model: call(c), Defense: side},
				Column: cell.Column{Attack: c.Attack.Name, Epsilon: cell.Epsilon(c.Attack.Epsilon)}}}
			if c.Attack.Norm != "" {
				one.Norm = &c.Attack.Norm
			}
			f.Cells = append(f.Cells, one)
		}
	}
}

func (v *Report) Title() string {
	if v.Quoted {
		return "Published numbers"
	}
	return "Robustness report"
}

// beside returns published numbers whose controls are sides of a suite: of the mode that their source has, or of the
// first.
func beside(p *result.Published, sides []Side) *result.Published {
	if p == nil {
		return nil
	}
	all := *p
	all.Cells = slices.Clone(p.Cells)
	for i, c := range all.Cells {
		own := lists.Only(sides, func(s Side) bool { return s.Control == c.Defense })
		k := slices.IndexFunc(own, func(s Side) bool { return strings.HasPrefix(s.Mode, p.Mode) })
		if len(own) > 0 {
			all.Cells[i].Defense = own[max(k, 0)].Name
		}
	}
	return &all
}

// Compared is one of our cells beside the published number of the same cell.
type Compared struct {
	Model, Defense string
	Column         words.Column
	Cell           *result.Cell // nil for a number whose cell was not run
	Published      *float64     // a fraction; nil if the source lacks the cell
	Alone          *result.Cell // for a corruption: the network's alone
}

// Compared lists the suite's cells and the published numbers by model, defense and column, then the published numbers
// without a place in the suite. In a quoted view every cell is a published number.
func (s *Suite) Compared() (out []Compared) {
	var numbers []result.PublishedCell
	if s.Published != nil {
		numbers = s.Published.Cells
	}
	left := map[cell.ID]float64{}
	take := func(key cell.ID) *float64 {
		key.Source = ""
		accuracy, open := left[key]
		if !open {
			return nil
		}
		delete(left, key)
		return &accuracy
	}
	for _, p := range numbers {
		left[key(p.Model, p.Defense, p.Column)] = p.Accuracy
	}
	for _, one := range s.Lines() {
		for i, c := range one.Cells {
			col := s.Columns[i]
			line := Compared{Model: one.Model, Defense: one.Defense, Column: col, Cell: c,
				Published: take(key(one.Model, one.Defense, col.Column))}
			if c != nil && s.Quoted {
				line.Cell, line.Published = nil, &c.Accuracy
			}
			if line.Cell != nil || line.Published != nil {
				out = append(out, line)
			}
		}
	}
	var rest []Compared // numbers without a place
	for _, p := range numbers {
		if accuracy := take(key(p.Model, p.Defense, p.Column)); accuracy != nil {
			rest = append(rest, Compared{Model: p.Model, Defense: p.Defense, Column: publishedColumn(s, p),
				Published: accuracy})
		}
	}
	network := func(c Compared) [2]string { return [2]string{c.Model, c.Defense} }
	for _, of := range lists.Distinct(rest, network) { // one network's attacks together
		out = append(out, lists.Only(rest, func(c Compared) bool { return network(c) == of })...)
	}
	return out
}

// publishedColumn returns the suite's column of a published number, or a new one with the attack's name from the
// paper's tables.
func publishedColumn(s *Suite, p result.PublishedCell) words.Column {
	col := words.Column{Column: p.Column}
	if i := slices.IndexFunc(s.Columns, col.Same); i >= 0 {
		return s.Columns[i]
	}
	if p.Norm != nil {
		col.Norm = *p.Norm
	}
	t, _ := published.Lookup(s.Published.Source)
	if i := slices.IndexFunc(t.Cells, func(c published.Cell) bool { return c.Attack.Name == p.Attack }); i >= 0 {
		col.Recipe = t.Cells[i].Attack.Kind
	}
	return col
}

// Difference returns our accuracy minus the published one; both must be there.
func (c Compared) Difference() float64 { return c.Cell.Accuracy - *c.Published }

// Judged reports whether there is a published number and an interval of ours to compare it with.
func (c Compared) Judged() bool {
	return c.Cell != nil && c.Published != nil && words.Interval(c.Cell) != ""
}

// Side returns where the published number lies: −1 below our interval, 0 in it, +1 above. A number printed to a
// hundredth of a point is in the interval if it may have been before it was rounded.
func (c Compared) Side() int {
	const half = 0.00005
	switch {
	case *c.Published < c.Cell.CI95[0]-half:
		return -1
	case *c.Published > c.Cell.CI95[1]+half:
		return 1
	}
	return 0
}

// Verdict returns the side in words, or why there is none.
func (c Compared) Verdict() string {
	switch {
	case c.Cell == nil:
		return "not run"
	case c.Published == nil:
		return "extra"
	case !c.Judged():
		return words.Dash
	}
	return [...]string{"no, below", "yes", "no, above"}[c.Side()+1]
}
