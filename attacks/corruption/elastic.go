package corruption

import "math"

// elasticTransform moves the image by a random affine map, then each pixel by a smooth random field.
func elasticTransform(p picture, severity int, draw Source) []float64 {
	const cifar, imagenet = 32, 244 // the authors mean 224; their images are made with 244
	c := by(p, severity, [...][3]float64{{0, 0, cifar * .08}, {cifar * .05, cifar * .2, cifar * .07},
		{cifar * .08, cifar * .06, cifar * .06}, {cifar * .1, cifar * .04, cifar * .05},
		{cifar * .1, cifar * .03, cifar * .03}},
		[...][3]float64{{imagenet * 2, imagenet * .7, imagenet * .1}, {imagenet * 2, imagenet * .08, imagenet * .2},
			{imagenet * .05, imagenet * .01, imagenet * .02}, {imagenet * .07, imagenet * .01, imagenet * .02},
			{imagenet * .12, imagenet * .01, imagenet * .02}})
	n := p.side
	middle, off := float32(n/2), float32(n/3)
	from := [3][2]float32{{middle + off, middle + off}, {middle + off, middle - off}, {middle - off, middle - off}}
	to := from
	for i := range to {
		for k := range to[i] {
			to[i][k] += float32(-c[2] + 2*c[2]*draw.Float64())
		}
	}
	x := warped(p, affine(to, from))
	var shift [2][]float64 // along a row, along a column
	for k := range shift {
		field := make([]float64, n*n)
		for i := range field {
			field[i] = -1 + 2*draw.Float64()
		}
		shift[k] = gaussian(field, n, 1, c[1], 3, reflect)
		for i, v := range shift[k] {
			shift[k][i] = float64(float32(v * c[0]))
		}
	}
	out := make([]float64, len(x))
	for i := range n * n {
		atY, atX := float64(i/n)+shift[1][i], float64(i%n)+shift[0][i]
		y, x0 := math.Floor(atY), math.Floor(atX)
		fy, fx := atY-y, atX-x0
		rows := [2]int{reflect(int(y), n), reflect(int(y)+1, n)}
		columns := [2]int{reflect(int(x0), n), reflect(int(x0)+1, n)}
		for k := range 3 {
			at := func(a, b int) float64 { return float64(x[3*(rows[a]*n+columns[b])+k]) }
			out[3*i+k] = (1-fy)*((1-fx)*at(0, 0)+fx*at(0, 1)) + fy*((1-fx)*at(1, 0)+fx*at(1, 1))
		}
	}
	return full(out)
}

// affine returns the map that takes three points to three others: x' = m[0]x + m[1]y + m[2], y' = m[3]x + m[4]y + m[5].
func affine(from, to [3][2]float32) (m [6]float64) {
	d := func(i, k int) float64 { return float64(from[i][k]) - float64(from[0][k]) }
	det := d(1, 0)*d(2, 1) - d(2, 0)*d(1, 1)
	for k := range 2 {
		e1, e2 := float64(to[1][k])-float64(to[0][k]), float64(to[2][k])-float64(to[0][k])
		a, b := (e1*d(2, 1)-e2*d(1, 1))/det, (e2*d(1, 0)-e1*d(2, 0))/det
		m[3*k], m[3*k+1] = a, b
		m[3*k+2] = float64(to[0][k]) - a*float64(from[0][0]) - b*float64(from[0][1])
	}
	return m
}

// warped is OpenCV's linear warpAffine. m maps a pixel to the place that its value comes from, which is rounded to 1/32
// of a pixel.
func warped(p picture, m [6]float64) []float32 {
	const scale, round, shift = 1024, 16, 5
	n := p.side
	out := make([]float32, len(p.levels))
	for y := range n {
		x0 := int(math.RoundToEven((m[1]*float64(y)+m[2])*scale)) + round
		y0 := int(math.RoundToEven((m[4]*float64(y)+m[5])*scale)) + round
		for x := range n {
			atX := (x0 + int(math.RoundToEven(m[0]*float64(x)*scale))) >> shift
			atY := (y0 + int(math.RoundToEven(m[3]*float64(x)*scale))) >> shift
			fx, fy := float32(atX&31)/32, float32(atY&31)/32
			rows := [2]int{mirror(atY>>shift, n), mirror(atY>>shift+1, n)}
			columns := [2]int{mirror(atX>>shift, n), mirror(atX>>shift+1, n)}
			for k := range 3 {
				at := func(a, b int) float32 { return float32(p.levels[3*(rows[a]*n+columns[b])+k]) / 255 }
				out[3*(y*n+x)+k] = at(0, 0)*((1-fy)*(1-fx)) + at(0, 1)*((1-fy)*fx) + at(1, 0)*(fy*(1-fx)) +
					at(1, 1)*(fy*fx)
			}
		}
	}
	return out
}
