package figure

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

func init() {
	figures[result.CorruptionsFigure] = charts[string]{
		title: "accuracy in %", caption: corruptionCaption, alt: corruptionCaption,
		parts:  models,
		panels: func(s *view.Suite) int { return len(s.Corrupted()) }, wide: true,
		fill: fillCorruptions,
	}.row()
}

const corruptionCaption = "Accuracy in % by corruption, mean over its severities"

// fillCorruptions adds a panel for each model: a line for each corruption, below them their mean, with one marker per
// defense.
func fillCorruptions(s *view.Suite, f *chart.Sheet, models []string) {
	least := 1.0 // over all panels, which share a scale
	for _, by := range s.Corrupted() {
		lines := append(slices.Collect(slices.Chunk(by.Names, 1)), by.Names)
		for _, m := range models {
			p := chart.Plot{Title: words.Clean(m), X: "accuracy", XTicks: chart.PerCent(),
				Box: [4]float64{0, -0.5, 1, float64(len(lines)) - 0.5}, High: 14 * vg.Length(len(lines)+3)}
			if len(s.Corrupted()) > 1 {
				p.Y = words.Clean(by.Attack)
			}
			labels := make([]string, len(lines)) // from the bottom
			for i, d := range s.Defenses() {
				if s.Side(d).Again {
					continue
				}
				below := 0.75 * (float64(i+1)/float64(len(s.Defenses())+1) - 0.5) // so that equal values stay apart
				marks := chart.Series{Look: chart.LookOf(i)}
				marks.Line = false
				var said []string
				for k, names := range lines {
					title := "Mean"
					if k < len(by.Names) {
						title = words.CorruptionTitle(names[0])
					}
					place := len(lines) - 1 - k
					labels[place] = title
					if c := by.Mean(m, d, names, by.Severities); c != nil {
						marks.Add(c.Accuracy, float64(place)-below)
						least = min(least, c.Accuracy)
						said = append(said, title+" "+words.Accuracy(c))
					}
				}
				p.Series = append(p.Series, marks)
				say(f, said, s.Who(m, d)...)
			}
			slices.Reverse(p.Series) // the undefended network's marks lie on top
			p.YTicks = chart.Named(labels)
			f.Panels = append(f.Panels, p)
		}
	}
	from := math.Floor(5*least) / 5
	for i := range f.Panels {
		p := f.Panels[i].(chart.Plot)
		p.Box[0] = from
		p.XTicks = slices.DeleteFunc(p.XTicks, func(t plot.Tick) bool { return t.Value < from })
		f.Panels[i] = p
	}
	f.Legend = legend(s, chart.Look{Marks: true})
}
