package figure

import (
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// mostWaterfalls is the largest number of charts in the figure, as many as fit on a printed page. A larger suite has
// only the table of components.
const mostWaterfalls = 12

func init() {
	figures[result.WaterfallFigure] = charts[waterfall]{
		title: "accuracy in %", caption: "Accuracy in % after each component",
		alt:      "Accuracy in % on the clean images and after each attack component",
		attacked: true, parts: waterfalls, fill: fillWaterfalls,
	}.row()
}

// waterfall shows, for one attack, how the accuracy of each separately attacked defense falls from component to
// component.
type waterfall struct {
	model  string
	attack words.Column
	names  []string // "Clean", and the components
	lines  []waterfallLine
}

type waterfallLine struct {
	defense string
	index   int                // index of the line in series
	left    map[string]float64 // accuracy by component; a component that had no image left to attack has none
	n       int                // number of images
}

// waterfalls returns the suite's charts, one for each model and attack of several components, or none if there are too
// many.
func waterfalls(s *view.Suite) (out []waterfall) {
	for _, m := range s.Models {
		for i, col := range s.Columns {
			w := waterfall{model: m, attack: col, names: components(s, col)}
			for _, one := range s.Series(m) {
				c := one.Cells[i]
				if c == nil || len(c.Steps) == 0 || len(w.names) < 3 {
					continue
				}
				line := waterfallLine{one.Defense, one.Index, map[string]float64{}, c.N}
				if clean := one.Cells[0]; clean != nil {
					line.left["Clean"] = clean.Accuracy
				}
				for k, name := range words.Components(c.Steps) {
					line.left[name] = c.Steps[k].Robust
				}
				w.lines = append(w.lines, line)
			}
			if w.lines != nil {
				out = append(out, w)
			}
		}
	}
	if len(out) > mostWaterfalls {
		return nil
	}
	return out
}

// components returns "Clean" and the components of the longest run of an attack: a run that breaks every image early
// has fewer.
func components(s *view.Suite, col words.Column) []string {
	var longest []string
	s.Each(func(c *result.Cell, of words.Column) {
		if of.Same(col) && len(c.Steps) > len(longest) {
			longest = words.Components(c.Steps)
		}
	})
	return append([]string{"Clean"}, longest...)
}

// text returns the label of a bar.
func (l waterfallLine) text(name string) string {
	if left, known := l.left[name]; known {
		return words.Percent(left, l.n)
	}
	return words.Dash
}

// fillWaterfalls adds a panel for each chart: groups of bars for clean images and each component, one bar per defense.
func fillWaterfalls(s *view.Suite, f *chart.Sheet, charts []waterfall) {
	var shown []string
	for _, w := range charts {
		f.Panels = append(f.Panels, w.panel(f.PanelWidth()))
		for _, line := range w.lines {
			shown = append(shown, line.defense)
			said := lists.Map(w.names, func(name string) string { return name + " " + line.text(name) })
			say(f, said, append(s.Who(w.model, line.defense), w.attack.Title())...)
		}
	}
	f.Legend = legend(s, chart.Look{Bars: true}, shown...)
}

// panel draws one chart: each bar is the accuracy left after a component, with its decrease in a tint above.
func (w waterfall) panel(width vg.Length) chart.Plot {
	p := grouped(len(w.names), len(w.lines), width, 26, func(i int, room vg.Length) []string {
		return broken(w.names[i], room)
	})
	p.Title, p.Y, p.High = words.Clean(w.model), w.attack.Title(), 118
	for k := range p.Bars {
		i, line, b := k/len(w.lines), w.lines[k%len(w.lines)], &p.Bars[k]
		if len(w.lines) == 1 { // it has no neighbours
			b.Room = 1
		}
		after, known := line.left[w.names[i]]
		if b.Look, b.Text, b.Top = chart.LookOf(line.index), line.text(w.names[i]), after; known && i > 0 {
			b.Before = line.left[w.names[i-1]]
		}
	}
	return p
}

// broken breaks a wide name at its dash to fit a group. Others may reach slightly beyond.
func broken(name string, w vg.Length) []string {
	st := chart.Small
	parts := []string{name}
	if head, tail, found := strings.Cut(name, "-"); found && st.Width(name) > w-3 {
		parts = []string{head, tail}
	}
	return lists.Map(parts, func(part string) string { return chart.Fit(part, st, w+1) })
}
