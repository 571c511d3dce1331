package chart

import (
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

func (s Sheet) WriteSVG(w io.Writer) error {
	_, err := io.WriteString(w, svg(s, light))
	return err
}
