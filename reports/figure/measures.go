package figure

import (
	"slices"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

func init() {
	figures[result.MeasuresFigure] = charts[view.Series]{
		title: "measures of the task", caption: "Measures of the task, means over the images",
		alt: "Measures of the task", attacked: true, wide: true,
		parts: func(s *view.Suite) []view.Series {
			return lists.Only(s.Lines(), func(one view.Series) bool { return len(measuresOf(one)) > 0 })
		},
		fill: fillMeasures,
	}.row()
}

// measuresOf lists the measures of a model under a defense.
func measuresOf(one view.Series) (names []string) {
	for _, c := range one.Cells {
		if c != nil {
			names = append(names, lists.Map(c.Measures, func(m result.Measure) string { return m.Name })...)
		}
	}
	return lists.Distinct(names, func(name string) string { return name })
}

// fillMeasures adds a panel for each model under each defense: a line for each measure, with a mark for each attack.
func fillMeasures(s *view.Suite, f *chart.Sheet, all []view.Series) {
	for _, one := range all {
		names := measuresOf(one)
		slices.Reverse(names) // lines are counted from the bottom
		p := chart.Plot{Title: words.Clean(one.Model), X: "value", YTicks: chart.Named(names),
			High: 14 * vg.Length(len(names)+3)}
		if one.Defense != cell.None {
			p.Title += ", controlled: " + words.Clean(one.Defense)
		}
		var said []string
		for i, c := range one.Cells {
			if c == nil || c.Measures == nil {
				continue
			}
			marks := chart.LookOf(i).Labelled(s.Columns[i].Title(), chart.OneColumn/2)
			marks.Line = false
			for _, m := range c.Measures {
				marks.Add(m.Value, float64(slices.Index(names, m.Name)))
				said = append(said, s.Columns[i].Title()+" "+m.Name+" "+words.ThreeDigits(m.Value))
			}
			p.Series = append(p.Series, marks)
		}
		x, _ := p.Reach()
		p.Box = [4]float64{min(x[0], 0), -0.5, max(x[1], 1e-9), float64(len(names)) - 0.5}
		say(f, said, s.Who(one.Model, one.Defense)...)
		f.Panels = append(f.Panels, p)
		f.Legend = append(f.Legend, p.Series...)
	}
	f.Legend = chart.Merged(f.Legend)
}
