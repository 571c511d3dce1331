package figure

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

func init() {
	figures[result.ControlFigure] = figure{file: func(s *view.Suite) chart.Sheet {
		f := Traces(s)
		return f.Sheet(headlines(f.Title, s.Facts()+s.OfFirstSeed(), s.Made())...)
	}}
}

// Traces draws the norms of the controls layer by layer and the objective from sweep to sweep, for a few networks.
func Traces(s *view.Suite) chart.Figure {
	all := s.Traced()
	f := chart.Figure{Title: "Control: " + s.Heading(), Columns: 2}
	if len(all) > view.MostTraced {
		return f
	}
	narrow := f.Sheet().PanelWidth()
	var said []string
	for _, t := range all {
		if len(t.Layers) > 1 { // of one layer the table says it
			f.Panels = append(f.Panels, normPanel(s, t, numbered(t, narrow)))
			said = view.Once(said,
				"norm ‖u_t‖ of the control at each layer, mean over the images, for each kind of images")
		}
		if t.Sweeps() > 0 {
			f.Panels = append(f.Panels, objectivePanel(s, t))
			said = view.Once(said, "how far the control objective, mean over the first images, lies from its greedy "+
				"start after each sweep")
		}
	}
	f.Caption = s.Caption(words.Heading(strings.Join(said, "; and ")) + s.OfFirstSeed())
	return f
}

// columnLook is how all panels draw a column: clean images in ink and dashed, the attacks in the series' colours.
func columnLook(s *view.Suite, col words.Column) chart.Series {
	i := max(slices.IndexFunc(s.Columns, col.Same), 0)
	one := chart.LookOf(i).Labelled(col.Title(), 200)
	if one.Colour = chart.Ink; i > 0 {
		one.Colour = i % 6
	}
	return one
}

// numbered reports whether the layers' names are too long to stand side by side: numbers then stand for them.
func numbered(t view.Traced, width vg.Length) bool {
	const axis, apart = 0.85, 6 // of the width; between two names
	return slices.ContainsFunc(t.Layers, func(l string) bool {
		return chart.Small.Width(l)+apart > axis*width/vg.Length(len(t.Layers))
	})
}

// normPanel has the layers side by side, the columns dodged so that equal norms stay apart.
func normPanel(s *view.Suite, t view.Traced, numbered bool) chart.Plot {
	p := chart.Plot{Title: t.Name(), X: "layer", Y: "‖u_t‖, mean over the images", XTicks: chart.Named(t.Layers),
		Note: s.Caption("Norm of the control at each layer" + s.OfFirstSeed())}
	if numbered {
		p.X = "layer, counted from the input"
		for i := range p.XTicks {
			p.XTicks[i].Label = fmt.Sprint(i + 1)
		}
	}
	step := min(0.12, 0.6/float64(len(t.Columns)))
	for k, v := range t.Solvers {
		one := columnLook(s, t.Columns[k])
		one.Line = len(t.Layers) > 2 // between two there is no course to follow
		for i, l := range v.Layers {
			one.Add(float64(i)+step*(float64(k)-float64(len(t.Columns)-1)/2), l.ControlNorm)
		}
		p.Series = append(p.Series, one)
	}
	return p.Framed(-0.5, float64(len(t.Layers))-0.5)
}

// objectivePanel follows the objective's difference from the greedy start, which is small beside the objective itself.
func objectivePanel(s *view.Suite, t view.Traced) chart.Plot {
	n := t.Sweeps()
	p := chart.Plot{Title: t.Name(), X: "sweep", Y: fmt.Sprintf("objective − that of the greedy start, "+
		"mean over the first %s", words.Plural(t.Solvers[0].Traced, "image")),
		Note: s.Caption("Objective less that of the greedy start" + s.OfFirstSeed())}
	labels, shown := make([]string, n+1), view.ShownSweeps(n)
	if labels[0] = "greedy start"; len(shown) < n { // there is no room for that, and for sweep 1
		labels[0], p.X, shown = "0", "sweep; 0: the greedy start", shown[1:]
	}
	for _, k := range shown {
		labels[k] = fmt.Sprint(k)
	}
	p.XTicks = chart.Named(labels)
	for i, v := range t.Solvers {
		one := columnLook(s, t.Columns[i])
		marks := one
		one.Marks, marks.Line = false, false
		for k, j := range v.Sweeps {
			one.Add(float64(k), j-v.Sweeps[0])
			if labels[k] != "" && k > 0 { // all begin at 0
				marks.Add(float64(k), j-v.Sweeps[0])
			}
		}
		p.Series = append(p.Series, one, marks)
	}
	var reach [2]float64
	for _, s := range p.Series {
		chart.Widen(&reach, s.Y, false)
	}
	if reach[0] == reach[1] {
		reach[0] = -1
	}
	p.Box = [4]float64{-0.35, reach[0], float64(n) + 0.15, reach[1]}
	return p
}
