package chart

import (
	"image/color"
	"io"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	plotfont "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

func init() { // no dates, so that the same sheet gives the same bytes
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultCatalogSort(true)
}

// WritePDF writes the sheet in the light theme as one page of its real size; the same sheet gives the same bytes.
func (s Sheet) WritePDF(w io.Writer) error {
	c := outlined{vgpdf.New(s.Size())}
	s.draw(c, light)
	_, err := c.WriteTo(w)
	return err
}

// outlined is a PDF whose letters are outlines: the page shows every letter that the fonts have, and embeds none of
// them.
type outlined struct{ *vgpdf.Canvas }

// SetColor also keeps transparent colours: vgpdf writes values that are multiplied by alpha, and PDF multiplies them
// once more.
func (c outlined) SetColor(of color.Color) {
	if of != nil {
		of = straight(color.NRGBAModel.Convert(of).(color.NRGBA))
	}
	c.Canvas.SetColor(of)
}

// straight is a colour that gives its values without multiplying them by alpha.
type straight color.NRGBA

func (s straight) RGBA() (r, g, b, a uint32) {
	return 257 * uint32(s.R), 257 * uint32(s.G), 257 * uint32(s.B), 257 * uint32(s.A)
}

// FillString fills the outlines of a text's letters; a question mark stands for letters that the font lacks.
func (c outlined) FillString(f plotfont.Face, at vg.Point, text string) {
	var buf sfnt.Buffer
	var path vg.Path
	perEm := fixed.Int26_6(f.Face.UnitsPerEm())
	scale := f.Font.Size / vg.Length(perEm)
	last := sfnt.GlyphIndex(0)
	for _, r := range text {
		of, err := f.Face.GlyphIndex(&buf, r)
		if err != nil || of == 0 {
			of, _ = f.Face.GlyphIndex(&buf, '?')
		}
		if kern, err := f.Face.Kern(&buf, last, of, perEm, font.HintingNone); last > 0 && err == nil {
			at.X += scale * vg.Length(kern)
		}
		last = of
		point := func(p fixed.Point26_6) vg.Point {
			return at.Add(Pt(scale*vg.Length(p.X), -scale*vg.Length(p.Y)))
		}
		segments, _ := f.Face.LoadGlyph(&buf, of, perEm, nil) // none for a space
		for i, s := range segments {
			switch s.Op {
			case sfnt.SegmentOpMoveTo:
				if i > 0 {
					path.Close()
				}
				path.Move(point(s.Args[0]))
			case sfnt.SegmentOpLineTo:
				path.Line(point(s.Args[0]))
			case sfnt.SegmentOpQuadTo:
				path.QuadTo(point(s.Args[0]), point(s.Args[1]))
			case sfnt.SegmentOpCubeTo:
				path.CubeTo(point(s.Args[0]), point(s.Args[1]), point(s.Args[2]))
			}
		}
		if len(segments) > 0 {
			path.Close()
		}
		if advance, err := f.Face.GlyphAdvance(&buf, of, perEm, font.HintingNone); err == nil {
			at.X += scale * vg.Length(advance)
		}
	}
	if len(path) > 0 {
		c.Fill(path)
	}
}
