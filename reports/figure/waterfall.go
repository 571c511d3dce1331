package figure

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

const waterfallHeight = vg.Length(118)

func init() {
	figures[result.WaterfallFigure] = charts[view.Waterfall]{
		title: "accuracy in %", caption: "Accuracy in % after each component",
		alt:   "Accuracy in % on the clean images and after each attack component",
		seeds: (*view.Suite).OfFirstSeed, attacked: true, parts: (*view.Suite).Waterfalls,
		fill: fillWaterfalls,
	}.row()
}

// fillWaterfalls adds a panel for each chart: a group of bars for the clean images and one for every component, a bar a
// defense.
func fillWaterfalls(s *view.Suite, f *chart.Sheet, charts []view.Waterfall) {
	var shown []string
	for _, w := range charts {
		f.Panels = append(f.Panels, waterfallPanel(w, f.PanelWidth()))
		for _, line := range w.Lines {
			shown = append(shown, line.Defense)
			var said []string
			for i, name := range append([]string{"None"}, w.Components...) {
				said = append(said, name+" "+line.Value(i))
			}
			f.Alt += fmt.Sprintf(" %s, %s, %s: %s.", words.Clean(w.Model), words.DefenseName(line.Defense),
				w.Attack.Title(), strings.Join(said, ", "))
		}
	}
	f.Legend = legend(s, chart.Look{Bars: true}, shown...)
}

// waterfallPanel draws one chart: every bar is the accuracy left after a component, with what the
// component took in a tint above it.
func waterfallPanel(w view.Waterfall, width vg.Length) chart.Plot {
	names := append([]string{"None"}, w.Components...)
	p := barPanel(len(names))
	p.Title, p.Y, p.High = words.Clean(w.Model), w.Attack.Title(), waterfallHeight
	group := (width - 26) / vg.Length(len(names)) // without the labels on the left
	var labels []string
	for i, name := range names {
		labels = append(labels, strings.Join(broken(name, group), "\n"))
		for j, line := range w.Lines {
			b := groupedBar(line.Index, i, j, len(w.Lines), 26/float64(group), line.Value(i))
			if len(w.Lines) == 1 { // no neighbour on either side
				b.Room = 1
			}
			if after := line.Left[i]; after != nil {
				b.Top = *after
				if i > 0 && line.Left[i-1] != nil {
					b.Before = *line.Left[i-1]
				}
			}
			p.Bars = append(p.Bars, b)
		}
	}
	p.XTicks = chart.Named(labels)
	return p
}

// broken is a name for a group of this width: in two lines, at its dash, where it is wider.
// Without a dash it may reach a little beyond, as its neighbours' are then broken.
func broken(name string, w vg.Length) []string {
	st := chart.Small
	parts := []string{name}
	if head, tail, found := strings.Cut(name, "-"); found && st.Width(name) > w-3 {
		parts = []string{head, tail}
	}
	for i := range parts {
		parts[i] = chart.Fit(parts[i], st, w+1)
	}
	return parts
}
