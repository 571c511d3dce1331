package chart

import (
	"html/template"
	"image/color"
	"regexp"
	"slices"

	"bytes"
	"fmt"
	"html"
	"io"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// svgCanvas notes how wide each text is with the fonts it was laid out for.
type svgCanvas struct {
	*vgsvg.Canvas
	widths []vg.Length
}

func (c *svgCanvas) FillString(f font.Face, pt vg.Point, s string) {
	c.widths = append(c.widths, f.Width(s))
	c.Canvas.FillString(f, pt, s)
}

// svg draws s as an SVG document. Its text stays text; textLength holds each to
// the width of the layout, whichever font the viewer falls back to.
func svg(s Sheet, t theme) string {
	c := &svgCanvas{Canvas: vgsvg.New(s.Size())}
	s.draw(c, t)
	var buf bytes.Buffer
	c.WriteTo(&buf) // a bytes.Buffer takes everything
	const family = "font-family:Liberation Sans;font-variant:normal;"
	doc := strings.ReplaceAll(buf.String(), family, "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	parts := strings.Split(doc, "<text x=") // names are escaped: only elements begin so
	var sb strings.Builder
	for i, part := range parts {
		if i > 0 {
			fmt.Fprintf(&sb, `<text textLength="%.2f" lengthAdjust="spacingAndGlyphs" x=`, c.widths[i-1].Points())
		}
		sb.WriteString(part)
	}
	return strings.Replace(sb.String(), svgOpen, svgOpen+"\n<title>"+html.EscapeString(s.Alt)+"</title>", 1)
}

const svgOpen = `xmlns:xlink="http://www.w3.org/1999/xlink">`

// WriteSVG writes the sheet for light pages, in its real size.
func (s Sheet) WriteSVG(w io.Writer) error {
	_, err := io.WriteString(w, svg(s, light))
	return err
}

// themed is what may differ between a drawing for light pages and one for dark pages.
var themed = regexp.MustCompile(`#[0-9A-F]{6}|<image [^>]*>`)

// Drawing is the sheet as an svg element that follows the page's colour scheme: a colour that
// differs is var(--DAY-NIGHT), which [WithInks] defines. The page's style has its font.
func (s Sheet) Drawing() template.HTML {
	night := themed.FindAllString(svg(s, dark), -1)
	_, drawing, _ := strings.Cut(svg(s, light), "</title>")
	drawing = themed.ReplaceAllStringFunc(drawing, func(day string) string {
		other := night[0]
		switch night = night[1:]; {
		case day == other:
			return day
		case day[0] == '#':
			return "var(--" + day[1:] + "-" + other[1:] + ")"
		}
		return strings.Replace(day, "<image", `<image class="day"`, 1) + strings.Replace(other, "<image",
			`<image class="night"`, 1)
	})
	drawing = strings.NewReplacer("\n", "", "\t", "", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;", "",
		"font-weight:normal;", "", "font-style:normal;", "").Replace(drawing)
	width, height := s.Size()
	const open = `<svg class="fig" role="img" aria-label="%s" viewBox="0 0 %.5g %.5g" width="%d" height="%d">`
	return template.HTML(fmt.Sprintf(open,
		html.EscapeString(s.Alt), width.Points(), height.Points(), cssPixels(width), cssPixels(height)) + drawing)
}

func cssPixels(l vg.Length) int { return int(l.Points() * 96 / 72) }

var inkUse = regexp.MustCompile(`var\(--([0-9A-F]{6})-([0-9A-F]{6})\)`)

// WithInks defines the colours that a page's pictures use, at the end of its style. On
// paper they are those of light pages.
func WithInks(page string) string {
	var day, night []string
	for _, m := range inkUse.FindAllStringSubmatch(page, -1) {
		name := "--" + m[1] + "-" + m[2] + ":#"
		day, night = append(day, name+m[1]), append(night, name+m[2])
	}
	list := func(inks []string) string {
		slices.Sort(inks)
		return ":root{" + strings.Join(slices.Compact(inks), ";") + "}"
	}
	const end, darkPages = "</style>", "\n@media screen and (prefers-color-scheme: dark){"
	return strings.Replace(page, end, list(day)+darkPages+list(night)+"}\n"+end, 1)
}

// SeriesStyle defines the colours of baseline and controlled bars: those of the figures.
func SeriesStyle() template.CSS {
	define := func(t theme) string {
		return fmt.Sprintf(":root { --baseline: %s; --controlled: %s; }", cssColour(t.lines[0]), cssColour(t.lines[1]))
	}
	return template.CSS(define(light) + "\n@media screen and (prefers-color-scheme: dark) { " + define(dark) + " }\n")
}

func cssColour(c color.Color) string {
	k := color.NRGBAModel.Convert(c).(color.NRGBA)
	return fmt.Sprintf("#%02x%02x%02x", k.R, k.G, k.B)
}
