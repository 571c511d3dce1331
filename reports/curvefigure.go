package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
)

// curveFigure is a picture of a suite's robustness curves: a panel a model and attack, a
// step curve a defense, with a marker at every cell.
type curveFigure struct {
	figure
	panels []curves
}

const curveHeight = vg.Length(158)

// fullCurves is the figure as a file.
func fullCurves(s *suite, t theme) curveFigure {
	panels := s.Curves()
	return fullFigure(s, t).spread(len(panels), false).of(panels)
}

// panelCurves is one panel, for a page that has the title itself.
func panelCurves(s *suite, c curves, t theme) curveFigure {
	return panelFigure(s, c.Model, t).of([]curves{c})
}

// of makes f a figure of these panels.
func (f figure) of(panels []curves) curveFigure {
	f.curve, f.legends = true, map[string]bool{}
	for _, c := range panels {
		for _, line := range c.Lines {
			f.legends[line.Defense] = true
		}
	}
	return curveFigure{f, panels}
}

func (f curveFigure) size() (width, height vg.Length) {
	return f.width, f.frameHeight(len(f.panels), panelTitle+curveHeight)
}

func (f curveFigure) draw(canvas vg.Canvas) {
	f.frame(canvas, len(f.panels), panelTitle+curveHeight, func(p pen, i int, left, top vg.Length) {
		c := f.panels[i]
		chart := f.title(p, clean(c.Model), left, top, curveHeight)
		f.subtitle(p, c.Attack.Title(), chart)
		f.drawCurves(p, c, chart)
	})
}

// drawCurves draws one panel in the chart's rectangle. The scale of epsilon ends
// where the longest line does.
func (f curveFigure) drawCurves(p pen, c curves, chart vg.Rectangle) {
	const left, right, below, above = vg.Length(30), vg.Length(14), 2*labelStep + 6, vg.Length(14)
	if spare := chart.Max.X - chart.Min.X - left - right - 340; spare > 0 {
		chart.Min.X, chart.Max.X = chart.Min.X+spare/2, chart.Max.X-spare/2
	}
	from, to, base, full := chart.Min.X+left, chart.Max.X-right, chart.Min.Y+below, chart.Max.Y-above
	most := c.end()
	at := func(e, share float64) vg.Point {
		return vg.Point{X: from + (to-from)*vg.Length(e/most), Y: base + (full-base)*vg.Length(inUnit(share))}
	}
	p.percentScale(from-3, to, func(share float64) vg.Length { return at(0, share).Y })
	st := style(small, false)
	for _, t := range c.ticks(int((to - from) / 44)) {
		foot := at(t.value, 0)
		p.SetColor(p.grid)
		p.SetLineWidth(0.5)
		p.Stroke(vg.Path{{Type: vg.MoveComp, Pos: foot}, {Type: vg.LineComp, Pos: foot.Sub(vg.Point{Y: 3})}})
		p.write(t.label, foot.Sub(vg.Point{Y: 5}), st, p.muted, -0.5, -1)
	}
	p.write("ε", vg.Point{X: (from + to) / 2, Y: base - 5 - labelStep}, style(normal, false), p.ink, -0.5, -1)
	for _, line := range c.Lines {
		if line.Steps == nil {
			continue
		}
		path := vg.Path{{Type: vg.MoveComp, Pos: at(line.Steps[0].Epsilon, line.Steps[0].Accuracy)}}
		for i, s := range line.Steps[1:] {
			path.Line(at(s.Epsilon, line.Steps[i].Accuracy))
			path.Line(at(s.Epsilon, s.Accuracy))
		}
		p.SetLineStyle(p.line(line.Index))
		p.Stroke(path)
	}
	for _, line := range c.Lines {
		for _, s := range line.Points {
			p.glyph(line.Index, at(s.Epsilon, s.Accuracy))
		}
	}
}

// tick is a value on the scale of epsilon.
type tick struct {
	value float64
	label string
}

// ticks are at most so many steps of a round number up to the panel's end: of a number of
// grey levels where the cells' epsilons are such, else of 1, 2 or 5 times a power of ten.
func (c curves) ticks(most int) []tick {
	end := c.end()
	grey := true
	for _, line := range c.Lines {
		for _, p := range line.Points {
			grey = grey && (p.Epsilon == 0 || strings.HasSuffix(epsilon(p.Epsilon), "/255"))
		}
	}
	step := func(i int) float64 { return []float64{1, 2, 5}[(i%3+3)%3] * math.Pow(10, math.Floor(float64(i)/3)) }
	first := 3 * int(math.Floor(math.Log10(end/float64(max(most, 1))))) // at most one step too fine
	if grey {
		step, first = func(i int) float64 { return math.Pow(2, float64(i)) / 255 }, 0
	}
	for end/step(first) > float64(max(most, 1)) {
		first++
	}
	ticks := []tick{{0, "0"}}
	for i := 1; float64(i)*step(first) <= min(end*(1+1e-9), math.MaxFloat64); i++ {
		v := float64(i) * step(first)
		label := strconv.FormatFloat(v, 'g', 6, 64)
		if grey {
			label = fmt.Sprintf("%.0f/255", v*255)
		}
		ticks = append(ticks, tick{v, label})
	}
	return ticks
}

// describe says in words what the figure shows: the value of every line at five epsilons.
func (f curveFigure) describe() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "Robustness curves, accuracy in %% against epsilon%s, %s (%s).", f.seeds(), f.s.Heading(), f.s.Facts())
	for _, c := range f.panels {
		for _, line := range c.Lines {
			fmt.Fprintf(&sb, " %s, %s, %s:", clean(c.Model), defenseName(line.Defense), c.Attack.Title())
			said := line.Points
			if line.Steps != nil {
				said = nil
				for i := range 5 {
					e := c.end() * float64(i) / 4
					if e <= line.end()*(1+1e-9) {
						said = append(said, point{e, line.at(e)})
					}
				}
			}
			for i, p := range said {
				sep := ""
				if i > 0 {
					sep = ","
				}
				fmt.Fprintf(&sb, "%s %s at %s", sep, percent(p.Accuracy, f.s.N), number(p.Epsilon))
			}
			sb.WriteString(".")
		}
	}
	return sb.String()
}
