package reports

import (
	"fmt"
	"image/color"
	"io"
	"math"

	txt "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mostTraced is how many networks under a control a figure of traces shows.
const mostTraced = 6

// hasTraceFigure reports whether the suite has control traces, and few enough for a figure.
func hasTraceFigure(s *suite) bool {
	n := len(s.Traced())
	return n > 0 && n <= mostTraced
}

func renderTracePNG(w io.Writer, _ *view, s *suite) error { return writePNG(w, s.tracePicture()) }

func renderTraceSVG(w io.Writer, _ *view, s *suite) error {
	_, err := io.WriteString(w, svg(s.tracePicture()))
	return err
}

// tracePicture draws a suite's control traces, as a file: below its title what was traced
// and what the attacker knows.
func (s *suite) tracePicture() picture {
	return tracePicture{theoryPicture{s.traceFigure(s.Traced()), light, false}, s}
}

type tracePicture struct {
	theoryPicture
	s *suite
}

// lines are those above the panels.
func (f tracePicture) lines() []headline {
	var out []headline
	add := func(text string, st txt.Style, col color.Color, step vg.Length) {
		for _, l := range wrap(text, st, theoryWidth-2*theoryMargin, 3) {
			out = append(out, headline{l, st, col, step})
		}
	}
	facts := style(normal, false)
	add(f.Title, style(11, true), f.theme.ink, 14)
	add(f.s.Facts()+f.s.ofFirstSeed(), facts, f.theme.muted, 11)
	if m := modeOf(f.s.Mode); m.Short != "" {
		add("adversarial images "+m.Short, facts, f.theme.muted, 11)
	}
	return out
}

func (f tracePicture) size() (width, height vg.Length) {
	width, height = f.theoryPicture.size()
	for _, l := range f.lines() {
		height += l.step
	}
	return width, height + theoryMargin
}

func (f tracePicture) draw(canvas vg.Canvas) {
	width, height := f.size()
	p := pen{draw.NewCanvas(canvas, width, height), f.theme}
	p.SetColor(p.paper)
	p.Fill(p.Rectangle.Path())
	f.theoryPicture.draw(canvas) // from the lower edge on
	y := height - theoryMargin
	for _, l := range f.lines() {
		p.write(l.text, vg.Point{X: width / 2, Y: y}, l.style, l.col, -0.5, -1)
		y -= l.step
	}
}

// traceFigure draws, for each network under a control, the norms of its controls layer by
// layer and, where its solver makes sweeps, the objective from sweep to sweep.
func (s *suite) traceFigure(all []traced) plotFigure {
	f := plotFigure{Title: "Control: " + s.Heading(), Columns: min(len(all), 2),
		Caption: "Norm ‖u_t‖ of the control at each layer, mean over the images, for each kind of images"}
	sweeps := false
	for _, t := range all {
		sweeps = sweeps || t.sweeps() > 0
	}
	if sweeps {
		f.Columns = 2
		f.Caption += "; and the control objective, mean over the first images, at the greedy start and after each sweep"
	}
	f.Caption = s.caption(f.Caption + s.ofFirstSeed())
	for _, t := range all {
		f.Panels = append(f.Panels, s.normPanel(t, t.numbered(theoryPicture{plotFigure: f}.panelWidth())))
		if t.sweeps() > 0 {
			f.Panels = append(f.Panels, s.objectivePanel(t))
		}
	}
	return f
}

// look is how the i-th column of a suite is drawn: clean images in ink and dashed, the
// attacks in the series' colours. An attack keeps its look in all panels.
func (s *suite) look(col column, label string) plotSeries {
	i := 0
	for k, c := range s.Columns {
		if c.Attack == col.Attack && orMinusOne(c.Epsilon) == orMinusOne(col.Epsilon) {
			i = k
		}
	}
	one := plotSeries{Label: label, Line: true, Marks: true, Marker: i, Dash: i}
	if one.Colour = -1; i > 0 {
		colours := []int{1, 2, 3, 4, 5, 0}
		one.Colour = colours[(i-1)%len(colours)]
	}
	return one
}

// label is a column's entry in the legend.
func (c column) label() string { return fit(c.Title(), style(normal, false), 200) }

// name is what a panel's title says.
func (t traced) name() string { return clean(t.Model) + " · " + clean(t.Control) }

// numbered reports whether the names of the layers are too long to stand side by side below
// a panel of this width: numbers then stand for them.
func (t traced) numbered(width vg.Length) bool {
	const axis, apart = 0.85, 6 // of the width; between two names
	for _, l := range t.Layers {
		if style(small, false).Width(l)+apart > axis*width/vg.Length(len(t.Layers)) {
			return true
		}
	}
	return false
}

// normPanel has the layers side by side, the columns dodged so that equal norms stay apart.
func (s *suite) normPanel(t traced, numbered bool) plotPanel {
	p := plotPanel{Title: t.name(), X: "layer", Y: "‖u_t‖, mean over the images", XTicks: t.Layers}
	if numbered {
		p.X, p.XTicks = "layer, counted from the input", nil
		for i := range t.Layers {
			p.XTicks = append(p.XTicks, fmt.Sprint(i+1))
		}
	}
	step := min(0.12, 0.6/float64(len(t.Columns)))
	for k, v := range t.Solvers {
		one := s.look(t.Columns[k], t.Columns[k].label())
		one.Line = len(t.Layers) > 2 // between two there is no course to follow
		for i, l := range v.Layers {
			one.X, one.Y = append(one.X, float64(i)+step*(float64(k)-float64(len(t.Columns)-1)/2)), append(one.Y, l.ControlNorm)
		}
		p.Series = append(p.Series, one)
	}
	return p.framed(-0.5, float64(len(t.Layers))-0.5)
}

// objectivePanel follows the objective through the sweeps.
func (s *suite) objectivePanel(t traced) plotPanel {
	n := t.sweeps()
	p := plotPanel{Title: t.name(), X: "sweep", Y: fmt.Sprintf("objective, mean over the first %s", plural(t.Solvers[0].Traced, "image")), XTicks: make([]string, n+1)}
	shown := shownSweeps(n)
	if p.XTicks[0] = "greedy start"; len(shown) < n { // there is no room for that, and for sweep 1
		p.XTicks[0], p.X, shown = "0", "sweep; 0: the greedy start", shown[1:]
	}
	for _, k := range shown {
		p.XTicks[k] = fmt.Sprint(k)
	}
	for i, v := range t.Solvers {
		one := s.look(t.Columns[i], t.Columns[i].label())
		marks := one
		one.Marks, marks.Line = false, false
		for k, j := range v.Sweeps {
			one.X, one.Y = append(one.X, float64(k)), append(one.Y, j)
			if p.XTicks[k] != "" {
				marks.X, marks.Y = append(marks.X, float64(k)), append(marks.Y, j)
			}
		}
		p.Series = append(p.Series, one, marks)
	}
	return p.framed(-0.35, float64(n)+0.15)
}

// framed sets a panel's ranges: from 0, or where values differ by more than a decade on a
// logarithmic axis.
func (p plotPanel) framed(left, right float64) plotPanel {
	low, high := math.Inf(1), 0.0
	for _, s := range p.Series {
		for _, y := range s.Y {
			low, high = min(low, y), max(high, y)
		}
	}
	if p.LogY = low > 0 && high > 10*low; !p.LogY {
		low = 0
	}
	if high == 0 {
		high = 1
	}
	p.Box = [4]float64{left, low, right, high}
	return p
}
