package corruption

// jpegCompression is what libjpeg does to an image between Pillow's save and open: colours at half the size (4:2:0),
// the standard's tables for a quality, whole-number transforms of 8×8 blocks (its "islow") and smooth interpolation of
// the colours. The code that packs the numbers loses nothing and is left out. Go's image/jpeg rounds otherwise.
func jpegCompression(p picture, severity int, _ Source) []float64 {
	quality := by(p, severity, [...]int{80, 65, 58, 50, 40}, [...]int{25, 18, 15, 10, 7})
	n := p.side
	var planes [3][]uint8
	for c := range planes {
		planes[c] = make([]uint8, n*n)
	}
	for i := range n * n {
		r, g, b := int(p.levels[3*i]), int(p.levels[3*i+1]), int(p.levels[3*i+2])
		planes[0][i] = uint8((19595*r + 38470*g + 7471*b + 1<<15) >> 16)
		planes[1][i] = uint8((-11059*r - 21709*g + 32768*b + 128<<16 + 1<<15 - 1) >> 16)
		planes[2][i] = uint8((32768*r - 27439*g - 5329*b + 128<<16 + 1<<15 - 1) >> 16)
	}
	half := (n + 1) / 2
	luminance := compressed(planes[0], n, scaledTable(luminanceTable, quality))
	blue := enlarged(compressed(halved(planes[1], n), half, scaledTable(colourTable, quality)), half, n)
	red := enlarged(compressed(halved(planes[2], n), half, scaledTable(colourTable, quality)), half, n)
	out := make([]float64, len(p.levels))
	clip := func(v int) float64 { return float64(min(max(v, 0), 255)) }
	for i, y := range luminance {
		l, u, v := int(y), int(blue[i])-128, int(red[i])-128
		out[3*i] = clip(l + (91881*v+1<<15)>>16)
		out[3*i+1] = clip(l + (-22554*u-46802*v+1<<15)>>16)
		out[3*i+2] = clip(l + (116130*u+1<<15)>>16)
	}
	return out
}

// halved is libjpeg's h2v2_downsample.
func halved(plane []uint8, n int) []uint8 {
	half := (n + 1) / 2
	out := make([]uint8, half*half)
	for y := range half {
		for x := range half {
			y1, x1 := min(2*y+1, n-1), min(2*x+1, n-1)
			sum := int(plane[2*y*n+2*x]) + int(plane[2*y*n+x1]) + int(plane[y1*n+2*x]) + int(plane[y1*n+x1])
			out[y*half+x] = uint8((sum + 1 + x%2) >> 2)
		}
	}
	return out
}

// enlarged is libjpeg's h2v2_fancy_upsample: each value weighs its nearest 9 to 3 to 3 to 1.
func enlarged(plane []uint8, half, n int) []uint8 {
	out := make([]uint8, n*n)
	for y := range n {
		near, far := y/2*half, min(max(y/2-1+y%2*2, 0), half-1)*half
		column := func(x int) int { return 3*int(plane[near+x]) + int(plane[far+x]) }
		for x := range n {
			other := min(max(x/2-1+x%2*2, 0), half-1)
			out[y*n+x] = uint8((3*column(x/2) + column(other) + 8 - x%2) >> 4)
		}
	}
	return out
}

// compressed takes a plane's blocks there and back. Beyond its edge the last values are repeated.
func compressed(plane []uint8, n int, table [64]int) []uint8 {
	out := make([]uint8, n*n)
	for top := 0; top < n; top += 8 {
		for left := 0; left < n; left += 8 {
			var block [64]int
			for i := range block {
				block[i] = int(plane[min(top+i/8, n-1)*n+min(left+i%8, n-1)]) - 128
			}
			transform(&block)
			for i, v := range block { // transform's numbers are 8 times too large
				step := 8 * table[i]
				if v < 0 {
					block[i] = -((-v + step/2) / step) * table[i]
				} else {
					block[i] = (v + step/2) / step * table[i]
				}
			}
			restore(&block)
			for i, v := range block {
				if y, x := top+i/8, left+i%8; y < n && x < n {
					out[y*n+x] = uint8(min(max(v+128, 0), 255))
				}
			}
		}
	}
	return out
}

// descale divides by 2^n and rounds.
func descale(v, n int) int { return (v + 1<<(n-1)) >> n }

// odd is the part that both transforms share, on the odd half of a line.
func odd(a, b, c, d int) (int, int, int, int) {
	z1, z2, z3, z4 := -7373*(a+d), -20995*(b+c), -16069*(a+c), -3196*(b+d)
	z5 := 9633 * (a + c + b + d)
	z3, z4 = z3+z5, z4+z5
	return 2446*a + z1 + z3, 16819*b + z2 + z4, 25172*c + z2 + z3, 12299*d + z1 + z4
}

// transform is libjpeg's jpeg_fdct_islow: rows, then columns.
func transform(block *[64]int) {
	for pass, step := range [2]int{1, 8} {
		down := 11 + 4*pass
		for line := range 8 {
			first := 8 * line
			if pass == 1 {
				first = line
			}
			at := func(i int) *int { return &block[first+i*step] }
			s := [4]int{*at(0) + *at(7), *at(1) + *at(6), *at(2) + *at(5), *at(3) + *at(4)}
			d := [4]int{*at(3) - *at(4), *at(2) - *at(5), *at(1) - *at(6), *at(0) - *at(7)}
			sum, difference, inner, outer := s[0]+s[3], s[0]-s[3], s[1]+s[2], s[1]-s[2]
			if *at(0), *at(4) = (sum+inner)<<2, (sum-inner)<<2; pass == 1 {
				*at(0), *at(4) = descale(sum+inner, 2), descale(sum-inner, 2)
			}
			z := 4433 * (outer + difference)
			*at(2), *at(6) = descale(z+6270*difference, down), descale(z-15137*outer, down)
			o7, o5, o3, o1 := odd(d[0], d[1], d[2], d[3])
			*at(7), *at(5), *at(3), *at(1) = descale(o7, down), descale(o5, down), descale(o3, down), descale(o1, down)
		}
	}
}

// restore is libjpeg's jpeg_idct_islow: columns, then rows.
func restore(block *[64]int) {
	for pass, step := range [2]int{8, 1} {
		down := 11 + 7*pass
		for line := range 8 {
			first := line
			if pass == 1 {
				first = 8 * line
			}
			at := func(i int) *int { return &block[first+i*step] }
			z := 4433 * (*at(2) + *at(6))
			inner, outer := z-15137**at(6), z+6270**at(2)
			sum, difference := (*at(0)+*at(4))<<13, (*at(0)-*at(4))<<13
			e := [4]int{sum + outer, difference + inner, difference - inner, sum - outer}
			o3, o2, o1, o0 := odd(*at(7), *at(5), *at(3), *at(1))
			for i, o := range [4]int{o0, o1, o2, o3} {
				*at(i), *at(7 - i) = descale(e[i]+o, down), descale(e[i]-o, down)
			}
		}
	}
}

// scaledTable is a standard table at a quality.
func scaledTable(table [64]int, quality int) [64]int {
	scale := 200 - 2*quality
	if quality < 50 {
		scale = 5000 / quality
	}
	for i, v := range table {
		table[i] = min(max((v*scale+50)/100, 1), 255)
	}
	return table
}

// The tables of the JPEG standard (K.1 and K.2), row by row.
var (
	luminanceTable = [64]int{
		16, 11, 10, 16, 24, 40, 51, 61,
		12, 12, 14, 19, 26, 58, 60, 55,
		14, 13, 16, 24, 40, 57, 69, 56,
		14, 17, 22, 29, 51, 87, 80, 62,
		18, 22, 37, 56, 68, 109, 103, 77,
		24, 35, 55, 64, 81, 104, 113, 92,
		49, 64, 78, 87, 103, 121, 120, 101,
		72, 92, 95, 98, 112, 100, 103, 99,
	}
	colourTable = [64]int{
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
