package figure

import (
	"fmt"
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

func init() {
	figures[result.BracketFigure] = charts[string]{
		title: "images in %", caption: "Images in % against the radius: left by attacks above, proven by bounds below",
		alt: "Images left by attacks and proven by bounds, in %, against the radius", parts: models, wide: true,
		panels: func(s *view.Suite) int { return len(bracketsOf(s)) },
		fill:   fillBrackets,
	}.row()
}

func bracketsOf(s *view.Suite) []*view.Apart {
	return view.Only(s.Certified, func(by *view.Apart) bool { return by.Of.Brackets() })
}

// fillBrackets adds a panel for each bracket and model: two step curves a defense with what is not known between them.
func fillBrackets(s *view.Suite, f *chart.Sheet, models []string) {
	var shown []string
	for _, by := range bracketsOf(s) {
		for _, m := range models {
			norm := by.Columns[0].Norm
			p := chart.Plot{Title: words.Clean(m), X: "radius in " + words.NormName(norm), High: curveHeight,
				YTicks: chart.PerCent()}
			end := 0.0
			for _, line := range by.Bracketed(s, m) {
				shown = append(shown, line.Defense)
				left, proven := chart.Series{Look: chart.LookOf(line.Index), Band: true},
					chart.Series{Look: chart.LookOf(line.Index)}
				left.Marks, proven.Marks = false, false
				for i, at := range line.Left {
					if i > 0 {
						before := line.Left[i-1].Accuracy
						left.Add(at.Epsilon, before)
						proven.Add(at.Epsilon, line.Proven[i-1].Accuracy)
						left.Low, left.High = append(left.Low, line.Proven[i-1].Accuracy), append(left.High, before)
					}
					left.Add(at.Epsilon, at.Accuracy)
					proven.Add(at.Epsilon, line.Proven[i].Accuracy)
					left.Low, left.High = append(left.Low, line.Proven[i].Accuracy), append(left.High, at.Accuracy)
				}
				end = max(end, left.X[len(left.X)-1])
				p.Series = append(p.Series, left, proven)
				f.Alt += fmt.Sprintf(" %s, %s, %s", words.Clean(m), words.DefenseName(line.Defense),
					words.Clean(by.Of.Title))
				for k := range 5 {
					r := end * float64(k) / 4
					i := max(slices.IndexFunc(line.Left, func(at view.Point) bool { return at.Epsilon > r })-1, 0)
					if k == 4 {
						i = len(line.Left) - 1
					}
					f.Alt += fmt.Sprintf(", %s to %s at %s", words.Percent(line.Proven[i].Accuracy, s.N),
						words.Percent(line.Left[i].Accuracy, s.N), words.Strength(norm, r))
				}
				f.Alt += "."
			}
			if len(p.Series) > 0 {
				if p.Box = [4]float64{0, 0, max(end, 1e-9), 1}; norm == "linf" && end > 2./255 {
					p.XTicks = levelTicks(end, int((f.PanelWidth()-44)/44))
				}
				f.Panels = append(f.Panels, p)
			}
		}
	}
	if len(shown) > 0 {
		f.Legend = legend(s, chart.Look{Line: true}, shown...)
	}
}
