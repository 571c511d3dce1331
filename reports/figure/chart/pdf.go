package chart

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf16"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	plotfont "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// WritePDF writes the sheet in the light theme as one page of its real size, without dates, so that the same sheet
// gives the same bytes. Letters are outlines: the page shows every letter that the fonts have, and embeds none of them.
func (s Sheet) WritePDF(w io.Writer) error {
	c := &pdfCanvas{}
	s.draw(c, light)
	width, height := s.Size()
	_, err := w.Write(c.document(width, height, strings.Join(s.Head, " · ")))
	return err
}

// pdfCanvas is a [vg.Canvas] that writes the operators of a PDF page's content (ISO 32000-1, section 8).
type pdfCanvas struct {
	content bytes.Buffer
	alphas  []uint8 // of colours that are not opaque, each once
	images  []image.Image
	glyphs  []glyph
}

func (c *pdfCanvas) op(operator string, operands ...float64) {
	for _, x := range operands {
		c.content.WriteString(decimal(x) + " ")
	}
	c.content.WriteString(operator + "\n")
}

// decimal writes a number with at most three decimals and no exponent.
func decimal(x float64) string {
	s := strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", x), "0"), ".")
	if s == "-0" || s == "" {
		return "0"
	}
	return s
}

func (c *pdfCanvas) SetLineWidth(w vg.Length) { c.op("w", w.Points()) }

func (c *pdfCanvas) SetLineDash(dashes []vg.Length, offset vg.Length) {
	of := ""
	for _, d := range dashes {
		of += decimal(d.Points()) + " "
	}
	c.op("[" + of + "] " + decimal(offset.Points()) + " d")
}

func (c *pdfCanvas) SetColor(of color.Color) {
	if of == nil {
		of = color.Black
	}
	k := color.NRGBAModel.Convert(of).(color.NRGBA)
	r, g, b := float64(k.R)/255, float64(k.G)/255, float64(k.B)/255
	c.op("rg", r, g, b)
	c.op("RG", r, g, b)
	i := slices.Index(c.alphas, k.A)
	if i < 0 {
		i, c.alphas = len(c.alphas), append(c.alphas, k.A)
	}
	c.op(fmt.Sprintf("/A%d gs", i))
}

func (c *pdfCanvas) Rotate(angle float64) {
	sin, cos := math.Sincos(angle)
	c.op("cm", cos, sin, -sin, cos, 0, 0)
}

func (c *pdfCanvas) Translate(by vg.Point)    { c.op("cm", 1, 0, 0, 1, by.X.Points(), by.Y.Points()) }
func (c *pdfCanvas) Scale(x, y float64)       { c.op("cm", x, 0, 0, y, 0, 0) }
func (c *pdfCanvas) Push()                    { c.op("q") }
func (c *pdfCanvas) Pop()                     { c.op("Q") }
func (c *pdfCanvas) Stroke(path vg.Path)      { c.path(path, "S") }
func (c *pdfCanvas) Fill(path vg.Path)        { c.path(path, "f") }
func (c *pdfCanvas) at(p vg.Point) [2]float64 { return [2]float64{p.X.Points(), p.Y.Points()} }

// path writes a path and paints it. An arc begins with a line from the current point, if there is one.
func (c *pdfCanvas) path(path vg.Path, paint string) {
	begun := false
	var now [2]float64
	curve := func(a, b, to [2]float64) {
		c.op("c", a[0], a[1], b[0], b[1], to[0], to[1])
		now = to
	}
	for _, part := range path {
		to := c.at(part.Pos)
		switch part.Type {
		case vg.MoveComp:
			c.op("m", to[0], to[1])
			now = to
		case vg.LineComp:
			c.op("l", to[0], to[1])
			now = to
		case vg.CurveComp:
			a := c.at(part.Control[0])
			if b := a; len(part.Control) == 2 {
				curve(a, c.at(part.Control[1]), to)
			} else { // a quadratic one
				for i := range a {
					a[i], b[i] = now[i]+(a[i]-now[i])*2/3, to[i]+(b[i]-to[i])*2/3
				}
				curve(a, b, to)
			}
		case vg.ArcComp:
			n := math.Ceil(math.Abs(part.Angle)/(math.Pi/2) + 1e-9)
			r, step := part.Radius.Points(), part.Angle/n
			k := 4. / 3 * math.Tan(step/4) * r
			on := func(angle float64) (at, along [2]float64) {
				sin, cos := math.Sincos(angle)
				return [2]float64{to[0] + r*cos, to[1] + r*sin}, [2]float64{-k * sin, k * cos}
			}
			from, along := on(part.Start)
			c.op(map[bool]string{true: "l", false: "m"}[begun], from[0], from[1])
			for i := range int(n) {
				end, leaving := on(part.Start + step*float64(i+1))
				curve([2]float64{from[0] + along[0], from[1] + along[1]},
					[2]float64{end[0] - leaving[0], end[1] - leaving[1]}, end)
				from, along = end, leaving
			}
		case vg.CloseComp:
			c.op("h")
		}
		begun = true
	}
	c.op(paint)
}

// FillString fills the outlines of a text's letters; a question mark stands for letters that the font lacks.
func (c *pdfCanvas) FillString(f plotfont.Face, at vg.Point, text string) {
	var buf sfnt.Buffer
	perEm := fixed.Int26_6(f.Face.UnitsPerEm())
	scale := f.Font.Size.Points() / float64(perEm)
	x, last := at.X.Points(), sfnt.GlyphIndex(0)
	for _, r := range text {
		of, err := f.Face.GlyphIndex(&buf, r)
		if err != nil || of == 0 {
			of, _ = f.Face.GlyphIndex(&buf, '?')
		}
		if kern, err := f.Face.Kern(&buf, last, of, perEm, font.HintingNone); last > 0 && err == nil {
			x += scale * float64(kern)
		}
		last = of
		one := glyph{f.Face, of}
		i := slices.Index(c.glyphs, one)
		if i < 0 {
			i, c.glyphs = len(c.glyphs), append(c.glyphs, one)
		}
		c.op("q")
		c.op(fmt.Sprintf("%.6f 0 0 %.6f %.2f %.2f cm /G%d Do", scale, scale, x, at.Y.Points(), i))
		c.op("Q")
		if advance, err := f.Face.GlyphAdvance(&buf, of, perEm, font.HintingNone); err == nil {
			x += scale * float64(advance)
		}
	}
}

// glyph is a letter of a font. It is drawn once, in the font's units, and used wherever it stands.
type glyph struct {
	font  *sfnt.Font
	index sfnt.GlyphIndex
}

// outline returns the operators that fill the letter; none for a space.
func (g glyph) outline() []byte {
	var buf sfnt.Buffer
	segments, err := g.font.LoadGlyph(&buf, g.index, fixed.Int26_6(g.font.UnitsPerEm()), nil)
	if err != nil || len(segments) == 0 {
		return []byte{}
	}
	var c pdfCanvas
	var path vg.Path
	point := func(p fixed.Point26_6) vg.Point { return Pt(vg.Length(p.X), -vg.Length(p.Y)) }
	for _, s := range segments {
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			path.Move(point(s.Args[0]))
		case sfnt.SegmentOpLineTo:
			path.Line(point(s.Args[0]))
		case sfnt.SegmentOpQuadTo:
			path.QuadTo(point(s.Args[0]), point(s.Args[1]))
		case sfnt.SegmentOpCubeTo:
			path.CubeTo(point(s.Args[0]), point(s.Args[1]), point(s.Args[2]))
		}
	}
	c.Fill(path) // which closes it
	return c.content.Bytes()
}

func (c *pdfCanvas) DrawImage(r vg.Rectangle, img image.Image) {
	size := r.Size()
	c.op("q")
	c.op("cm", size.X.Points(), 0, 0, size.Y.Points(), r.Min.X.Points(), r.Min.Y.Points())
	c.op(fmt.Sprintf("/I%d Do", len(c.images)))
	c.op("Q")
	c.images = append(c.images, img)
}

// document returns a PDF file of one page with the canvas's content.
func (c *pdfCanvas) document(width, height vg.Length, title string) []byte {
	var out, packed bytes.Buffer
	var starts []int
	z := zlib.NewWriter(&packed)
	object := func(dictionary string, stream []byte) {
		starts = append(starts, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n", len(starts))
		if stream == nil {
			fmt.Fprintf(&out, "<< %s >>\nendobj\n", dictionary)
			return
		}
		packed.Reset()
		z.Reset(&packed)
		z.Write(stream) // a bytes.Buffer never fails
		z.Close()
		fmt.Fprintf(&out, "<< %s /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\nendobj\n", dictionary,
			packed.Len(), packed.Bytes())
	}
	const first = 6          // the number of the first image's object
	states, images := "", "" // and glyphs
	for i, a := range c.alphas {
		states += fmt.Sprintf("/A%d << /CA %s /ca %s >> ", i, decimal(float64(a)/255), decimal(float64(a)/255))
	}
	for i := range c.images {
		images += fmt.Sprintf("/I%d %d 0 R ", i, first+i)
	}
	for i := range c.glyphs {
		images += fmt.Sprintf("/G%d %d 0 R ", i, first+len(c.images)+i)
	}
	named := "<FEFF"
	for _, u := range utf16.Encode([]rune(title)) {
		named += fmt.Sprintf("%04X", u)
	}
	out.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	object("/Type /Catalog /Pages 2 0 R", nil)
	object("/Type /Pages /Kids [3 0 R] /Count 1", nil)
	object(fmt.Sprintf("/Type /Page /Parent 2 0 R /MediaBox [0 0 %s %s] /Contents 4 0 R "+
		"/Resources << /ExtGState << %s>> /XObject << %s>> >>", decimal(width.Points()), decimal(height.Points()),
		states, images), nil)
	object("", c.content.Bytes())
	object("/Title "+named+">", nil)
	for _, img := range c.images {
		b := img.Bounds()
		var pixels []byte
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				k := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
				pixels = append(pixels, k.R, k.G, k.B)
			}
		}
		object(fmt.Sprintf("/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceRGB "+
			"/BitsPerComponent 8", b.Dx(), b.Dy()), pixels)
	}
	for _, g := range c.glyphs {
		em := g.font.UnitsPerEm()
		object(fmt.Sprintf("/Type /XObject /Subtype /Form /BBox [%d %d %d %d]", -em, -em, 2*em, 2*em), g.outline())
	}
	table := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(starts)+1)
	for _, at := range starts {
		fmt.Fprintf(&out, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(starts)+1, table)
	return out.Bytes()
}
