package reports

import (
	"image/color"
	"math"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	txt "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of a figure, in points.
const (
	gap      = vg.Length(14) // between panels
	lineStep = vg.Length(11) // of tables and legends
	small    = vg.Length(7.5)
	normal   = vg.Length(8)
	swatch   = vg.Length(24) // a legend's sample
)

// figure is a picture of a suite: a panel a model, each a radar plot (bars when
// there are fewer than three axes) over a table of its values, and one legend.
type figure struct {
	s       *suite
	models  []string
	theme   theme
	width   vg.Length
	columns int
	head    bool // with the suite's title
	table   bool // with the values under each panel
	margin  vg.Length
	curve   bool            // robustness curves instead: a legend of lines
	legends map[string]bool // the defenses in the legend; nil for all
}

// fullFigure is the suite's figure as a file: 8 inches wide, one column for one model, else two.
func fullFigure(s *suite, t theme) figure {
	return figure{s: s, models: s.Models, theme: t, width: 8 * vg.Inch, columns: min(max(len(s.Models), 1), 2), head: true, table: true, margin: 16}
}

// panelFigure is one model's panel, for a page that has title and table itself.
func panelFigure(s *suite, model string, t theme) figure {
	return figure{s: s, models: []string{model}, theme: t, width: 3.6 * vg.Inch, columns: 1, margin: 6}
}

// theme holds a figure's colours.
type theme struct {
	paper, ink, muted, grid color.Color
	lines                   []color.Color // by series: the baseline, then the controls
}

func hex(v uint32) color.Color {
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff}
}

// The lines' colours are Okabe and Ito's, which the common kinds of colour
// blindness keep apart; light and dark differ in their order only.
var (
	light = theme{hex(0xffffff), hex(0x1c1c1a), hex(0x5c5c58), hex(0xd5d5d0),
		[]color.Color{hex(0xD55E00), hex(0x0072B2), hex(0x009E73), hex(0xCC79A7), hex(0xE69F00), hex(0x56B4E9), hex(0x000000)}}
	dark = theme{hex(0x1b1c1e), hex(0xe8e8e4), hex(0xa9a9a4), hex(0x45464a),
		[]color.Color{hex(0xE69F00), hex(0x56B4E9), hex(0x009E73), hex(0xCC79A7), hex(0xD55E00), hex(0x0072B2), hex(0xF0E442)}}
)

// Dashes and markers tell the series apart without colour; the three lists
// repeat at different lengths, so that many series still differ.
var (
	dashes = [][]vg.Length{{5, 2.5}, nil, {8, 2, 1.5, 2}, {1.5, 2}, {10, 3}}
	shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, diamond{}, downward{}, draw.RingGlyph{}}
)

func (t theme) line(i int) draw.LineStyle {
	return draw.LineStyle{Color: t.lines[i%len(t.lines)], Width: 1.5, Dashes: dashes[i%len(dashes)]}
}

func (t theme) marker(i int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: t.lines[i%len(t.lines)], Radius: 3, Shape: shapes[i%len(shapes)]}
}

type diamond struct{}

func (diamond) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	fillCorners(c, pt, sty.Radius*1.2, math.Pi/2, 4)
}

type downward struct{}

func (downward) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	fillCorners(c, pt, sty.Radius*1.2, -math.Pi/2, 3)
}

func fillCorners(c *draw.Canvas, at vg.Point, r vg.Length, start float64, n int) {
	var p vg.Path
	for i := range n {
		corner := at.Add(polar(r, start+2*math.Pi*float64(i)/float64(n)))
		if i == 0 {
			p.Move(corner)
		} else {
			p.Line(corner)
		}
	}
	p.Close()
	c.Fill(p)
}

func polar(r vg.Length, angle float64) vg.Point {
	return vg.Point{X: r * vg.Length(math.Cos(angle)), Y: r * vg.Length(math.Sin(angle))}
}

// pen draws text and lines in a theme.
type pen struct {
	draw.Canvas
	theme
}

func style(size vg.Length, bold bool) txt.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = stdfont.WeightBold
	}
	return txt.Style{Font: f, Handler: plot.DefaultTextHandler}
}

// write puts s at (x, y); x and y say which point of the text that is, as in
// text.Style: 0 left or bottom, −½ the middle, −1 right or top.
func (p pen) write(s string, at vg.Point, st txt.Style, col color.Color, x, y float64) {
	if y == -0.5 { // the middle of small letters and capitals, not of the line
		at.Y += st.Font.Size * 0.09
	}
	st.Color, st.XAlign, st.YAlign = col, txt.XAlignment(x), txt.YAlignment(y)
	p.FillText(st, at, s)
}

// fit shortens s with an ellipsis until it is no wider than w; nothing when not even one letter fits.
func fit(s string, st txt.Style, w vg.Length) string {
	if st.Width(s) <= w {
		return s
	}
	for r := []rune(s); len(r) > 1; {
		r = r[:len(r)-1]
		if short := strings.TrimRight(string(r), " ") + "…"; st.Width(short) <= w {
			return short
		}
	}
	return ""
}

// panelWidth is the width of one panel.
func (f figure) panelWidth() vg.Length {
	n := vg.Length(f.columns)
	return (f.width - 2*f.margin - (n-1)*gap) / n
}

// radar reports whether the suite has axes enough for one.
func (f figure) radar() bool { return len(f.s.Columns) >= 3 }

// lined reports whether the figure draws a defense as a line, not as bars.
func (f figure) lined() bool { return f.curve || f.radar() }

func (f figure) headHeight() vg.Length {
	if f.head {
		return 46
	}
	return 0
}

func (f figure) panelHeight() vg.Length {
	h := panelTitle + f.chartHeight()
	if f.withTable() {
		h += lineStep*vg.Length(len(f.s.Columns)+1) + 6
	}
	return h
}

// withTable is true also where axes are numbered: the table is their key.
func (f figure) withTable() bool { return f.table || (f.radar() && f.axes().numbered) }

func (f figure) size() (width, height vg.Length) {
	return f.width, f.frameHeight(len(f.models), f.panelHeight())
}

// rows is how many rows n panels take.
func (f figure) rows(n int) int { return (n + f.columns - 1) / f.columns }

// frameHeight is the height of a figure of n panels of height h each.
func (f figure) frameHeight(n int, h vg.Length) vg.Length {
	return 2*f.margin + f.headHeight() + vg.Length(f.rows(n))*(h+gap) + lineStep*vg.Length(len(f.legend()))
}

// draw draws the whole figure on a canvas of its size.
func (f figure) draw(canvas vg.Canvas) {
	h := f.panelHeight()
	f.frame(canvas, len(f.models), h, func(p pen, i int, left, top vg.Length) { f.drawPanel(p, f.models[i], left, top) })
}

// frame draws what every figure has, title and legend, and has panel draw each of n
// panels of height h from its upper left corner.
func (f figure) frame(canvas vg.Canvas, n int, h vg.Length, panel func(p pen, i int, left, top vg.Length)) {
	height := f.frameHeight(n, h)
	c := draw.NewCanvas(canvas, f.width, height)
	p := pen{c, f.theme}
	c.SetColor(f.theme.paper)
	c.Fill(c.Rectangle.Path())
	top, inner := height-f.margin, f.width-2*f.margin
	if f.head {
		title, facts := style(12, true), style(8.5, false)
		p.write(fit(f.s.Heading(), title, inner), vg.Point{X: f.width / 2, Y: top}, title, p.ink, -0.5, -1)
		p.write(fit("accuracy in % · "+f.s.Facts(), facts, inner), vg.Point{X: f.width / 2, Y: top - 16}, facts, p.muted, -0.5, -1)
		if m := modeOf(f.s.Mode); m.Short != "" {
			p.write(fit("adversarial images "+m.Short, facts, inner), vg.Point{X: f.width / 2, Y: top - 28}, facts, p.muted, -0.5, -1)
		}
	}
	top -= f.headHeight()
	w := f.panelWidth()
	for i := range n {
		row, col := i/f.columns, i%f.columns
		left := f.margin + vg.Length(col)*(w+gap)
		if last := n % f.columns; last != 0 && row == f.rows(n)-1 { // a last row that is not full is centred
			left += (w + gap) * vg.Length(f.columns-last) / 2
		}
		panel(p, i, left, top-vg.Length(row)*(h+gap))
	}
	f.drawLegend(p, f.margin+lineStep*vg.Length(len(f.legend())))
}

// panelTitle is the height of the line above a panel.
const panelTitle = vg.Length(18)

// title writes a panel's title and returns the place of the chart below it.
func (f figure) title(p pen, s string, left, top, height vg.Length) vg.Rectangle {
	w, st := f.panelWidth(), style(9.5, true)
	p.write(fit(s, st, w), vg.Point{X: left + w/2, Y: top}, st, p.ink, -0.5, -1)
	return vg.Rectangle{Min: vg.Point{X: left, Y: top - panelTitle - height}, Max: vg.Point{X: left + w, Y: top - panelTitle}}
}

// drawPanel draws a model's panel with its upper left corner at (left, top).
func (f figure) drawPanel(p pen, model string, left, top vg.Length) {
	lines := f.s.Series(model)
	chart := f.title(p, clean(model), left, top, f.chartHeight())
	if f.radar() {
		f.drawRadar(p, lines, chart)
	} else {
		f.drawBars(p, lines, chart)
	}
	if f.withTable() {
		f.drawValues(p, lines, left, chart.Min.Y-6)
	}
}
