package reports

import (
	"fmt"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
)

// waterfall is what the components of one attack on one model took, one after another.
type waterfall struct {
	Model      string
	Attack     column
	Components []string
	Lines      []waterfallLine
}

// waterfallLine is a defense that was attacked on its own.
type waterfallLine struct {
	Defense string
	Index   int      // as in series
	Start   *float64 // accuracy on the clean images, where that is known
	After   map[string]float64
	n       int // images
}

// mostWaterfalls is how many charts the figure has at most, as many as a printed page has
// room for. The table of the components stands for those of a larger suite.
const mostWaterfalls = 12

// Waterfalls are the suite's charts, one a model and attack of several components, or none
// where they are too many. An oblivious suite attacks the undefended network only; in a
// white-box suite each control has its own.
func (s *suite) Waterfalls() []waterfall {
	var out []waterfall
	for _, m := range s.Models {
		for _, col := range s.Columns {
			w := waterfall{Model: m, Attack: col}
			for i, d := range s.Defenses() {
				c := s.Cell(m, d, col)
				if c == nil || len(c.Steps) == 0 {
					continue
				}
				line := waterfallLine{Defense: d, Index: i, After: map[string]float64{}, n: c.N}
				if clean := s.Cell(m, d, column{Attack: "none"}); clean != nil {
					line.Start = &clean.Accuracy
				}
				for j, name := range componentNames(c.Steps) {
					line.After[name] = c.Steps[j].Robust
				}
				w.Lines = append(w.Lines, line)
			}
			if w.Components = s.components(col); len(w.Lines) > 0 && len(w.Components) > 1 {
				out = append(out, w)
			}
		}
	}
	if len(out) > mostWaterfalls {
		return nil
	}
	return out
}

// components are those of an attack that some cell of the suite has run, in their order: a
// component that found no image left to attack has no step.
func (s *suite) components(col column) []string {
	var longest []string
	s.each(func(c *result.Cell, of column) {
		if of.Attack == col.Attack && orMinusOne(of.Epsilon) == orMinusOne(col.Epsilon) && len(c.Steps) > len(longest) {
			longest = componentNames(c.Steps)
		}
	})
	return longest
}

// componentNames are a cell's components as figures call them: "APGD-CE", "FAB-T". One that
// runs again is numbered.
func componentNames(steps []result.Step) []string {
	var out []string
	seen := map[string]int{}
	for _, st := range steps {
		name, known := attackNames[st.Attack]
		if !known {
			name = clean(st.Attack)
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		out = append(out, name)
	}
	return out
}

func hasWaterfalls(s *suite) bool { return !s.quoted && len(s.Waterfalls()) > 0 }

// waterfallFigure is a picture of waterfalls: a chart each, in it a group of bars for the
// clean images and one for every component, a bar a defense.
type waterfallFigure struct {
	figure
	charts []waterfall
}

const waterfallHeight = vg.Length(128)

// fullWaterfalls is the figure as a file.
func fullWaterfalls(s *suite, t theme) waterfallFigure {
	charts := s.Waterfalls()
	return fullFigure(s, t).spread(len(charts), false).ofWaterfalls(charts)
}

// waterfallPanel is the charts of one model, one above the other, for a page that has the
// title itself; nil where there is none.
func waterfallPanel(s *suite, model string, t theme) picture {
	var charts []waterfall
	for _, w := range s.Waterfalls() {
		if w.Model == model {
			charts = append(charts, w)
		}
	}
	if len(charts) == 0 {
		return nil
	}
	return panelFigure(s, model, t).ofWaterfalls(charts)
}

// ofWaterfalls makes f a figure of these charts.
func (f figure) ofWaterfalls(charts []waterfall) waterfallFigure {
	f.bars, f.legends = true, map[string]bool{}
	for _, w := range charts {
		for _, line := range w.Lines {
			f.legends[line.Defense] = true
		}
	}
	return waterfallFigure{f, charts}
}

func (f waterfallFigure) size() (width, height vg.Length) {
	return f.width, f.frameHeight(len(f.charts), panelTitle+waterfallHeight)
}

func (f waterfallFigure) draw(canvas vg.Canvas) {
	f.frame(canvas, len(f.charts), panelTitle+waterfallHeight, func(p pen, i int, left, top vg.Length) {
		w := f.charts[i]
		chart := f.title(p, clean(w.Model), left, top, waterfallHeight)
		f.subtitle(p, w.Attack.Title(), chart)
		f.drawWaterfall(p, w, chart)
	})
}

// drawWaterfall draws one chart in the rectangle: every bar is the accuracy left after a
// component, with what the component took in a tint above it.
func (f waterfallFigure) drawWaterfall(p pen, w waterfall, chart vg.Rectangle) {
	const left, below, above = vg.Length(26), 2*labelStep + 4, vg.Length(20)
	base, full := chart.Min.Y+below, chart.Max.Y-above
	height := func(share float64) vg.Length { return base + (full-base)*vg.Length(inUnit(share)) }
	p.percentScale(chart.Min.X+left, chart.Max.X, height)
	group := (chart.Max.X - chart.Min.X - left) / vg.Length(len(w.Components)+1)
	width := min(26, group*0.84/vg.Length(len(w.Lines)))
	for i, name := range append([]string{"None"}, w.Components...) {
		middle := chart.Min.X + left + group*(vg.Length(i)+0.5)
		for j, l := range broken(name, group) {
			p.write(l, vg.Point{X: middle, Y: base - 4 - labelStep*vg.Length(j)}, style(small, false), p.ink, -0.5, -1)
		}
		for j, line := range w.Lines {
			f.drawStep(p, w, line, i, middle+width*(vg.Length(j)-vg.Length(len(w.Lines))/2), width, height)
		}
	}
}

// drawStep draws a defense's bar of one component between x and x+width; i = 0 are the clean
// images. A component that had no image left to attack has a dash.
func (f waterfallFigure) drawStep(p pen, w waterfall, line waterfallLine, i int, x, width vg.Length, height func(float64) vg.Length) {
	before, after := line.at(w, i-1), line.at(w, i)
	x, width = x+width*0.06, width*0.88
	middle, st, said, top := x+width/2, style(small, false), dash, height(0)
	if after != nil {
		said, top = percent(*after, line.n), height(*after)
		bar := func(from, to vg.Length) vg.Path {
			return vg.Rectangle{Min: vg.Point{X: x, Y: from}, Max: vg.Point{X: x + width, Y: to}}.Path()
		}
		colour := p.line(line.Index).Color
		p.SetColor(colour)
		p.Fill(bar(height(0), top))
		if before != nil && *before > *after {
			p.SetColor(mix(colour, p.paper, 0.75))
			p.Fill(bar(top, height(*before)))
			if height(*before)-top < 12 { // no room for the value in the tint
				top = height(*before)
			}
		}
		if marker := p.marker(line.Index); height(*after)-height(0) > 14 && width > 8 {
			marker.Color = p.paper
			p.DrawGlyphNoClip(marker, vg.Point{X: middle, Y: height(0) + 7})
		}
	}
	room := width + 2
	if len(w.Lines) == 1 {
		room = width + 12 // no neighbour on either side
	}
	if st.Width(said) <= room {
		p.write(said, vg.Point{X: middle, Y: top + 2}, st, p.ink, -0.5, 0)
	}
}

// at is the accuracy after component i, or before the attack; nil where nothing was run.
func (l waterfallLine) at(w waterfall, i int) *float64 {
	switch {
	case i < 0:
		return nil
	case i == 0:
		return l.Start
	}
	if v, ok := l.After[w.Components[i-1]]; ok {
		return &v
	}
	return nil
}

// broken is a name for a group of this width: in two lines, at its dash, where it is wider.
// Without a dash it may reach a little beyond, as its neighbours' are then broken.
func broken(name string, w vg.Length) []string {
	st := style(small, false)
	parts := []string{name}
	if head, tail, found := strings.Cut(name, "-"); found && st.Width(name) > w-3 {
		parts = []string{head, tail}
	}
	for i := range parts {
		parts[i] = fit(parts[i], st, w+1)
	}
	return parts
}

// describe says in words what the figure shows.
func (f waterfallFigure) describe() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "Accuracy in %% on the clean images and after each attack component%s, %s (%s).", f.seeds(), f.s.Heading(), f.s.Facts())
	for _, w := range f.charts {
		for _, line := range w.Lines {
			fmt.Fprintf(&sb, " %s, %s, %s:", clean(w.Model), defenseName(line.Defense), w.Attack.Title())
			for i, name := range append([]string{"None"}, w.Components...) {
				sep := ""
				if i > 0 {
					sep = ","
				}
				said := dash
				if v := line.at(w, i); v != nil {
					said = percent(*v, line.n)
				}
				fmt.Fprintf(&sb, "%s %s %s", sep, name, said)
			}
			sb.WriteString(".")
		}
	}
	return sb.String()
}

func renderWaterfallPNG(w io.Writer, _ *view, s *suite) error {
	return writePNG(w, fullWaterfalls(s, light))
}

func renderWaterfallSVG(w io.Writer, _ *view, s *suite) error {
	_, err := io.WriteString(w, svg(fullWaterfalls(s, light)))
	return err
}
