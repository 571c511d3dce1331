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
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const dpi = 300

// WritePNG writes the sheet for light pages, at 300 dpi.
func (s Sheet) WritePNG(w io.Writer) error {
	c := pngCanvas{vgimg.NewWith(vgimg.UseWH(s.Size()), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))}
	s.draw(c, light)
	var buf bytes.Buffer
	if err := png.Encode(&buf, paletted(c.Image())); err != nil {
		return err
	}
	_, err := w.Write(withResolution(buf.Bytes()))
	return err
}

// paletted is an image of its most frequent 256 colours, a quarter of the bytes. No channel is more than 16 of 255 off;
// an image that takes more colours stays as it is.
func paletted(img image.Image) image.Image {
	full, ok := img.(*image.RGBA)
	if !ok {
		return img
	}
	at := func(i int) color.RGBA {
		return color.RGBA{full.Pix[i], full.Pix[i+1], full.Pix[i+2], full.Pix[i+3]}
	}
	count := map[color.RGBA]int{}
	for i, run := 0, 0; i < len(full.Pix); i += 4 { // by runs: most of a figure is paper
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

// cover picks at most 257 colours, so that each is no more than off from one of them in any channel, and says which.
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

// svg draws s as an SVG document. textLength holds each text to its width, whichever font the viewer falls back to.
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

// WithInks defines the colours of a page's pictures at the end of its style. On paper they are those of light pages.
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
