package reports

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// inlineCanvas draws SVG elements for the page itself: paths in hundredths of a point
// and relative, those of one style in one element. A page has each picture once and
// colours it by its scheme, where two images of every picture would be three times as large.
type inlineCanvas struct {
	height vg.Length
	marks  []mark
	stack  []penState
	able   bool // nothing was drawn that it can't
}

// penState is what Push keeps. turn is a quarter or another rotation, in radians; at is
// where the origin lies.
type penState struct {
	colour color.Color
	width  vg.Length
	dashes []vg.Length
	at     vg.Point
	turn   float64
}

// mark is one element. Drawn for light and for dark pages it differs in colour and pixels only.
type mark struct {
	element    string
	attributes string
	property   string // that the colour is of: fill or stroke
	colour     string // RRGGBB
	path       string
	text       string
	pixels     string // a PNG file, base64
	solid      bool   // opaque: paths of the same look may be one
}

func newInline(height vg.Length) *inlineCanvas {
	c := &inlineCanvas{height: height, stack: []penState{{}}, able: true}
	vg.Initialize(c)
	return c
}

func (c *inlineCanvas) now() *penState                                { return &c.stack[len(c.stack)-1] }
func (c *inlineCanvas) SetLineWidth(w vg.Length)                      { c.now().width = w }
func (c *inlineCanvas) SetLineDash(dashes []vg.Length, off vg.Length) { c.now().dashes = dashes }
func (c *inlineCanvas) SetColor(clr color.Color)                      { c.now().colour = clr }
func (c *inlineCanvas) Rotate(rad float64)                            { c.now().turn += rad }
func (c *inlineCanvas) Translate(pt vg.Point)                         { c.now().at = c.place(pt) }
func (c *inlineCanvas) Push()                                         { c.stack = append(c.stack, *c.now()) }
func (c *inlineCanvas) Pop()                                          { c.stack = c.stack[:len(c.stack)-1] }

// Scale is not used by what draws figures.
func (c *inlineCanvas) Scale(x, y float64) { c.able = c.able && x == 1 && y == 1 }

// place is where a point lies on the canvas, from its lower left corner.
func (c *inlineCanvas) place(pt vg.Point) vg.Point {
	s := c.now()
	sin, cos := math.Sincos(s.turn)
	x, y := float64(pt.X), float64(pt.Y)
	return s.at.Add(vg.Point{X: vg.Length(x*cos - y*sin), Y: vg.Length(x*sin + y*cos)})
}

// dot is a point in hundredths from the upper left corner, as SVG counts.
type dot struct{ x, y int }

func (c *inlineCanvas) dot(pt vg.Point) dot {
	pt = c.place(pt)
	return dot{hundredths(pt.X), hundredths(c.height - pt.Y)}
}

func hundredths(l vg.Length) int { return int(math.Round(100 * l.Points())) }

// short writes hundredths without zeros that say nothing: 0.5 is .5.
func short(n int) string {
	s := strconv.FormatFloat(float64(n)/100, 'f', -1, 64)
	if strings.HasPrefix(s, "0.") {
		return s[1:]
	}
	return strings.Replace(s, "-0.", "-.", 1)
}

// beside joins numbers with as little between them as SVG's grammar asks for.
func beside(ns ...int) string {
	var sb strings.Builder
	for i, n := range ns {
		s := short(n)
		if i > 0 && s[0] != '-' {
			sb.WriteByte(' ')
		}
		sb.WriteString(s)
	}
	return sb.String()
}

// path writes path data; each part starts absolutely, so that paths can be joined.
func (c *inlineCanvas) path(p vg.Path) string {
	var sb strings.Builder
	var at dot
	line := func(to dot) {
		sb.WriteString("l" + beside(to.x-at.x, to.y-at.y))
		at = to
	}
	for _, part := range p {
		switch part.Type {
		case vg.MoveComp:
			at = c.dot(part.Pos)
			sb.WriteString("M" + beside(at.x, at.y))
		case vg.LineComp:
			line(c.dot(part.Pos))
		case vg.ArcComp:
			r := hundredths(part.Radius)
			point := func(angle float64) dot { return c.dot(part.Pos.Add(polar(part.Radius, angle))) }
			if from := point(part.Start); from != at {
				line(from)
			}
			sweep := " 0 0 1 " // counterclockwise there is clockwise here, where y points down
			if part.Angle > 0 {
				sweep = " 0 0 0 "
			}
			pieces := int(math.Ceil(math.Abs(part.Angle) / (math.Pi * 0.99)))
			for i := 1; i <= pieces; i++ { // each less than half a turn
				to := point(part.Start + part.Angle*float64(i)/float64(pieces))
				sb.WriteString("a" + beside(r, r) + sweep + beside(to.x-at.x, to.y-at.y))
				at = to
			}
		case vg.CurveComp:
			command := "c"
			if len(part.Control) == 1 {
				command = "q"
			}
			var ns []int
			for _, pt := range append(slices.Clone(part.Control), part.Pos) {
				d := c.dot(pt)
				ns = append(ns, d.x-at.x, d.y-at.y)
			}
			sb.WriteString(command + beside(ns...))
			at = c.dot(part.Pos)
		case vg.CloseComp:
			sb.WriteString("Z")
		}
	}
	return sb.String()
}

// inkOf is the pen's colour and, where it lets something through, its opacity as an attribute.
func (c *inlineCanvas) inkOf(property string) (colour, opacity string) {
	k := color.NRGBAModel.Convert(c.now().colour).(color.NRGBA)
	if k.A != 0xff {
		opacity = fmt.Sprintf(` %s-opacity="%.3g"`, property, float64(k.A)/0xff)
	}
	return fmt.Sprintf("%02X%02X%02X", k.R, k.G, k.B), opacity
}

// add appends a mark; an opaque path goes on with the one before where they look alike.
func (c *inlineCanvas) add(m mark) {
	if n := len(c.marks); n > 0 && m.solid {
		last := &c.marks[n-1]
		if last.solid && last.property == m.property && last.colour == m.colour && last.attributes == m.attributes {
			last.path += m.path
			return
		}
	}
	c.marks = append(c.marks, m)
}

func (c *inlineCanvas) Stroke(p vg.Path) {
	s := c.now()
	if s.width <= 0 {
		return
	}
	colour, opacity := c.inkOf("stroke")
	attributes := ` fill="none" stroke-width="` + short(hundredths(s.width)) + `"` + opacity
	if len(s.dashes) > 0 {
		var ns []string
		for _, d := range s.dashes {
			ns = append(ns, short(hundredths(d)))
		}
		attributes += ` stroke-dasharray="` + strings.Join(ns, " ") + `"`
	}
	c.add(mark{element: "path", property: "stroke", colour: colour, attributes: attributes, path: c.path(p), solid: opacity == ""})
}

func (c *inlineCanvas) Fill(p vg.Path) {
	colour, opacity := c.inkOf("fill")
	c.add(mark{element: "path", property: "fill", colour: colour, attributes: opacity, path: c.path(p), solid: opacity == ""})
}

func (c *inlineCanvas) FillString(f font.Face, pt vg.Point, s string) {
	colour, opacity := c.inkOf("fill")
	d := c.dot(pt)
	attributes := fmt.Sprintf(` x="%s" y="%s" font-size="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"%s`,
		short(d.x), short(d.y), short(hundredths(f.Font.Size)), short(hundredths(f.Width(s))), opacity)
	if f.Font.Weight == stdfont.WeightBold {
		attributes += ` font-weight="700"`
	}
	if turn := c.now().turn; turn != 0 {
		attributes += fmt.Sprintf(` transform="rotate(%.4g %s %s)"`, -turn*180/math.Pi, short(d.x), short(d.y))
	}
	c.add(mark{element: "text", property: "fill", colour: colour, attributes: attributes, text: s})
}

func (c *inlineCanvas) DrawImage(rect vg.Rectangle, img image.Image) {
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil || c.now().turn != 0 {
		c.able = false
		return
	}
	low, high := c.dot(rect.Min), c.dot(rect.Max)
	c.add(mark{element: "image", pixels: base64.StdEncoding.EncodeToString(buf.Bytes()),
		attributes: fmt.Sprintf(` x="%s" y="%s" width="%s" height="%s" preserveAspectRatio="none"`, short(low.x), short(high.y), short(high.x-low.x), short(low.y-high.y))})
}

// inline draws a picture as an svg element that follows the page's colour scheme: where
// the two drawings differ in colour, it has var(--DAY-NIGHT), which [withInks] defines.
// It is "" where they differ in more, which a page shows as two images then.
func inline(day, night picture) template.HTML {
	width, height := day.size()
	a, b := newInline(height), newInline(height)
	day.draw(a)
	night.draw(b)
	if !a.able || !b.able || len(a.marks) != len(b.marks) {
		return ""
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, `<svg class="fig" role="img" aria-label="%s" viewBox="0 0 %s %s" width="%d" height="%d">`, html.EscapeString(day.describe()),
		short(hundredths(width)), short(hundredths(height)), cssPixels(width), cssPixels(height))
	for i, m := range a.marks {
		n := b.marks[i]
		if m.element != n.element || m.attributes != n.attributes || m.path != n.path || m.text != n.text {
			return ""
		}
		switch {
		case m.element == "image" && m.pixels == n.pixels:
			fmt.Fprintf(&sb, `<image%s href="data:image/png;base64,%s"/>`, m.attributes, m.pixels)
		case m.element == "image":
			fmt.Fprintf(&sb, `<image class="day"%s href="data:image/png;base64,%s"/><image class="night"%s href="data:image/png;base64,%s"/>`,
				m.attributes, m.pixels, m.attributes, n.pixels)
		case m.element == "path":
			fmt.Fprintf(&sb, `<path%s%s d="%s"/>`, ink(m.property, m.colour, n.colour), m.attributes, m.path)
		default:
			fmt.Fprintf(&sb, `<text%s%s>%s</text>`, ink(m.property, m.colour, n.colour), m.attributes, html.EscapeString(m.text))
		}
	}
	return template.HTML(sb.String() + "</svg>")
}

func cssPixels(l vg.Length) int { return int(l.Points() * 96 / 72) }

func ink(property, day, night string) string {
	if day == night {
		return fmt.Sprintf(` %s="#%s"`, property, day)
	}
	return fmt.Sprintf(` style="%s:var(--%s-%s)"`, property, day, night)
}

var inkUse = regexp.MustCompile(`var\(--([0-9A-F]{6})-([0-9A-F]{6})\)`)

// withInks defines the colours that a page's pictures use, at the end of its style. On
// paper they are those of light pages.
func withInks(page string) string {
	var day, night []string
	for _, m := range inkUse.FindAllStringSubmatch(page, -1) {
		name := "--" + m[1] + "-" + m[2] + ":#"
		day, night = append(day, name+m[1]), append(night, name+m[2])
	}
	for _, list := range []*[]string{&day, &night} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if day == nil {
		return page
	}
	const end = "</style>"
	return strings.Replace(page, end, ":root{"+strings.Join(day, ";")+"}\n@media screen and (prefers-color-scheme: dark){:root{"+strings.Join(night, ";")+"}}\n"+end, 1)
}
