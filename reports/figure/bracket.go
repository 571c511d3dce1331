package figure

import (
	"fmt"

	"selfheal/harness/result"
	"selfheal/internal/lists"
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
	return lists.Only(s.Certified, func(by *view.Apart) bool { return by.Of.Brackets() })
}

// fillBrackets adds a panel for each bracket and model: two step curves per defense, with the open region between them
// shaded.
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
				left, proven := stepsOf(line.Left), stepsOf(line.Proven)
				left.Look, proven.Look = chart.LookOf(line.Index), chart.LookOf(line.Index)
				left.Marks, proven.Marks = false, false
				left.Band, left.Low, left.High = true, proven.Y, left.Y
				end = max(end, left.X[len(left.X)-1])
				p.Series = append(p.Series, left, proven)
				f.Alt += fmt.Sprintf(" %s, %s, %s", words.Clean(m), words.DefenseName(line.Defense),
					words.Clean(by.Of.Title))
				for k := range 5 {
					r := end * float64(k) / 4
					f.Alt += fmt.Sprintf(", %s to %s at %s", words.Percent(view.At(line.Proven, r), s.N),
						words.Percent(view.At(line.Left, r), s.N), words.Strength(norm, r))
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
