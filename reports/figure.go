package reports

import (
	"image/color"
	"math"
	"slices"
	"sort"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	txt "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"selfheal/harness/result"
)

// Sizes of a figure, in points. They are those of print: a figure is as wide as one column
// of a journal's page or as two, and no letter in it is smaller than 7 points.
const (
	oneColumn  = 3.3 * vg.Inch
	twoColumns = 6.8 * vg.Inch
	gap        = vg.Length(14) // between panels
	lineStep   = vg.Length(11) // of tables and legends
	small      = vg.Length(7.5)
	normal     = vg.Length(8)
	swatch     = vg.Length(24) // a legend's sample
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
	bars    bool            // bars whatever the axes: a legend of those
	legends map[string]bool // the defenses in the legend; nil for all
}

// pageHeight is the height of a printed page, A4 with margins of half an inch.
const pageHeight = 10.7 * vg.Inch

// fullFigure is the suite's figure as a file: as wide as a column of print for one model, as
// two columns for several. The values stand below the plots where the page has room for them.
func fullFigure(s *suite, t theme) figure {
	f := figure{s: s, models: s.Models, theme: t, head: true, table: true, margin: 8}
	f = f.spread(len(s.Models), len(s.Defenses()) > 3)
	if _, height := f.size(); height > pageHeight {
		f.table = false
		f = f.spread(len(s.Models), false)
	}
	return f
}

// spread gives a figure its width and its columns for n panels: three abreast where there
// are more than four, or two where the panels need room.
func (f figure) spread(n int, wide bool) figure {
	f.width = twoColumns
	switch {
	case n <= 1:
		f.width, f.columns = oneColumn, 1
	case n <= 4 || wide:
		f.columns = 2
	default:
		f.columns = 3
	}
	return f
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

// The lines' colours have the hues of Okabe and Ito's palette (Color Universal Design, 2008),
// which the common kinds of colour blindness keep apart. Their lightness is changed so that
// the first four differ in greyscale too and stand out from the paper; palette_test.go says
// by how much.
var (
	light = theme{hex(0xffffff), hex(0x1c1c1a), hex(0x5c5c58), hex(0xd5d5d0),
		[]color.Color{hex(0xB54600), hex(0x045389), hex(0x028F66), hex(0xCA7CA5), hex(0xDD9418), hex(0x30ACEB), hex(0x000000)}}
	dark = theme{hex(0x1b1c1e), hex(0xe8e8e4), hex(0xa9a9a4), hex(0x45464a),
		[]color.Color{hex(0xF1B50B), hex(0x3EABEB), hex(0x1F9A66), hex(0x9A5779), hex(0xD15F0E), hex(0x0F6DAC), hex(0xFBEE81)}}
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

// glyph draws a series' marker with a rim of paper, so that one behind it shows.
func (p pen) glyph(index int, at vg.Point) {
	g := p.marker(index)
	rim := g
	rim.Color, rim.Radius = p.paper, g.Radius+0.7
	if _, ring := g.Shape.(draw.RingGlyph); ring { // not to be filled by the lines through it
		rim.Shape = draw.CircleGlyph{}
	}
	p.DrawGlyphNoClip(rim, at)
	p.DrawGlyphNoClip(g, at)
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
// Where there is room for it the end stays, as names often differ there only.
func fit(s string, st txt.Style, w vg.Length) string {
	r := []rune(s)
	if n := len(r); n > 2*fitEnd { // no figure has room for more: what is measured stays short
		r = slices.Concat(r[:fitEnd], r[n-fitEnd:])
	} else if st.Width(s) <= w {
		return s
	}
	shortened := func(n int) string { // to so many letters
		tail := 0
		if n >= fitTail {
			tail = 2 * n / 5
		}
		return strings.TrimRight(string(r[:n-tail]), " ") + "…" + strings.TrimLeft(string(r[len(r)-tail:]), " ")
	}
	wide := func(n int) bool { return st.Width(shortened(n)) > w }
	most := min(len(r)-1, fitEnd*5/3) // of which the head is three fifths
	if n := fitTail + sort.Search(max(most-fitTail+1, 0), func(i int) bool { return wide(fitTail + i) }) - 1; n >= fitTail {
		return shortened(n)
	}
	for n := min(most, fitTail-1); n > 0; n-- {
		if !wide(n) {
			return shortened(n)
		}
	}
	return ""
}

const (
	fitTail = 10  // letters from which on a shortened name keeps its end
	fitEnd  = 200 // letters of a name's head and of its tail that a figure looks at: two columns have room for fewer
)

// wrap breaks s between words into lines no wider than w, at most so many; what is too long
// for a line or for the last one is shortened.
func wrap(s string, st txt.Style, w vg.Length, most int) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		last := len(lines) - 1
		switch {
		case last < 0:
			lines = append(lines, word)
		case last == most-1 || st.Width(lines[last]+" "+word) <= w:
			lines[last] += " " + word
		default:
			lines = append(lines, word)
		}
	}
	for i := range lines {
		lines[i] = fit(lines[i], st, w)
	}
	return lines
}

// value is a cell's accuracy as a figure says it: in per cent, of several seeds their mean.
func value(c *result.Cell) string {
	if c == nil {
		return dash
	}
	return percent(score(c), c.N)
}

// panelWidth is the width of one panel.
func (f figure) panelWidth() vg.Length {
	n := vg.Length(f.columns)
	return (f.width - 2*f.margin - (n-1)*gap) / n
}

// radar reports whether the suite has axes enough for one.
func (f figure) radar() bool { return len(f.s.Columns) >= 3 }

// lined reports whether the figure draws a defense as a line, not as bars.
func (f figure) lined() bool { return !f.bars && (f.curve || f.radar()) }

// headline is a line above the panels.
type headline struct {
	text  string
	style txt.Style
	col   color.Color
	step  vg.Length
}

// headlines are the suite's title, what was scored and what the attacker knows, in lines
// that fit the figure.
func (f figure) headlines() []headline {
	if !f.head {
		return nil
	}
	inner := f.width - 2*f.margin
	var out []headline
	add := func(s string, st txt.Style, col color.Color, step vg.Length) {
		for _, l := range wrap(s, st, inner, 3) {
			out = append(out, headline{l, st, col, step})
		}
	}
	title, facts := style(11, true), style(normal, false)
	add(f.s.Heading(), title, f.theme.ink, 14)
	add("accuracy in % · "+f.s.Facts(), facts, f.theme.muted, 11)
	add(strings.TrimPrefix(f.seeds(), ", "), facts, f.theme.muted, 11)
	if m := modeOf(f.s.Mode); m.Short != "" {
		add("adversarial images "+m.Short, facts, f.theme.muted, 11)
	}
	return out
}

func (f figure) headHeight() (h vg.Length) {
	for _, l := range f.headlines() {
		h += l.step
	}
	if h > 0 {
		h += 8
	}
	return h
}

func (f figure) panelHeight() vg.Length {
	h := panelTitle + f.chartHeight()
	if f.withTable() {
		h += lineStep*vg.Length(len(f.s.Columns)+1) + 6
	}
	return h
}

// withTable is true also where axes are numbered: the table is their key. It is false where
// there are more defenses than the panel has room for.
func (f figure) withTable() bool {
	return (f.table && f.valuesFit()) || (f.radar() && f.axes().numbered)
}

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
	top := height - f.margin
	y := top
	for _, l := range f.headlines() {
		p.write(l.text, vg.Point{X: f.width / 2, Y: y}, l.style, l.col, -0.5, -1)
		y -= l.step
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
	w, st := f.panelWidth(), style(9, true)
	p.write(fit(s, st, w), vg.Point{X: left + w/2, Y: top}, st, p.ink, -0.5, -1)
	return vg.Rectangle{Min: vg.Point{X: left, Y: top - panelTitle - height}, Max: vg.Point{X: left + w, Y: top - panelTitle}}
}

// subtitle writes what a model's chart is of at the chart's upper end.
func (f figure) subtitle(p pen, s string, chart vg.Rectangle) {
	st := style(normal, false)
	p.write(fit(s, st, f.panelWidth()), vg.Point{X: (chart.Min.X + chart.Max.X) / 2, Y: chart.Max.Y + 4}, st, p.muted, -0.5, -1)
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
