package view

import (
	"fmt"
	"slices"

	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/reports/words"
)

// Paper is the paper's tables as a view, a suite a table.
func Paper() *Report {
	f := &result.File{}
	for _, t := range published.Tables() {
		addTable(f, t, t.Name, t.Caption, func(c published.Cell) string { return c.Model })
	}
	v := Of(f)
	v.Quoted, v.radars = true, paperRadars()
	for i, t := range published.Tables() {
		v.Suites[i].Quoted = true
		if t.Sides[0] != "none" {
			v.Suites[i].Sides = t.Sides
		}
	}
	return v
}

// paperRadars are the paper's figure of radar plots: of a network of each data set. It
// does not say which half of Table 2 its RN-18 is of, so that both are drawn.
func paperRadars() []*Suite {
	f := &result.File{}
	for _, r := range []struct{ model, table, title string }{
		{"RN-18", "table2", "RN-18 on CIFAR-10 (Table 2)"},
		{"WRN-76-10", "table3", "WRN-76-10 on CIFAR-100 (Table 3)"},
		{"EfficientNet-b0", "table4", "EfficientNet-b0 on Tiny-ImageNet (Table 4)"},
	} {
		t, _ := published.Lookup(r.table)
		t.Cells = slices.DeleteFunc(slices.Clone(t.Cells), func(c published.Cell) bool { return c.Model != r.model })
		addTable(f, t, r.model, r.title, func(c published.Cell) string { return c.Model + ", " + c.Training })
	}
	suites := Of(f).Suites
	for _, s := range suites {
		s.Quoted = true
	}
	return suites
}

// addTable adds a table as a suite called name; call gives a cell's model its name.
func addTable(f *result.File, t published.Table, name, title string, call func(published.Cell) string) {
	f.Suites = append(f.Suites, result.Suite{Name: name, Title: title, Dataset: t.Dataset, Mode: t.Mode})
	for _, c := range t.Cells {
		for i, side := range t.Sides {
			cell := result.Cell{Suite: name, Dataset: t.Dataset, Model: call(c), Defense: side, Mode: t.Mode,
				Attack: c.Attack.Name, Recipe: c.Attack.Kind, Accuracy: c.Accuracy[i]}
			if c.Attack.Norm != "" {
				cell.Norm, cell.Epsilon = &c.Attack.Norm, &c.Attack.Epsilon
			}
			f.Cells = append(f.Cells, cell)
		}
	}
}

// Title heads the report.
func (v *Report) Title() string {
	if v.Quoted {
		return "Published numbers"
	}
	return "Robustness report"
}

// quotedHeadline says what quoted numbers are.
func (v *Report) quotedHeadline() string {
	accuracies := 0
	for _, s := range v.Suites {
		accuracies += len(s.cells)
	}
	return fmt.Sprintf("%s as printed in Tables 2 to 7 of “%s” (%s). Nothing was run for this report.",
		words.Plural(accuracies, "accuracy", "accuracies"), published.Title, published.Authors)
}
