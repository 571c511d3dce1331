package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/harness/result"

	"gonum.org/v1/plot/vg"
)

// mostTraced is how many networks under a control a figure of traces shows.
const mostTraced = 6

func init() {
	figures[result.ControlFigure] = section(func(s *suite) sheet {
		f := traceFigure(s)
		return f.Sheet(headlines(f.Title, s.Facts()+s.ofFirstSeed(), s.made())...)
	})
}

// traceFigure draws, where they are few enough, for each network under a control, the norms of its controls layer by
// layer, where there are several, and, where its solver makes sweeps, the objective from sweep to sweep.
func traceFigure(s *suite) plotFigure {
	all := s.Traced()
	f := plotFigure{Title: "Control: " + s.Heading(), Columns: 2}
	if len(all) > mostTraced {
		return f
	}
	narrow := f.Sheet().panelWidth()
	var said []string
	for _, t := range all {
		if len(t.Layers) > 1 { // of one layer the table says it
			f.Panels = append(f.Panels, normPanel(s, t, numbered(t, narrow)))
			said = once(said, "norm ‖u_t‖ of the control at each layer, mean over the images, for each kind of images")
		}
		if t.sweeps() > 0 {
			f.Panels = append(f.Panels, objectivePanel(s, t))
			said = once(said, "how far the control objective, mean over the first images, lies from its greedy start "+
				"after each sweep")
		}
	}
	f.Caption = s.caption(heading(strings.Join(said, "; and ")) + s.ofFirstSeed())
	return f
}

// columnLook is how a column of a suite is drawn: clean images in ink and dashed, the
// attacks in the series' colours. An attack keeps its look in all panels.
func columnLook(s *suite, col column) plotSeries {
	i := max(slices.IndexFunc(s.Columns, col.same), 0)
	one := plotSeries{look: lookOf(i), Label: fit(col.Title(), style(normal, false), 200)}
	if one.Colour = inkColour; i > 0 {
		colours := []int{1, 2, 3, 4, 5, 0}
		one.Colour = colours[(i-1)%len(colours)]
	}
	return one
}

// numbered reports whether the names of the layers are too long to stand side by side below
// a panel of this width: numbers then stand for them.
func numbered(t traced, width vg.Length) bool {
	const axis, apart = 0.85, 6 // of the width; between two names
	for _, l := range t.Layers {
		if style(small, false).Width(l)+apart > axis*width/vg.Length(len(t.Layers)) {
			return true
		}
	}
	return false
}

// normPanel has the layers side by side, the columns dodged so that equal norms stay apart.
func normPanel(s *suite, t traced, numbered bool) plotPanel {
	p := plotPanel{Title: t.Name(), X: "layer", Y: "‖u_t‖, mean over the images", XTicks: named(t.Layers),
		Note: s.caption("Norm of the control at each layer" + s.ofFirstSeed())}
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
			one.add(float64(i)+step*(float64(k)-float64(len(t.Columns)-1)/2), l.ControlNorm)
		}
		p.Series = append(p.Series, one)
	}
	return p.framed(-0.5, float64(len(t.Layers))-0.5)
}

// objectivePanel follows the objective through the sweeps: its difference from the greedy start, which is small beside
// the objective itself.
func objectivePanel(s *suite, t traced) plotPanel {
	n := t.sweeps()
	p := plotPanel{Title: t.Name(), X: "sweep", Y: fmt.Sprintf("objective − that of the greedy start, "+
		"mean over the first %s", plural(t.Solvers[0].Traced, "image")),
		Note: s.caption("Objective less that of the greedy start" + s.ofFirstSeed())}
	labels, shown := make([]string, n+1), shownSweeps(n)
	if labels[0] = "greedy start"; len(shown) < n { // there is no room for that, and for sweep 1
		labels[0], p.X, shown = "0", "sweep; 0: the greedy start", shown[1:]
	}
	for _, k := range shown {
		labels[k] = fmt.Sprint(k)
	}
	p.XTicks = named(labels)
	for i, v := range t.Solvers {
		one := columnLook(s, t.Columns[i])
		marks := one
		one.Marks, marks.Line = false, false
		for k, j := range v.Sweeps {
			one.add(float64(k), j-v.Sweeps[0])
			if labels[k] != "" && k > 0 { // all begin at 0
				marks.add(float64(k), j-v.Sweeps[0])
			}
		}
		p.Series = append(p.Series, one, marks)
	}
	low, high := 0.0, 0.0
	for _, s := range p.Series {
		low, high = min(low, slices.Min(s.Y)), max(high, slices.Max(s.Y))
	}
	if low == high {
		low = -1
	}
	p.Box = [4]float64{-0.35, low, float64(n) + 0.15, high}
	return p
}

// framed sets a panel's ranges: from 0, or where values differ by more than a decade on a
// logarithmic axis.
func (p plotPanel) framed(left, right float64) plotPanel {
	of := [2]float64{math.Inf(1), 0}
	for _, s := range p.Series {
		widen(&of, s.Y, false)
	}
	if p.LogY = of[0] > 0 && of[1] > 10*of[0]; !p.LogY {
		of[0] = 0
	}
	if of[1] == 0 {
		of[1] = 1
	}
	of[1] *= 1.06 // room for the markers
	p.Box = [4]float64{left, of[0], right, of[1]}
	return p
}
