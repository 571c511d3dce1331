package figure

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// mostWaterfalls is how many charts the figure has at most, as many as a printed page has
// room for. The table of the components stands for those of a larger suite.
const mostWaterfalls = 12

func init() {
	figures[result.WaterfallFigure] = charts[waterfall]{
		title: "accuracy in %", caption: "Accuracy in % after each component",
		alt:      "Accuracy in % on the clean images and after each attack component",
		attacked: true, parts: waterfalls, fill: fillWaterfalls,
	}.row()
}

// waterfall is what the components of one attack took, one after another, of each defense that was attacked on its own.
type waterfall struct {
	model  string
	attack words.Column
	names  []string // "Clean", and the components
	lines  []waterfallLine
}

type waterfallLine struct {
	defense string
	index   int                // as in series
	left    map[string]float64 // accuracy by name; a component that had no image left to attack has none
	n       int                // images
}

// waterfalls are the suite's charts, one a model and attack of several components, or none where they are too many.
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
				for k, name := range componentNames(c.Steps) {
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

// components are "Clean" and those of the longest run of an attack: one that found no image left has no step.
func components(s *view.Suite, col words.Column) []string {
	var longest []string
	s.Each(func(c *result.Cell, of words.Column) {
		if of.Same(col) && len(c.Steps) > len(longest) {
			longest = componentNames(c.Steps)
		}
	})
	return append([]string{"Clean"}, longest...)
}

// componentNames are a cell's components as figures call them: "APGD-CE", "FAB-T". One that runs again is numbered.
func componentNames(steps []result.Step) (out []string) {
	seen := map[string]int{}
	for _, st := range steps {
		name, known := words.AttackNames[st.Attack]
		if !known {
			name = words.Clean(st.Attack)
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		out = append(out, name)
	}
	return out
}

// text is what stands at a bar.
func (l waterfallLine) text(name string) string {
	if left, known := l.left[name]; known {
		return words.Percent(left, l.n)
	}
	return words.Dash
}

// fillWaterfalls adds a panel for each chart: groups of bars for clean images and each component, a bar a defense.
func fillWaterfalls(s *view.Suite, f *chart.Sheet, charts []waterfall) {
	var shown []string
	for _, w := range charts {
		f.Panels = append(f.Panels, w.panel(f.PanelWidth()))
		for _, line := range w.lines {
			shown = append(shown, line.defense)
			said := lists.Map(w.names, func(name string) string { return name + " " + line.text(name) })
			say(f, said, w.model, words.DefenseName(line.defense), w.attack.Title())
		}
	}
	f.Legend = legend(s, chart.Look{Bars: true}, shown...)
}

// panel draws one chart: each bar is the accuracy left after a component, with what it took in a tint above.
func (w waterfall) panel(width vg.Length) chart.Plot {
	p := grouped(len(w.names), len(w.lines), width, 26, func(i int, room vg.Length) []string {
		return broken(w.names[i], room)
	})
	p.Title, p.Y, p.High = words.Clean(w.model), w.attack.Title(), 118
	for k := range p.Bars {
		i, line, b := k/len(w.lines), w.lines[k%len(w.lines)], &p.Bars[k]
		if len(w.lines) == 1 { // no neighbour on either side
			b.Room = 1
		}
		after, known := line.left[w.names[i]]
		if b.Look, b.Text, b.Top = chart.LookOf(line.index), line.text(w.names[i]), after; known && i > 0 {
			b.Before = line.left[w.names[i-1]]
		}
	}
	return p
}

// broken is a name for a group of this width: a wide one is broken at its dash. Others may reach a little beyond.
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
