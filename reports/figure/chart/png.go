package chart

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
)

// dpi is the resolution of the PNG files.
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

// paletted is an image with at most 256 colours, a quarter of the bytes: the most frequent
// ones, and for a pixel of another, on some smoothed edge, the nearest of them. No channel is
// more than 16 of 255 off; it is the image itself where that takes more colours.
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

// cover picks colours, in their order, so that each is no more than off from one of them in
// any channel, and says which that is. It stops when 256 do not suffice.
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
