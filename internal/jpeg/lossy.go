package jpeg

import "image"

// Lossy returns an RGB picture after libjpeg, used by Pillow, has written it at a quality from 1 to 100 and read it
// again: colours at half the size (4:2:0), the standard's tables, transforms in whole numbers. The entropy coding loses
// nothing and is left out.
func Lossy(rgb []byte, width, height, quality int) *Picture {
	d := &decoder{size: image.Pt(width, height), jfif: true}
	d.components = []component{{h: 2, v: 2, quant: scaled(&luminance, quality)},
		{h: 1, v: 1, quant: scaled(&colour, quality)}, {h: 1, v: 1, quant: scaled(&colour, quality)}}
	for i := range d.components {
		c := &d.components[i]
		n := 3 - c.h // pixels of the picture per pixel of the component, along each side
		w, h := ceil(width, n), ceil(height, n)
		c.stride = ceil(w, 8)
		c.coeffs = make([][64]int16, c.stride*ceil(h, 8))
		at := func(x, y int) int32 { // beyond the edges the last values repeat
			pixel := rgb[3*(min(y, height-1)*width+min(x, width-1)):]
			return toYCC(i, int32(pixel[0]), int32(pixel[1]), int32(pixel[2]))
		}
		for k := range c.coeffs {
			var b [64]int32
			for j := range b {
				x, y := k%c.stride*8+j%8, min(k/c.stride*8+j/8, h-1)
				if n == 1 {
					b[j] = at(x, y) - 128
					continue
				}
				// libjpeg's h2v2_downsample
				sum := at(2*x, 2*y) + at(2*x+1, 2*y) + at(2*x, 2*y+1) + at(2*x+1, 2*y+1)
				b[j] = (sum+1+int32(x%2))>>2 - 128
			}
			for y := range 8 {
				forward(b[8*y:], 1, true)
			}
			for x := range 8 {
				forward(b[x:], 8, false)
			}
			for j, v := range b {
				c.coeffs[k][j] = quantized(v, int32(c.quant[j]))
			}
		}
	}
	p, err := d.picture()
	if err != nil {
		panic("jpeg: " + err.Error()) // the components' sizes always divide each other
	}
	return p
}

// toYCC is libjpeg's conversion of a colour to the i-th of JFIF's.
func toYCC(i int, r, g, b int32) int32 {
	const half = 1 << 15
	switch i {
	case 0:
		return (19595*r + 38470*g + 7471*b + half) >> 16
	case 1:
		return (-11059*r - 21709*g + 32768*b + 128<<16 + half - 1) >> 16
	}
	return (32768*r - 27439*g - 5329*b + 128<<16 + half - 1) >> 16
}

// quantized divides a coefficient by its step and rounds; [forward] makes coefficients 8 times too large.
func quantized(v, step int32) int16 {
	step *= 8
	if v < 0 {
		return int16(-((-v + step/2) / step))
	}
	return int16((v + step/2) / step)
}

// forward is the cosine transform of 8 values, step apart; rows must be transformed before columns.
func forward(v []int32, step int, rows bool) {
	s0, s1, s2, s3 := v[0]+v[7*step], v[step]+v[6*step], v[2*step]+v[5*step], v[3*step]+v[4*step]
	d0, d1, d2, d3 := v[0]-v[7*step], v[step]-v[6*step], v[2*step]-v[5*step], v[3*step]-v[4*step]
	sum, difference, inner, outer := s0+s3, s0-s3, s1+s2, s1-s2
	shift := constBits + passBits
	if rows {
		shift = constBits - passBits
		v[0], v[4*step] = (sum+inner)<<passBits, (sum-inner)<<passBits
	} else {
		const half = 1 << (passBits - 1)
		v[0], v[4*step] = (sum+inner+half)>>passBits, (sum-inner+half)>>passBits
	}
	half := int32(1) << (shift - 1)
	z := (outer + difference) * f0541
	v[2*step], v[6*step] = (z+difference*f0765+half)>>shift, (z-outer*f1847+half)>>shift
	o7, o5, o3, o1 := odd(d3, d2, d1, d0)
	v[7*step], v[5*step] = (o7+half)>>shift, (o5+half)>>shift
	v[3*step], v[step] = (o3+half)>>shift, (o1+half)>>shift
}

// scaled returns a standard table at a quality, as libjpeg scales it.
func scaled(table *[64]uint16, quality int) *[64]uint16 {
	scale := 200 - 2*quality
	if quality < 50 {
		scale = 5000 / quality
	}
	out := *table
	for i, v := range out {
		out[i] = uint16(min(max((int(v)*scale+50)/100, 1), 255))
	}
	return &out
}

// The tables of the standard (K.1 and K.2), row by row.
var (
	luminance = [64]uint16{
		16, 11, 10, 16, 24, 40, 51, 61,
		12, 12, 14, 19, 26, 58, 60, 55,
		14, 13, 16, 24, 40, 57, 69, 56,
		14, 17, 22, 29, 51, 87, 80, 62,
		18, 22, 37, 56, 68, 109, 103, 77,
		24, 35, 55, 64, 81, 104, 113, 92,
		49, 64, 78, 87, 103, 121, 120, 101,
		72, 92, 95, 98, 112, 100, 103, 99,
	}
	colour = [64]uint16{
		17, 18, 24, 47, 99, 99, 99, 99,
		18, 21, 26, 66, 99, 99, 99, 99,
		24, 26, 56, 99, 99, 99, 99, 99,
		47, 66, 99, 99, 99, 99, 99, 99,
		99, 99, 99, 99, 99, 99, 99, 99,
		99, 99, 99, 99, 99, 99, 99, 99,
		99, 99, 99, 99, 99, 99, 99, 99,
		99, 99, 99, 99, 99, 99, 99, 99,
	}
)
