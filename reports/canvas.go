package reports

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"html"
	"image/color"
	"io"
	"strings"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// dpi is the resolution of the PNG files.
const dpi = 200

// picture is something to draw, of a size in points.
type picture interface {
	size() (width, height vg.Length)
	draw(canvas vg.Canvas)
	describe() string // what it shows, for readers who do not see it
}

func renderPNG(w io.Writer, _ *view, s *suite) error      { return writePNG(w, fullFigure(s, light)) }
func renderCurvePNG(w io.Writer, _ *view, s *suite) error { return writePNG(w, fullCurves(s, light)) }

func renderSVG(w io.Writer, _ *view, s *suite) error {
	_, err := io.WriteString(w, svg(fullFigure(s, light)))
	return err
}

func renderCurveSVG(w io.Writer, _ *view, s *suite) error {
	_, err := io.WriteString(w, svg(fullCurves(s, light)))
	return err
}

func writePNG(w io.Writer, p picture) error {
	c := pngCanvas{vgimg.NewWith(vgimg.UseWH(p.size()), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))}
	p.draw(c)
	var buf bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c.Canvas}).WriteTo(&buf); err != nil {
		return err
	}
	_, err := w.Write(withResolution(buf.Bytes()))
	return err
}

// withResolution adds the pHYs chunk, so that the image prints at its size.
// It goes after the signature (8 bytes) and the header chunk (25 bytes).
func withResolution(png []byte) []byte {
	const perMetre = dpi * 10000 / 254
	chunk := binary.BigEndian.AppendUint32(nil, 9)
	chunk = append(chunk, "pHYs"...)
	chunk = binary.BigEndian.AppendUint32(chunk, perMetre)
	chunk = binary.BigEndian.AppendUint32(chunk, perMetre)
	chunk = append(chunk, 1)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return bytes.Join([][]byte{png[:33], chunk, png[33:]}, nil)
}

// pngCanvas writes a question mark for letters that the fonts lack.
type pngCanvas struct{ *vgimg.Canvas }

func (c pngCanvas) FillString(f font.Face, pt vg.Point, s string) {
	var buf sfnt.Buffer
	c.Canvas.FillString(f, pt, strings.Map(func(r rune) rune {
		if i, err := f.Face.GlyphIndex(&buf, r); err != nil || i == 0 {
			return '?'
		}
		return r
	}, s))
}

// svgCanvas notes how wide each text is with the fonts it was laid out for.
type svgCanvas struct {
	*vgsvg.Canvas
	widths []vg.Length
}

func (c *svgCanvas) FillString(f font.Face, pt vg.Point, s string) {
	c.widths = append(c.widths, f.Width(s))
	c.Canvas.FillString(f, pt, s)
}

// svg draws p as an SVG document. Its text stays text; textLength holds each to
// the width of the layout, whichever font the viewer falls back to.
func svg(p picture) string {
	c := &svgCanvas{Canvas: vgsvg.New(p.size())}
	p.draw(c)
	var buf bytes.Buffer
	c.WriteTo(&buf) // a bytes.Buffer takes everything
	const family = `style="font-family:Liberation Sans;`
	doc := strings.ReplaceAll(buf.String(), family, `style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`)
	parts := strings.Split(doc, "<text x=") // names are escaped: only elements begin so
	var sb strings.Builder
	for i, part := range parts {
		if i > 0 {
			fmt.Fprintf(&sb, `<text textLength="%.2f" lengthAdjust="spacingAndGlyphs" x=`, c.widths[i-1].Points())
		}
		sb.WriteString(part)
	}
	const open = `xmlns:xlink="http://www.w3.org/1999/xlink">`
	return strings.Replace(sb.String(), open, open+"\n<title>"+html.EscapeString(p.describe())+"</title>", 1)
}
