// Package chart lays charts out on a sheet and writes it as PNG, SVG and PDF. A figure fills a [Sheet] with panels and
// a legend; [Sheet.WritePNG], [Sheet.WriteSVG], [Sheet.WritePDF] and [Sheet.Drawing] draw it, with the same bytes for
// the same sheet. It knows no results.
package chart

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"html"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sheet is a picture: headlines, panels in rows, and one legend below.
type Sheet struct {
	Width   vg.Length
	Columns int // panels per row
	Margin  vg.Length
	Head    []string // a title and the lines below it; empty in a page, which has its own
	Panels  []Panel
	Legend  []Series
	Alt     string // description for readers who do not see it
	Caption string // text below it in a page
}

// Panel is one chart of a sheet.
type Panel interface {
	Height(width vg.Length) vg.Length
	// Draw draws the panel with its upper left corner at (left, top). Its title may be as wide as titled.
	Draw(p Pen, left, top, width, height, titled vg.Length)
}

// InPage returns a sheet of one column for a page, which has its own title and tables.
func InPage() Sheet { return Sheet{Width: 3.6 * vg.Inch, Columns: 1, Margin: 6} }

// InFile returns a sheet for a file of n panels: one column of print wide for one panel, otherwise two; more than four
// panels stand three abreast.
func InFile(n int, wide bool) Sheet {
	switch {
	case n <= 1:
		return Sheet{Width: OneColumn, Columns: 1, Margin: 8}
	case n <= 4 || wide:
		return Sheet{Width: twoColumns, Columns: 2, Margin: 8}
	}
	return Sheet{Width: twoColumns, Columns: 3, Margin: 8}
}

func (s Sheet) PanelWidth() vg.Length {
	n := vg.Length(s.Columns)
	return (s.Width - 2*s.Margin - (n-1)*gap) / n
}

func (s Sheet) rows() [][]Panel { return slices.Collect(slices.Chunk(s.Panels, s.Columns)) }

func (s Sheet) rowHeight(row []Panel) (h vg.Length) {
	for _, p := range row {
		h = max(h, p.Height(s.PanelWidth()))
	}
	return h
}

// headlines breaks the head into lines that fit the sheet: the title's, and those below.
func (s Sheet) headlines() (title, said []string, height vg.Length) {
	for i, text := range s.Head {
		if width := s.Width - 2*s.Margin; i == 0 {
			title = wrap(text, Title, width, 3)
		} else {
			said = append(said, wrap(text, Normal, width, 3)...)
		}
	}
	if title != nil {
		height = titleStep*vg.Length(len(title)) + LineStep*vg.Length(len(said)) + 8
	}
	return title, said, height
}

// Size returns the sheet's width, and its height with head, panels and legend.
func (s Sheet) Size() (width, height vg.Length) {
	_, _, height = s.headlines()
	height += 2*s.Margin + LineStep*vg.Length(len(s.legendLines()))
	for _, row := range s.rows() {
		height += s.rowHeight(row) + gap
	}
	return s.Width, height
}

func (s Sheet) draw(canvas vg.Canvas, t theme) {
	width, height := s.Size()
	p := Pen{draw.NewCanvas(canvas, width, height), t}
	p.Block(t.Paper, p.Rectangle)
	title, said, head := s.headlines()
	y := height - s.Margin
	for _, l := range title {
		p.Write(l, Pt(width/2, y), Title, t.Ink, -0.5, -1)
		y -= titleStep
	}
	for _, l := range said {
		p.Write(l, Pt(width/2, y), Normal, t.Muted, -0.5, -1)
		y -= LineStep
	}
	top, w := height-s.Margin-head, s.PanelWidth()
	for r, row := range s.rows() {
		left := s.Margin
		if r > 0 { // a last row that is not full is centred
			left += (w + gap) * vg.Length(s.Columns-len(row)) / 2
		}
		h := s.rowHeight(row)
		for i, one := range row {
			titled := w // a title may use the width of following panels without a title
			for _, next := range row[i+1:] {
				if p, plain := next.(Plot); !plain || p.Title != "" {
					break
				}
				titled += gap + w
			}
			one.Draw(p, left, top, w, h, titled)
			left += w + gap
		}
		top -= h + gap
	}
	s.drawLegend(p)
}

// Merged returns the labels of all series, each once: a line and its marks are one entry.
func Merged(all []Series) (entries []Series) {
	for _, s := range all {
		i := slices.IndexFunc(entries, func(o Series) bool { return o.Label == s.Label })
		switch {
		case s.Label == "":
		case i < 0:
			entries = append(entries, s)
		default:
			e := &entries[i]
			if s.Line && !e.Line {
				e.Line, e.Dash = true, s.Dash
			}
			if s.Marks && !e.Marks {
				e.Marks, e.Marker = true, s.Marker
			}
		}
	}
	return entries
}

// between is the space between two entries of a legend.
const between = vg.Length(18)

func (s Sheet) legendLines() (lines [][]Series) {
	var x vg.Length
	for _, e := range s.Legend {
		if lines == nil || x+e.legendWidth() > s.Width-2*s.Margin {
			lines, x = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
		x += e.legendWidth() + between
	}
	return lines
}

func (s Series) legendWidth() vg.Length {
	return s.sampleWidth() + 4 + Normal.Width(s.Label)
}

// sampleWidth returns the width of a look's sample in a legend: a marker alone takes less.
func (l Look) sampleWidth() vg.Length {
	if !l.Line && !l.Bars {
		return 8
	}
	return Swatch
}

func (s Sheet) drawLegend(p Pen) {
	lines := s.legendLines()
	for i, line := range lines {
		wide := between * vg.Length(len(line)-1)
		for _, e := range line {
			wide += e.legendWidth()
		}
		x, y := (s.Width-wide)/2, s.Margin+LineStep*(vg.Length(len(lines)-i)-0.5)
		for _, e := range line {
			p.Sample(e.Look, x, y, e.sampleWidth())
			p.Write(e.Label, Pt(x+e.sampleWidth()+4, y), Normal, p.Ink, 0, -0.5)
			x += e.legendWidth() + between
		}
	}
}

func (p Pen) Sample(l Look, x, y, w vg.Length) {
	if l.Bars {
		p.Block(p.Colour(l.Colour), Rect(x, y-4, x+w, y+4))
		return
	}
	if l.Line && w >= Swatch { // otherwise only the marker fits
		p.StrokeLine2(p.Line(l), x, y, x+w, y)
	}
	if l.Marks {
		p.Mark(l, Pt(x+w/2, y))
	}
}

const PanelTitle = vg.Length(18)

// DPI is the resolution of PNG files. Tests of programs that write many, and look at none, lower it.
var DPI = 300

// WritePNG writes the sheet in the light theme.
func (s Sheet) WritePNG(w io.Writer) error {
	c := pngCanvas{vgimg.NewWith(vgimg.UseWH(s.Size()), vgimg.UseDPI(DPI), vgimg.UseBackgroundColor(color.White))}
	s.draw(c, light)
	var buf bytes.Buffer
	if err := png.Encode(&buf, paletted(c.Image())); err != nil {
		return err
	}
	_, err := w.Write(withResolution(buf.Bytes()))
	return err
}

// paletted returns the image in its most frequent 256 colours, a quarter of the bytes. No channel changes by more than
// 16 of 255; an image that needs more colours stays as it is.
func paletted(img image.Image) image.Image {
	full, ok := img.(*image.RGBA)
	if !ok {
		return img
	}
	at := func(i int) color.RGBA {
		return color.RGBA{full.Pix[i], full.Pix[i+1], full.Pix[i+2], full.Pix[i+3]}
	}
	count := map[color.RGBA]int{}
	for i, run := 0, 0; i < len(full.Pix); i += 4 { // by runs: most of a figure is blank
		if run++; i+4 == len(full.Pix) || at(i) != at(i+4) {
			count[at(i)] += run
			run = 0
		}
	}
	key := func(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }
	frequent := func(a, b color.RGBA) int { return cmp.Or(count[b]-count[a], key(a)-key(b)) }
	all := slices.SortedFunc(maps.Keys(count), frequent)
	for _, off := range []int{5, 10, 16} {
		colours, index := cover(all, off)
		if len(colours) > 256 {
			continue
		}
		out := image.NewPaletted(full.Rect, colours)
		for i, last := 0, uint8(0); i < len(full.Pix); i += 4 {
			if i == 0 || at(i) != at(i-4) {
				last = index[at(i)]
			}
			out.Pix[i/4] = last
		}
		return out
	}
	return img
}

// cover chooses at most 257 colours, so that each colour is within off of one of them in every channel, and maps each
// to its index.
func cover(all []color.RGBA, off int) (colours color.Palette, index map[color.RGBA]uint8) {
	index = map[color.RGBA]uint8{}
	for _, c := range all {
		best, least := len(colours), off+1
		for i, k := range colours {
			k := k.(color.RGBA)
			if d := max(apart(c.R, k.R), apart(c.G, k.G), apart(c.B, k.B)); d < least {
				best, least = i, d
			}
		}
		if best == len(colours) {
			if colours = append(colours, c); len(colours) > 256 {
				break
			}
		}
		index[c] = uint8(best)
	}
	return colours, index
}

func apart(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }

// withResolution adds the pHYs chunk, so that the image prints at its size. The chunk follows the signature (8 bytes)
// and the header chunk (25 bytes).
func withResolution(png []byte) []byte {
	perMetre := uint32(DPI) * 10000 / 254
	chunk := binary.BigEndian.AppendUint32(nil, 9)
	chunk = append(chunk, "pHYs"...)
	chunk = binary.BigEndian.AppendUint32(chunk, perMetre)
	chunk = binary.BigEndian.AppendUint32(chunk, perMetre)
	chunk = append(chunk, 1)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return bytes.Join([][]byte{png[:33], chunk, png[33:]}, nil)
}

// pngCanvas writes a question mark for characters that the fonts lack.
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

// svgCanvas records the width of each text in the fonts it was laid out for.
type svgCanvas struct {
	*vgsvg.Canvas
	widths []vg.Length
}

func (c *svgCanvas) FillString(f font.Face, pt vg.Point, s string) {
	c.widths = append(c.widths, f.Width(s))
	c.Canvas.FillString(f, pt, s)
}

// svg draws s as an SVG document. textLength fixes the width of each text, so that another font of the viewer does not
// change it.
func svg(s Sheet, t theme) string {
	c := &svgCanvas{Canvas: vgsvg.New(s.Size())}
	s.draw(c, t)
	var buf bytes.Buffer
	c.WriteTo(&buf) // a bytes.Buffer never fails
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

// WriteSVG writes the sheet in the light theme, at its real size.
func (s Sheet) WriteSVG(w io.Writer) error {
	_, err := io.WriteString(w, svg(s, light))
	return err
}

// themed matches the parts of a drawing that may differ between light and dark pages.
var themed = regexp.MustCompile(`#[0-9A-F]{6}|<image [^>]*>`)

// Drawing returns the sheet as an svg element that follows the page's colour scheme: a colour that differs is
// var(--DAY-NIGHT), which [WithInks] defines. The page's style sets its font.
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

// WithInks defines the colours of a page's pictures at the end of its style. Printed pages use the light colours.
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

// SeriesStyle returns CSS with the figures' colours of undefended and controlled bars.
func SeriesStyle() template.CSS {
	define := func(t theme) string {
		return fmt.Sprintf(":root { --undefended: %s; --controlled: %s; }", cssColour(t.lines[0]),
			cssColour(t.lines[1]))
	}
	return template.CSS(define(light) + "\n@media screen and (prefers-color-scheme: dark) { " + define(dark) + " }\n")
}

func cssColour(c color.Color) string {
	k := color.NRGBAModel.Convert(c).(color.NRGBA)
	return fmt.Sprintf("#%02x%02x%02x", k.R, k.G, k.B)
}
