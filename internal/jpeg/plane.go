package jpeg

// The constants of the cosine transform times 2^13, and the bits of precision between its passes, from libjpeg's
// accurate integer method (C. Loeffler, A. Ligtenberg and G. Moschytz, Practical fast 1-D DCT algorithms with 11
// multiplications, ICASSP 1989).
const (
	constBits, passBits = 13, 2

	f0298, f0390, f0541, f0765 = 2446, 3196, 4433, 6270
	f0899, f1175, f1501, f1847 = 7373, 9633, 12299, 15137
	f1961, f2053, f2562, f3072 = 16069, 16819, 20995, 25172
)

// inverse is the inverse transform of 8 values, step apart; results are rounded and shifted.
func inverse(v []int32, step, shift int) {
	i1, i2, i3, i4, i5, i6, i7 := v[step], v[2*step], v[3*step], v[4*step], v[5*step], v[6*step], v[7*step]
	z := (i2 + i6) * f0541
	t2, t3 := z-i6*f1847, z+i2*f0765
	t0, t1 := (v[0]+i4)<<constBits, (v[0]-i4)<<constBits
	e0, e3, e1, e2 := t0+t3, t0-t3, t1+t2, t1-t2

	o0, o1, o2, o3 := odd(i7, i5, i3, i1)
	half := int32(1) << (shift - 1)
	v[0], v[7*step] = (e0+o3+half)>>shift, (e0-o3+half)>>shift
	v[step], v[6*step] = (e1+o2+half)>>shift, (e1-o2+half)>>shift
	v[2*step], v[5*step] = (e2+o1+half)>>shift, (e2-o1+half)>>shift
	v[3*step], v[4*step] = (e3+o0+half)>>shift, (e3-o0+half)>>shift
}

// odd computes the part that the transform and its inverse share.
func odd(a, b, c, d int32) (int32, int32, int32, int32) {
	z1, z2, z3, z4 := -(a+d)*f0899, -(b+c)*f2562, a+c, b+d
	z5 := (z3 + z4) * f1175
	z3, z4 = z5-z3*f1961, z5-z4*f0390
	return a*f0298 + z1 + z3, b*f2053 + z2 + z4, c*f3072 + z2 + z3, d*f1501 + z1 + z4
}

// plane is a colour of the picture at its own size.
type plane struct {
	pixels        []byte
	stride        int
	width, height int
	h, v          int // divisors of the picture's width and height
}

// plane computes a component's plane from its coefficients.
func (c *component) plane(width, height, h, v int) plane {
	p := plane{make([]byte, 64*len(c.coeffs)), 8 * c.stride, width, height, h, v}
	for i := range c.coeffs {
		var b [64]int32
		for k, coeff := range c.coeffs[i] {
			b[k] = int32(coeff) * int32(c.quant[k])
		}
		for x := range 8 {
			inverse(b[x:], 8, constBits-passBits)
		}
		for y := range 8 {
			row := b[8*y : 8*y+8]
			inverse(row, 1, constBits+passBits+3)
			at := p.pixels[(i/c.stride*8+y)*p.stride+i%c.stride*8:]
			for x, value := range row {
				at[x] = byte(min(max(value+128, 0), 255))
			}
		}
	}
	c.coeffs = nil
	return p
}

// row scales the plane's row for the picture's row y to the picture's width, as libjpeg does: halves are interpolated,
// smaller fractions repeated.
func (p *plane) row(y int, out []byte) {
	at := func(y int) []byte { return p.pixels[y*p.stride : y*p.stride+p.width] }
	near := at(y / p.v)
	other := y/p.v - 1
	if y%p.v == 1 {
		other = y/p.v + 1
	}
	far := at(min(max(other, 0), p.height-1))
	switch {
	case p.h == 2 && p.v == 2 && p.width > 2: // h2v2_fancy_upsample
		across(len(near), out, func(i int) int { return 3*int(near[i]) + int(far[i]) }, 8, 7, 4)
	case p.h == 2 && p.v == 1 && p.width > 2: // h2v1_fancy_upsample
		across(len(near), out, func(i int) int { return int(near[i]) }, 1, 2, 2)
	case p.h == 1 && p.v == 2: // h1v2_fancy_upsample
		for i := range out {
			out[i] = byte((3*int(near[i]) + int(far[i]) + 1 + y%2) >> 2)
		}
	default:
		for x := range out {
			out[x] = near[x/p.h]
		}
	}
}

// across weighs a value 3 to 1 against its neighbour. at returns one or four times the values, at half the width; left
// and right are added before the last shift.
func across(n int, out []byte, at func(i int) int, left, right, shift int) {
	for x := range out {
		i := x / 2
		other, round := i-1, left
		if x%2 == 1 {
			other, round = i+1, right
		}
		if other < 0 || other >= n {
			other = i
		}
		out[x] = byte((3*at(i) + at(other) + round) >> shift)
	}
}
