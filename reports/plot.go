package reports

import (
	"image"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"selfheal/control/theory"
	"selfheal/harness/stats"
)

// plotFigure is a sheet of plots, with one legend.
type plotFigure struct {
	Slug    string // of its files, theory-SLUG.png and .svg
	Title   string
	Caption string
	Columns int // panels a row
	Panels  []plotPanel
}

// plotPanel is one chart. A Square one is a piece of the plane: its ranges are Box, equal in
// both directions, and it has no axes.
type plotPanel struct {
	Title          string
	X, Y           string // what the axes show
	LogX, LogY     bool
	XTicks, YTicks []plot.Tick // nil for those that the ranges give
	Square         bool
	High           vg.Length       // of the chart; 0: a share of its width
	Box            [4]float64      // least x, least y, largest x, largest y; all 0: as the data have it
	Field          *theory.Field   // over the Box, in colours
	Classes        map[float64]int // those of the field's values; nil shades small ones
	Bars           []plotBar
	Series         []plotSeries
	Texts          []plotText
	Labels         []pointLabel // which stand where they hide least
	Note           string       // what a page says below the panel
}

// plotSeries is one line or set of points. Series of one label share an entry of
// the legend; one without a label has none.
type plotSeries struct {
	look
	Label     string
	X, Y      []float64
	Low, High []float64 // ends of error bars, if not nil
	Band      bool      // they are the borders of a band around the line instead
}

// banded has the 95 % Wilson interval of each of a series' values, shares of n images in units of scale, as a band
// around its line, or as error bars of its marks.
func (s plotSeries) banded(n int, scale float64) plotSeries {
	s.Band = s.Line
	for _, y := range s.Y {
		right := math.Round(y / scale * float64(n))
		ends := stats.Wilson(int(min(max(right, 0), float64(n))), n)
		s.Low, s.High = append(s.Low, scale*ends[0]), append(s.High, scale*ends[1])
	}
	return s
}

// plotBar is a bar from 0 to Top, between X and X+Width.
type plotBar struct {
	look
	X, Width, Top float64
	Before        float64     // where a paler bar above it ends; 0 for none
	Whisker       *[2]float64 // nil for none
	Text          string      // above it, where Room is wide enough
	Room          float64     // in units of X
}

// plotText is written at a place of a panel.
type plotText struct {
	X, Y float64
	Text string
}

const (
	plotHead   = vg.Length(28)   // of a panel: its title, and what its vertical axis shows
	plotAspect = vg.Length(0.72) // height of a chart by its width
)

// Sheet lays the figure out, as wide as two columns of print, or as one where it is a single panel.
func (f plotFigure) Sheet(head ...string) sheet {
	out := sheet{Width: twoColumns, Columns: max(f.Columns, 1), Margin: 8, Head: head, Alt: f.Title + ". " + f.Caption,
		Caption: f.Caption}
	if len(f.Panels) == 1 {
		out.Width, out.Columns = oneColumn, 1
	}
	var all []plotSeries
	for _, p := range f.Panels {
		out.Panels, all = append(out.Panels, p), append(all, p.Series...)
		out.Alt += " " + p.Title + "."
	}
	out.Legend = merged(all)
	return out
}

// Panes are the figure's panels as sheets of a page, each with its own legend, so that they stand beside each other
// where there is room and below each other where there is not.
func (f plotFigure) Panes() (out []sheet) {
	for _, p := range f.Panels {
		if p.empty() {
			continue
		}
		one := inPage()
		one.Panels, one.Legend = []panel{p}, merged(p.Series)
		one.Caption = p.Note
		one.Alt = f.Title + ", " + p.Title + ". " + f.Caption
		out = append(out, one)
	}
	return out
}

// empty reports whether a panel only keeps a place in its row.
func (p plotPanel) empty() bool {
	return p.X == "" && p.Series == nil && p.Field == nil && p.Bars == nil
}

func (p plotPanel) titled() bool { return p.Title != "" }

func (p plotPanel) height(width vg.Length) vg.Length {
	switch {
	case p.Square:
		return panelTitle + width
	case p.High > 0:
		return plotHead + p.High
	}
	return plotHead + max(width*plotAspect, 110)
}

func (p plotPanel) draw(pn pen, left, top, width, height, titled vg.Length) {
	if p.empty() {
		return
	}
	st := style(9, true)
	pn.write(fit(p.Title, st, titled), vg.Point{X: left, Y: top}, st, pn.ink, 0, -1)
	area := vg.Rectangle{Min: vg.Point{X: left, Y: top - height}, Max: vg.Point{X: left + width, Y: top - plotHead}}
	if p.Bars == nil {
		area.Max.X -= 6
	}
	if p.Square {
		side := min(width, height-panelTitle)
		area.Min.Y, area.Max = top-panelTitle-side, vg.Point{X: left + side, Y: top - panelTitle}
	} else {
		small := style(small, false)
		pn.write(fit(p.Y, small, width), vg.Point{X: left, Y: top - 14}, small, pn.muted, 0, -1)
	}
	p.chart(pn, area)
}

// chart draws axes and data in an area.
func (p plotPanel) chart(pn pen, area vg.Rectangle) {
	plt := p.axes(pn.theme)
	plt.Add(plotLayer{p, pn.theme})
	plt.Draw(draw.Canvas{Canvas: pn.Canvas, Rectangle: area})
	if p.Square {
		pn.SetLineStyle(draw.LineStyle{Color: pn.muted, Width: 0.5})
		pn.Stroke(area.Path())
	}
}

// plotLayer is a panel's data as a plotter.
type plotLayer struct {
	plotPanel
	theme theme
}

func (l plotLayer) Plot(c draw.Canvas, plt *plot.Plot) {
	x, y := plt.Transforms(&c)
	p := pen{c, l.theme}
	if l.Field != nil {
		p.DrawImage(p.Rectangle, l.colours(p.theme))
	}
	for _, t := range plt.Y.Tick.Marker.Ticks(plt.Y.Min, plt.Y.Max) {
		if t.Label != "" && !l.Square {
			p.segment(p.grid, 0.4, vg.Point{X: c.Min.X, Y: y(t.Value)}, vg.Point{X: c.Max.X, Y: y(t.Value)})
		}
	}
	for _, b := range l.Bars {
		b.draw(p, x, y)
	}
	for _, s := range l.Series {
		if s.Band {
			var border []vg.Point
			for i := range s.X {
				border = append(border, vg.Point{X: x(s.X[i]), Y: y(s.High[i])})
			}
			for i := range slices.Backward(s.X) {
				border = append(border, vg.Point{X: x(s.X[i]), Y: y(s.Low[i])})
			}
			p.FillPolygon(tint(p.colour(s.Colour)), border)
		}
	}
	for _, s := range l.Series {
		var at []vg.Point
		for i := range s.X {
			if (!l.LogX || s.X[i] > 0) && (!l.LogY || s.Y[i] > 0) { // a logarithmic axis has no other place
				at = append(at, vg.Point{X: x(s.X[i]), Y: y(s.Y[i])})
			}
		}
		if s.Line {
			p.StrokeLines(p.line(s.look), p.ClipLinesXY(at)...)
		}
		for i := range s.Low {
			if s.Band {
				break
			}
			p.segment(p.colour(s.Colour), 0.8, vg.Point{X: x(s.X[i]), Y: y(s.Low[i])}, vg.Point{X: x(s.X[i]),
				Y: y(s.High[i])})
		}
		for _, q := range at {
			if s.Marks && p.Contains(q) {
				p.mark(s.look, q)
			}
		}
	}
	for _, t := range l.Texts {
		p.write(t.Text, vg.Point{X: x(t.X), Y: y(t.Y)}, style(11, true), p.ink, -0.5, -0.5)
	}
	if l.Labels != nil {
		l.labels(p, x, y)
	}
}

// draw draws the bar, its whisker and value.
func (b plotBar) draw(p pen, x, y func(float64) vg.Length) {
	from, to, base, top := x(b.X), x(b.X+b.Width), y(0), y(b.Top)
	colour, middle, st := p.colour(b.Colour), (from+to)/2, style(small, false)
	if b.Top > 0 {
		p.block(colour, vg.Rectangle{Min: vg.Point{X: from, Y: base}, Max: vg.Point{X: to, Y: top}})
	}
	if before := y(b.Before); b.Before > b.Top {
		p.block(mix(colour, p.paper, 0.75), vg.Rectangle{Min: vg.Point{X: from, Y: top}, Max: vg.Point{X: to,
			Y: before}})
		if before-top < 12 { // no room for the value in the tint
			top = before
		}
	}
	if w := b.Whisker; w != nil {
		p.segment(p.ink, 0.8, vg.Point{X: middle, Y: y(w[0])}, vg.Point{X: middle, Y: y(w[1])})
		top = max(top, y(w[1]))
	}
	if st.Width(b.Text) <= x(b.Room)-x(0) {
		p.write(b.Text, vg.Point{X: middle, Y: top + 2}, st, p.ink, -0.5, 0)
	}
}

// colours is a field as an image, its first row on top: classes in tints of the series'
// colours with a dark line between them, or a scale from dark (0) to paper (the largest).
func (p plotPanel) colours(t theme) image.Image {
	f, n, largest := p.Field, p.Field.N, slices.Max(p.Field.Values)
	img := image.NewNRGBA(image.Rect(0, 0, n, n))
	value := func(i, j int) float64 { return f.Values[min(i, n-1)*n+min(j, n-1)] }
	for i := range n {
		for j := range n {
			v := value(i, j)
			var c color.Color
			switch {
			case p.Classes == nil:
				share := 1.0
				if largest > 0 {
					share = math.Sqrt(v / largest)
				}
				c = mix(t.muted, t.paper, 0.45+0.55*share) // grey, for the points of any colour
			case value(i+1, j) != v || value(i, j+1) != v:
				c = t.muted
			default:
				c = mix(t.colour(p.Classes[v]), t.paper, 0.72)
			}
			img.Set(j, n-1-i, c)
		}
	}
	return img
}

// tint is a colour that what lies below shows through.
func tint(c color.Color) color.Color {
	k := color.NRGBAModel.Convert(c).(color.NRGBA)
	k.A = 0x1c
	return k
}

// mix goes from a to b by a share.
func mix(a, b color.Color, share float64) color.Color {
	r, g, bl, _ := a.RGBA()
	s, h, bm, _ := b.RGBA()
	between := func(x, y uint32) uint8 { return uint8((float64(x)*(1-share) + float64(y)*share) / 257) }
	return color.NRGBA{between(r, s), between(g, h), between(bl, bm), 0xff}
}
