package reports

import (
	"image"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// theoryPicture draws a figure of the theory: panels in rows, a legend below.
type theoryPicture struct {
	plotFigure
	theme theme
	head  bool // with the figure's title; a page has it in a heading
}

const (
	theoryWidth  = twoColumns
	theoryMargin = vg.Length(8)
	theoryTitle  = vg.Length(22) // of the figure
	theoryHead   = vg.Length(28) // of a panel: its title, and what its vertical axis shows
	theoryAxes   = vg.Length(0.72)
)

// titleHeight is the height of the figure's title.
func (f theoryPicture) titleHeight() vg.Length {
	if f.head {
		return theoryTitle
	}
	return 0
}

func (f theoryPicture) columns() int { return max(f.Columns, 1) }

func (f theoryPicture) panelWidth() vg.Length {
	n := vg.Length(f.columns())
	return (theoryWidth - 2*theoryMargin - (n-1)*gap) / n
}

// rowHeight is the height of the panels in a row, heads included.
func (f theoryPicture) rowHeight(row int) vg.Length {
	var h vg.Length
	for i := row * f.columns(); i < min((row+1)*f.columns(), len(f.Panels)); i++ {
		if f.Panels[i].Square {
			h = max(h, panelTitle+f.panelWidth())
		} else {
			h = max(h, theoryHead+max(f.panelWidth()*theoryAxes, 110))
		}
	}
	return h
}

func (f theoryPicture) size() (width, height vg.Length) {
	height = 2*theoryMargin + f.titleHeight() + lineStep*vg.Length(len(f.legend()))
	for row := range (len(f.Panels) + f.columns() - 1) / f.columns() {
		height += f.rowHeight(row) + gap
	}
	return theoryWidth, height
}

func (f theoryPicture) draw(canvas vg.Canvas) {
	width, height := f.size()
	p := pen{draw.NewCanvas(canvas, width, height), f.theme}
	p.SetColor(p.paper)
	p.Fill(p.Rectangle.Path())
	title := style(11, true)
	top := height - theoryMargin
	if f.head {
		p.write(fit(f.Title, title, width-2*theoryMargin), vg.Point{X: width / 2, Y: top}, title, p.ink, -0.5, -1)
	}
	top -= f.titleHeight()
	for i, panel := range f.Panels {
		if i > 0 && i%f.columns() == 0 {
			top -= f.rowHeight(i/f.columns()-1) + gap
		}
		left := theoryMargin + vg.Length(i%f.columns())*(f.panelWidth()+gap)
		f.drawPanel(p, panel, left, top, f.rowHeight(i/f.columns()), f.titleWidth(i))
	}
	f.drawLegend(p, theoryMargin+lineStep*vg.Length(len(f.legend())))
}

// titleWidth is the room for a panel's title: also that above its row's next ones where these
// have none.
func (f theoryPicture) titleWidth(i int) vg.Length {
	w := f.panelWidth()
	for j := i + 1; j < len(f.Panels) && j%f.columns() != 0 && f.Panels[j].Title == ""; j++ {
		w += gap + f.panelWidth()
	}
	return w
}

// drawPanel draws a panel of this height with its upper left corner at (left, top).
func (f theoryPicture) drawPanel(p pen, panel plotPanel, left, top, height, titled vg.Length) {
	if panel.X == "" && panel.Series == nil && panel.Field == nil { // keeps a place in the row
		return
	}
	w := f.panelWidth()
	st := style(9, true)
	p.write(fit(panel.Title, st, titled), vg.Point{X: left, Y: top}, st, p.ink, 0, -1)
	if panel.Square {
		side := min(w, height-panelTitle)
		c := draw.Canvas{Canvas: p.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: top - panelTitle - side}, Max: vg.Point{X: left + side, Y: top - panelTitle}}}
		x := func(v float64) vg.Length { return c.X((v - panel.Box[0]) / (panel.Box[2] - panel.Box[0])) }
		y := func(v float64) vg.Length { return c.Y((v - panel.Box[1]) / (panel.Box[3] - panel.Box[1])) }
		f.paint(pen{c, f.theme}, panel, x, y)
		p.SetLineDash(nil, 0)
		p.SetLineWidth(0.5)
		p.SetColor(p.muted)
		p.Stroke(c.Rectangle.Path())
		return
	}
	p.write(fit(panel.Y, style(small, false), w), vg.Point{X: left, Y: top - 14}, style(small, false), p.muted, 0, -1)
	plt := f.axes(panel)
	plt.Add(theoryLayer{f, panel})
	plt.Draw(draw.Canvas{Canvas: p.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: top - height}, Max: vg.Point{X: left + w - 6, Y: top - theoryHead}}})
}

// theoryLayer is a panel's data as a plotter.
type theoryLayer struct {
	f     theoryPicture
	panel plotPanel
}

func (l theoryLayer) Plot(c draw.Canvas, plt *plot.Plot) {
	x, y := plt.Transforms(&c)
	x, y = onPaper(x, l.panel.LogX), onPaper(y, l.panel.LogY)
	p := pen{c, l.f.theme}
	p.SetLineDash(nil, 0)
	p.SetLineWidth(0.4)
	p.SetColor(p.grid)
	for _, t := range plt.Y.Tick.Marker.Ticks(plt.Y.Min, plt.Y.Max) {
		if t.Label != "" {
			at := y(t.Value)
			p.Stroke(vg.Path{{Type: vg.MoveComp, Pos: vg.Point{X: c.Min.X, Y: at}}, {Type: vg.LineComp, Pos: vg.Point{X: c.Max.X, Y: at}}})
		}
	}
	l.f.paint(p, l.panel, x, y)
}

// onPaper keeps where a value lies within what a canvas can draw. A logarithmic axis has no
// place for one that is not positive.
func onPaper(at func(float64) vg.Length, log bool) func(float64) vg.Length {
	const far = 1e5 // points
	return func(v float64) vg.Length {
		if log && !(v > 0) {
			return -far
		}
		return min(max(at(v), -far), far)
	}
}

// paint draws field, lines, error bars, points and texts, clipped to the pen's rectangle.
func (f theoryPicture) paint(p pen, panel plotPanel, x, y func(float64) vg.Length) {
	if panel.Field != nil {
		p.DrawImage(p.Rectangle, f.colours(panel.Field))
	}
	for _, s := range panel.Series {
		var at []vg.Point
		for i := range s.X {
			if (!panel.LogX || s.X[i] > 0) && (!panel.LogY || s.Y[i] > 0) {
				at = append(at, vg.Point{X: x(s.X[i]), Y: y(s.Y[i])})
			}
		}
		if s.Line {
			p.StrokeLines(f.line(s), p.ClipLinesXY(at)...)
		}
		for i := range s.Low {
			bar := draw.LineStyle{Color: f.colour(s.Colour), Width: 0.8}
			p.StrokeLine2(bar, x(s.X[i]), y(s.Low[i]), x(s.X[i]), y(s.High[i]))
		}
		if s.Marks {
			for _, q := range at {
				if p.Contains(q) {
					f.mark(p, s, q)
				}
			}
		}
	}
	st := style(11, true)
	for _, t := range panel.Texts {
		p.write(t.Text, vg.Point{X: x(t.X), Y: y(t.Y)}, st, p.ink, -0.5, -0.5)
	}
}

func (f theoryPicture) colour(i int) color.Color {
	if i < 0 {
		return f.theme.ink
	}
	return f.theme.lines[i%len(f.theme.lines)]
}

func (f theoryPicture) line(s plotSeries) draw.LineStyle {
	return draw.LineStyle{Color: f.colour(s.Colour), Width: 1.5, Dashes: dashes[s.Dash%len(dashes)]}
}

// mark draws a series' marker with a rim of paper, so that it stands out from a coloured ground.
func (f theoryPicture) mark(p pen, s plotSeries, at vg.Point) {
	g := draw.GlyphStyle{Color: f.theme.paper, Radius: 3.1, Shape: shapes[s.Marker%len(shapes)]}
	if _, ring := g.Shape.(draw.RingGlyph); ring {
		g.Color, g.Radius = f.colour(s.Colour), 3.6 // around another marker
		p.DrawGlyphNoClip(g, at)
		return
	}
	p.DrawGlyphNoClip(g, at)
	g.Color, g.Radius = f.colour(s.Colour), 2.4
	p.DrawGlyphNoClip(g, at)
}

// colours is a field as an image, its first row on top: classes in tints of the series'
// colours with a dark line between them, or a scale from dark (0) to paper (the largest).
func (f theoryPicture) colours(field *plotField) image.Image {
	n := field.N
	img := image.NewNRGBA(image.Rect(0, 0, n, n))
	largest := 0.0
	for _, v := range field.Values {
		largest = max(largest, v)
	}
	value := func(i, j int) float64 { return field.Values[min(i, n-1)*n+min(j, n-1)] }
	for i := range n {
		for j := range n {
			v := value(i, j)
			var c color.Color
			switch {
			case field.Classes == nil:
				share := 1.0
				if largest > 0 {
					share = math.Sqrt(v / largest)
				}
				c = mix(f.theme.muted, f.theme.paper, 0.45+0.55*share) // grey, for the points of any colour
			case value(i+1, j) != v || value(i, j+1) != v:
				c = f.theme.muted
			default:
				c = mix(f.colour(field.Classes[int(v)]), f.theme.paper, 0.72)
			}
			img.Set(j, n-1-i, c)
		}
	}
	return img
}

// mix goes from a to b by a share.
func mix(a, b color.Color, share float64) color.Color {
	r, g, bl, _ := a.RGBA()
	s, h, bm, _ := b.RGBA()
	between := func(x, y uint32) uint8 { return uint8((float64(x)*(1-share) + float64(y)*share) / 257) }
	return color.NRGBA{between(r, s), between(g, h), between(bl, bm), 0xff}
}

// theoryEntry is one entry of the legend.
type theoryEntry struct {
	series plotSeries
	x      vg.Length // of the sample's left end
}

// legend breaks the labels of all panels, each once, into lines.
func (f theoryPicture) legend() [][]theoryEntry {
	st := style(normal, false)
	most := theoryWidth - 2*theoryMargin
	var lines [][]theoryEntry
	var entries []plotSeries
	for _, panel := range f.Panels {
		for _, s := range panel.Series {
			i := slices.IndexFunc(entries, func(o plotSeries) bool { return o.Label == s.Label })
			switch {
			case s.Label == "":
			case i < 0:
				entries = append(entries, s)
			default: // a line and its marks
				if s.Line && !entries[i].Line {
					entries[i].Line, entries[i].Dash = true, s.Dash
				}
				if s.Marks && !entries[i].Marks {
					entries[i].Marks, entries[i].Marker = true, s.Marker
				}
			}
		}
	}
	var widths []vg.Length
	for _, s := range entries {
		widths = append(widths, sampleOf(s)+4+st.Width(s.Label))
	}
	for _, of := range flow(widths, most) {
		total := between * vg.Length(len(of)-1)
		for _, i := range of {
			total += widths[i]
		}
		x := theoryMargin + (most-total)/2
		var line []theoryEntry
		for _, i := range of {
			line = append(line, theoryEntry{entries[i], x})
			x += widths[i] + between
		}
		lines = append(lines, line)
	}
	return lines
}

// sampleOf is how wide an entry's sample is: a marker alone takes less than a line.
func sampleOf(s plotSeries) vg.Length {
	if s.Line {
		return swatch
	}
	return 8
}

func (f theoryPicture) drawLegend(p pen, top vg.Length) {
	st := style(normal, false)
	for i, line := range f.legend() {
		y := top - lineStep*(vg.Length(i)+0.5)
		for _, e := range line {
			w := sampleOf(e.series)
			if e.series.Line {
				p.StrokeLine2(f.line(e.series), e.x, y, e.x+w, y)
			}
			if e.series.Marks {
				f.mark(p, e.series, vg.Point{X: e.x + w/2, Y: y})
			}
			p.write(e.series.Label, vg.Point{X: e.x + w + 4, Y: y}, st, p.ink, 0, -0.5)
		}
	}
}

// describe says what the figure shows, for readers who do not see it.
func (f theoryPicture) describe() string {
	out := f.Title + ". " + f.Caption
	for _, p := range f.Panels {
		out += " " + p.Title + "."
	}
	return out
}
