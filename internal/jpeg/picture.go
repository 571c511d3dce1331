package jpeg

import (
	"errors"
	"image"
)

// Picture is a decoded picture.
type Picture struct {
	Size   image.Point
	planes []plane
	space  space
}

// space is the colour space of the planes.
type space int

const (
	gray space = iota
	rgb
	ycc
	cmyk
	ycck
)

// space returns the colour space that libjpeg assumes (default_decompress_parms).
func (d *decoder) space() space {
	c := d.components
	switch {
	case len(c) == 1:
		return gray
	case len(c) == 4 && d.adobe && d.transform != 0:
		return ycck
	case len(c) == 4:
		return cmyk
	case !d.jfif && (d.adobe && d.transform == 0 || !d.adobe && string([]byte{c[0].id, c[1].id, c[2].id}) == "RGB"):
		return rgb
	}
	return ycc
}

// picture computes the picture from the coefficients.
func (d *decoder) picture() (*Picture, error) {
	p := &Picture{Size: d.size, space: d.space()}
	for i := range d.components {
		c := &d.components[i]
		h, v := d.most().X, d.most().Y
		if h%c.h != 0 || v%c.v != 0 {
			return nil, errors.New("a colour's size is no whole fraction of the picture's: it is not read")
		}
		p.planes = append(p.planes, c.plane(ceil(d.size.X*c.h, h), ceil(d.size.Y*c.v, v), h/c.h, v/c.v))
	}
	return p, nil
}

// Row writes the colours of row y, each with the picture's width, converted to RGB as in Pillow.
func (p *Picture) Row(y int, r, g, b []byte) {
	for i, out := range [][]byte{r, g, b} {
		p.planes[min(i, len(p.planes)-1)].row(y, out)
	}
	if p.space == ycc || p.space == ycck {
		for x := range r {
			r[x], g[x], b[x] = fromYCC(r[x], g[x], b[x])
		}
	}
	if p.space != cmyk && p.space != ycck {
		return
	}
	k := make([]byte, len(r))
	p.planes[3].row(y, k)
	for _, out := range [][]byte{r, g, b} {
		for x, ink := range out {
			if p.space == cmyk { // Adobe's programs write complements of inks, and Pillow assumes it
				ink = 255 - ink
			}
			t := int(ink)*int(k[x]) + 128
			out[x] = k[x] - byte((t>>8+t)>>8)
		}
	}
}

func clip(v int) byte { return byte(min(max(v, 0), 255)) }

// fromYCC is libjpeg's conversion of JFIF's colours.
func fromYCC(y, cb, cr byte) (r, g, b byte) {
	l, u, v := int(y), int(cb)-128, int(cr)-128
	return clip(l + (91881*v+1<<15)>>16), clip(l + (-22554*u-46802*v+1<<15)>>16), clip(l + (116130*u+1<<15)>>16)
}
