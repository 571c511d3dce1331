package chart

import (
	"image/color"
	"math"
	"slices"
	"sort"
	"strings"

	"selfheal/internal/lists"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	txt "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of a figure, in points. They are for print: a figure is as wide as one column of a journal's page or as two,
// and no letter in it is smaller than 7 points.
const (
	OneColumn  = 3.3 * vg.Inch
	twoColumns = 6.8 * vg.Inch
	gap        = vg.Length(14) // between panels
	titleStep  = vg.Length(14) // between the lines of a title
	LineStep   = vg.Length(11) // between lines below a title, of tables and of legends
	Swatch     = vg.Length(24) // width of a legend's sample
)

type theme struct {
	Paper, Ink, Muted, Grid color.Color
	lines                   []color.Color // by series: the undefended network, then the controls
}

func hex(v uint32) color.Color {
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff}
}

// The lines' colours have the hues of Okabe and Ito's palette (Color Universal Design, 2008), which people with the
// common kinds of colour blindness can tell apart. Their lightness is changed so that the first four differ in
// greyscale too and contrast with the paper; palette_test.go states by how much. Black is #010101, because gonum's SVG
// leaves out #000000.
var (
	light = theme{hex(0xffffff), hex(0x1c1c1a), hex(0x5c5c58), hex(0xd5d5d0),
		[]color.Color{hex(0xB54600), hex(0x045389), hex(0x028F66), hex(0xCA7CA5), hex(0xDD9418), hex(0x30ACEB),
			hex(0x010101)}}
	dark = theme{hex(0x1b1c1e), hex(0xe8e8e4), hex(0xa9a9a4), hex(0x45464a),
		[]color.Color{hex(0xF1B50B), hex(0x3EABEB), hex(0x1F9A66), hex(0x9A5779), hex(0xD15F0E), hex(0x0F6DAC),
			hex(0xFBEE81)}}
)

// Dashes and markers tell the series apart without colour. The three lists have different lengths, so that many series
// still differ.
var (
	dashes = [][]vg.Length{{5, 2.5}, nil, {8, 2, 1.5, 2}, {1.5, 2}, {10, 3}}
	shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
		corners{math.Pi / 2, 4}, corners{-math.Pi / 2, 3},
		draw.RingGlyph{}}
)

// corners is a filled regular polygon; first is the angle of its first corner.
type corners struct {
	first float64
	n     int
}

func (g corners) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, at vg.Point) {
	var path []vg.Point
	for i := range g.n {
		path = append(path, at.Add(Polar(sty.Radius*1.2, g.first+2*math.Pi*float64(i)/float64(g.n))))
	}
	c.FillPolygon(sty.Color, path)
}

func Pt(x, y vg.Length) vg.Point { return vg.Point{X: x, Y: y} }

func Rect(x, y, toX, toY vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: Pt(x, y), Max: Pt(toX, toY)}
}

func Polar(r vg.Length, angle float64) vg.Point {
	return Pt(r*vg.Length(math.Cos(angle)), r*vg.Length(math.Sin(angle)))
}

// Pen draws text and lines in a theme.
type Pen struct {
	draw.Canvas
	theme
}

// Look is how a series is drawn. Colour, Dash and Marker index the lists above and wrap around.
type Look struct {
	Colour int // or [Ink]
	Line   bool
	Dash   int
	Marks  bool
	Marker int
	Bars   bool // filled, without line and marker
	Thin   bool // a thin line of short dashes, whatever Dash says: somebody else's numbers
}

const Ink = -1

// LookOf returns the look of a suite's i-th defense; 0 is the undefended network.
func LookOf(i int) Look { return Look{Colour: i, Line: true, Dash: i, Marks: true, Marker: i} }

// Labelled starts a series with a legend entry, shortened to a width.
func (l Look) Labelled(label string, width vg.Length) Series {
	return Series{Look: l, Label: Fit(label, Normal, width)}
}

// Colour returns a series' colour; [Ink] is the text's.
func (t theme) Colour(i int) color.Color {
	if i < 0 {
		return t.Ink
	}
	return t.lines[i%len(t.lines)]
}

func (t theme) Line(l Look) draw.LineStyle {
	if l.Thin {
		return draw.LineStyle{Color: t.Colour(l.Colour), Width: 0.9, Dashes: []vg.Length{2.5, 1.8}}
	}
	return draw.LineStyle{Color: t.Colour(l.Colour), Width: 1.5, Dashes: dashes[l.Dash%len(dashes)]}
}

func (t theme) marker(l Look) draw.GlyphStyle {
	return draw.GlyphStyle{Color: t.Colour(l.Colour), Radius: 2.7, Shape: shapes[l.Marker%len(shapes)]}
}

// Mark draws a marker with a rim in the paper's colour. A ring of a series without a line surrounds another marker and
// has no rim.
func (p Pen) Mark(l Look, at vg.Point) {
	g := p.marker(l)
	rim := g
	rim.Color, rim.Radius = p.Paper, g.Radius+0.7
	if _, ring := g.Shape.(draw.RingGlyph); ring {
		g.Radius += 0.9
		rim.Shape = draw.CircleGlyph{}
		if !l.Line {
			rim.Color, rim.Radius, rim.Shape = g.Color, g.Radius, g.Shape
		}
	}
	p.DrawGlyphNoClip(rim, at)
	p.DrawGlyphNoClip(g, at)
}

// Segment strokes a solid line of this colour and width.
func (p Pen) Segment(c color.Color, width vg.Length, from, to vg.Point) {
	p.StrokeLine2(draw.LineStyle{Color: c, Width: width}, from.X, from.Y, to.X, to.Y)
}

func (p Pen) Block(c color.Color, r vg.Rectangle) {
	p.SetColor(c)
	p.Fill(r.Path())
}

// Styles of text; the smallest has 7 points.
var (
	Title     = style(11, true) // of a sheet's title
	Strong    = style(9, true)  // of a panel's title
	Normal    = style(8, false) // of legends
	Small     = style(7.5, false)
	SmallBold = style(7.5, true)
	Tiny      = style(7, false)
)

func style(size vg.Length, bold bool) txt.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = stdfont.WeightBold
	}
	return txt.Style{Font: f, Handler: plot.DefaultTextHandler}
}

// Write writes s at (x, y). x and y say which point of the text lies there, as in text.Style: 0 left or bottom, −½ the
// middle, −1 right or top.
func (p Pen) Write(s string, at vg.Point, st txt.Style, col color.Color, x, y float64) {
	if y == -0.5 { // the middle of small letters and capitals, not of the line
		at.Y += st.Font.Size * 0.09
	}
	st.Color, st.XAlign, st.YAlign = col, txt.XAlignment(x), txt.YAlignment(y)
	p.FillText(st, at, s)
}

// Fit shortens s with an ellipsis until it is no wider than w; it returns "" if not even one letter fits. If there is
// room, the end stays, because names often differ only there.
func Fit(s string, st txt.Style, w vg.Length) string {
	r := []rune(s)
	if n := len(r); n > 2*fitEnd { // no figure has room for more, and measuring stays cheap
		r = slices.Concat(r[:fitEnd], r[n-fitEnd:])
	} else if st.Width(s) <= w {
		return s
	}
	shortened := func(n int) string { // to n letters
		tail := 0
		if n >= fitTail {
			tail = 2 * n / 5
		}
		return strings.TrimRight(string(r[:n-tail]), " ") + "…" + strings.TrimLeft(string(r[len(r)-tail:]), " ")
	}
	most := min(len(r)-1, fitEnd*5/3) // the head gets three fifths
	if n := sort.Search(most, func(i int) bool { return st.Width(shortened(i+1)) > w }); n > 0 {
		return shortened(n)
	}
	return ""
}

const (
	fitTail = 10  // letters from which a shortened name keeps its end
	fitEnd  = 200 // letters of a name's head and of its tail that are considered: two columns have room for fewer
)

// wrap breaks s between words into at most so many lines no wider than w. A longer text is shortened.
func wrap(s string, st txt.Style, w vg.Length, most int) (lines []string) {
	for _, word := range strings.Fields(s) {
		last := len(lines) - 1
		if last >= 0 && (last == most-1 || st.Width(lines[last]+" "+word) <= w) {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lists.Map(lines, func(line string) string { return Fit(line, st, w) })
}
