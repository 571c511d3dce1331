package figure

import (
	"fmt"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

func init() {
	figures[result.QueriesFigure] = charts[view.Asked]{
		title: "accuracy in %", caption: "Accuracy in % against queries of an image, by attack",
		alt: "Accuracy in % against queries", attacked: true, parts: view.AskedOf, fill: fillQueries,
	}.row()
	figures[result.SidesFigure] = charts[view.Curves]{
		title: "accuracy in %", caption: "Accuracy in % against the side of the patch, with 95 % Wilson intervals",
		alt: "Accuracy in % against the side of the patch", attacked: true, parts: view.PatchCurves, fill: fillSides,
	}.row()
}

// fillQueries adds a panel for each model and defense: one line per attack.
func fillQueries(s *view.Suite, f *chart.Sheet, all []view.Asked) {
	looks := map[words.Column]int{} // an attack has the same look in all panels
	for _, a := range all {
		p := chart.Plot{Title: words.Clean(a.Model), X: "queries", High: curveHeight, YTicks: chart.PerCent()}
		if len(s.Controls) > 0 {
			p.Title += ", " + words.DefenseName(a.Defense)
		}
		end := 0.0
		for _, line := range a.Lines {
			col := line.Attack
			col.Epsilon, col.Norm, col.Recipe = 0, col.Title(), ""
			i, known := looks[col]
			if !known {
				i = len(looks)
				looks[col] = i
				f.Legend = append(f.Legend, chart.Look{Colour: i, Line: true, Dash: i}.Labelled(line.Attack.Title(),
					chart.OneColumn/2))
			}
			steps := stepsOf(line.Steps)
			steps.Look = chart.Look{Colour: i, Line: true, Dash: i}
			said := ""
			last := line.Steps[len(line.Steps)-1]
			for k := range 5 {
				q := last.Epsilon * float64(k) / 4
				said += fmt.Sprintf(", %s at %s", words.Percent(view.At(line.Steps, q), s.N),
					words.ThreeDigits(q))
			}
			f.Alt += fmt.Sprintf(" %s, %s, %s%s.", words.Clean(a.Model), words.DefenseName(a.Defense),
				line.Attack.Title(), said)
			end = max(end, last.Epsilon)
			p.Series = append(p.Series, steps)
		}
		p.Box = [4]float64{0, 0, max(end, 1), 1}
		f.Panels = append(f.Panels, p)
	}
}

// fillSides adds a panel for each model and patch: one line per defense.
func fillSides(s *view.Suite, f *chart.Sheet, all []view.Curves) {
	var shown []string
	for _, c := range all {
		p := chart.Plot{Title: words.Clean(c.Model), X: "side in pixels", Y: words.Clean(c.Attack.Attack),
			High: curveHeight, YTicks: chart.PerCent(), Box: [4]float64{0, 0, c.End() * 1.04, 1}}
		for _, line := range c.Lines {
			shown = append(shown, line.Defense)
			marks := chart.Series{Look: chart.LookOf(line.Index)}
			said := ""
			for _, at := range line.Points {
				marks.Add(at.Epsilon, at.Accuracy)
				said += fmt.Sprintf(", %s at %.0f", words.Percent(at.Accuracy, s.N), at.Epsilon)
			}
			p.Series = append(p.Series, marks.Banded(s.N, 1))
			f.Alt += fmt.Sprintf(" %s, %s%s.", words.Clean(c.Model), words.DefenseName(line.Defense), said)
		}
		f.Panels = append(f.Panels, p)
	}
	f.Legend = legend(s, chart.Look{Line: true, Marks: true}, shown...)
}
