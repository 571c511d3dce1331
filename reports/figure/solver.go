package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// methodLooks holds the methods' colours and markers; the undefended network has its own, as in every figure.
var methodLooks = map[string]struct{ colour, marker, dash int }{
	"none": {0, 0, 1}, "msa": {1, 1, 1}, "greedy": {2, 2, 1}, "pmp": {3, 3, 1}, view.AtDefaultRate: {5, 4, 0},
}

func init() {
	figures[result.SolverFigure] = figure{file: func(s *view.Suite) chart.Sheet {
		title := "Solver: " + s.Heading()
		if len(s.Studies) == 1 { // its panels don't name it
			title += ", " + s.Studies[0].Name()
		}
		return Study(title, s.Studies...).Sheet(title)
	}}
}

// Study draws studies: for each kind of images two panels, objective and accuracy against the passes spent. A single
// study has a row for each kind; of several studies each has one row.
func Study(title string, all ...view.Study) chart.Figure {
	f := chart.Figure{Title: title, Columns: 2, Caption: "Objective of the control problem (mean over the images, " +
		"with its standard error after a sweep) and accuracy, of a solver that stops after so many plain passes, by " +
		"FLOPs. Markers are ends of sweeps, the lines between them ascent steps; dotted lines carry on what greedy " +
		"control and the undefended network reach. Bands are 95 % Wilson intervals."}
	for _, s := range all {
		f.Columns = max(f.Columns, 2*min(len(s.Kinds()), len(all)))
	}
	for _, s := range all {
		first := len(f.Panels)
		for _, kind := range s.Kinds() {
			f.Panels = append(f.Panels, studyPanels(s, kind)...)
		}
		if len(all) == 1 {
			break
		}
		for i := range f.Panels[first:] { // the name heads the whole row
			f.Panels[first+i].Title = ""
		}
		for len(f.Panels)%f.Columns != 0 { // a study without adversarial images
			f.Panels = append(f.Panels, chart.Plot{})
		}
		if len(f.Panels) > first {
			f.Panels[first].Title = s.Name()
		}
	}
	return f
}

// studyPanels returns a study's panels on images of one kind, titled by their contents.
func studyPanels(s view.Study, kind string) []chart.Plot {
	images, end, lines := words.Clean(kind)+" images", 1.0, chart.Plot{}
	objective := chart.Plot{Title: "objective, " + images, X: "plain passes",
		Y: fmt.Sprintf("objective, %d %s", s.N, images), LogX: true}
	accuracy := chart.Plot{Title: "accuracy, " + images, X: "plain passes", Y: "accuracy in %, " + words.Clean(kind),
		LogX: true}
	for _, c := range s.Curves {
		for _, p := range c.Points {
			end = max(end, p.Passes)
		}
	}
	for _, b := range s.Baseline {
		if b.Images == kind {
			line, marks := studySeries(s, "none", []float64{1}, []float64{100 * b.Accuracy}, []bool{true}, end)
			accuracy.Series = append(accuracy.Series, line.Banded(s.N, 100), marks)
		}
	}
	for _, m := range slices.Backward(s.Methods()) { // greedy control on top
		c := s.Curve(m, kind)
		if c == nil {
			continue
		}
		var x, means, errors, shares []float64
		for _, p := range c.Points {
			x, shares = append(x, p.Passes), append(shares, 100*p.Accuracy)
			if p.Objective != nil && len(means) == len(x)-1 { // the line ends where the solver diverges
				means, errors = append(means, *p.Objective), append(errors, p.StandardError)
			}
		}
		done := markedSweeps(c.Points)
		line, marks := studySeries(s, m, x, shares, done, end)
		accuracy.Series = append(accuracy.Series, line.Banded(s.N, 100), marks)
		if n := len(means); n > 0 {
			line, marks := studySeries(s, m, x[:n], means, done, end)
			lines.Series = append(lines.Series, line)
			for i, e := range errors {
				if done[i] {
					marks.Low, marks.High = append(marks.Low, means[i]-e), append(marks.High, means[i]+e)
				}
			}
			objective.Series = append(objective.Series, line, marks)
		}
	}
	if _, of := lines.Reach(); of[0] <= of[1] {
		objective.LogY = of[0] > 0 && of[1] > 20*of[0]
		for _, s := range objective.Series {
			for i := range s.Low {
				if objective.LogY { // on such an axis error bars end at half the least mean
					s.Low[i] = max(s.Low[i], of[0]/2)
				}
			}
		}
		_, of = objective.Reach()
		objective.Box = [4]float64{1, of[0], end, of[1]}
	}
	accuracy.Box = [4]float64{1, 0, end, 100}
	return []chart.Plot{objective, accuracy}
}

// markedSweeps says which points have a marker: ends of sweeps, as many as fit.
func markedSweeps(points []result.SolverPoint) (out []bool) {
	last := lists.Count(points, func(p result.SolverPoint) bool { return p.Done }) - 1
	shown := append([]int{0}, view.ShownSweeps(last)...)
	sweep := -1
	for _, p := range points {
		if p.Done {
			sweep++
		}
		out = append(out, p.Done && slices.Contains(shown, sweep))
	}
	return out
}

// studySeries returns the line of a method and its markers at the points in shown. A single value becomes a line to the
// end.
func studySeries(s view.Study, method string, x, y []float64, shown []bool, end float64) (line, marks chart.Series) {
	how, name := methodLooks[method], s.Called(method)
	line, marks = chart.Lined(name, how.colour, how.dash), chart.Marked(name, how.colour, how.marker)
	line.X, line.Y = x, y
	for i := range x {
		if shown[i] {
			marks.Add(x[i], y[i])
		}
	}
	if len(x) == 1 {
		line.X, line.Y, line.Dash = []float64{x[0], end}, []float64{y[0], y[0]}, 3 // dotted
	}
	return line, marks
}

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
		if len(t.Layers) > 1 { // for a single layer the table suffices
			f.Panels = append(f.Panels, normPanel(s, t, narrow))
			said = lists.Once(said,
				"norm ‖u_t‖ of the control at each layer, mean over the images, for each kind of images")
		}
		if t.Sweeps() > 0 {
			f.Panels = append(f.Panels, objectivePanel(s, t))
			said = lists.Once(said, "how far the control objective, mean over the first images, lies from its greedy "+
				"start after each sweep")
		}
	}
	f.Caption = s.Caption(words.Heading(strings.Join(said, "; and ")) + s.OfFirstSeed())
	return f
}

// columnLook returns a column's look in all panels: clean images in ink and dashed, the attacks in the series' colours.
func columnLook(s *view.Suite, col words.Column) chart.Series {
	i := max(slices.IndexFunc(s.Columns, col.Same), 0)
	one := chart.LookOf(i).Labelled(col.Title(), 200)
	if one.Colour = chart.Ink; i > 0 {
		one.Colour = i % 6
	}
	return one
}

// normPanel shows the layers side by side; the columns are shifted so that equal norms stay apart.
func normPanel(s *view.Suite, t view.Traced, width vg.Length) chart.Plot {
	p := chart.Plot{Title: t.Name(), X: "layer", Y: "‖u_t‖, mean over the images", XTicks: chart.Named(t.Layers),
		Note: s.Caption("Norm of the control at each layer" + s.OfFirstSeed())}
	const axis, apart = 0.85, 6                            // fraction of the width; space between two names
	if slices.ContainsFunc(t.Layers, func(l string) bool { // numbers replace long names
		return chart.Small.Width(l)+apart > axis*width/vg.Length(len(t.Layers))
	}) {
		p.X = "layer, counted from the input"
		for i := range p.XTicks {
			p.XTicks[i].Label = fmt.Sprint(i + 1)
		}
	}
	step := min(0.12, 0.6/float64(len(t.Columns)))
	for k, v := range t.Solvers {
		one := columnLook(s, t.Columns[k])
		one.Line = len(t.Layers) > 2 // two points show no course
		for i, l := range v.Layers {
			one.Add(float64(i)+step*(float64(k)-float64(len(t.Columns)-1)/2), l.ControlNorm)
		}
		p.Series = append(p.Series, one)
	}
	_, of := p.Reach()
	if p.LogY = of[0] > 0 && of[1] > 10*of[0]; !p.LogY {
		of[0] = 0
	}
	p.Box = [4]float64{-0.5, of[0], float64(len(t.Layers)) - 0.5, 1.06 * cmp.Or(of[1], 1)} // with room for the markers
	return p
}

// objectivePanel shows the objective's difference from the greedy start, which is small beside the objective itself.
func objectivePanel(s *view.Suite, t view.Traced) chart.Plot {
	n := t.Sweeps()
	p := chart.Plot{Title: t.Name(), X: "sweep", Y: fmt.Sprintf("objective − that of the greedy start, "+
		"mean over the first %s", words.Plural(t.Solvers[0].Traced, "image")),
		Note: s.Caption("Objective less that of the greedy start" + s.OfFirstSeed())}
	labels, shown := make([]string, n+1), view.ShownSweeps(n)
	if labels[0] = "greedy start"; len(shown) < n { // no room for both that label and sweep 1's
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
	_, of := p.Reach()
	if of[0] == of[1] {
		of[0] = -1
	}
	p.Box = [4]float64{-0.35, of[0], float64(n) + 0.15, of[1]}
	return p
}
