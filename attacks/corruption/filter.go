package corruption

import "math"

// edge returns the index in a row of n values that replaces an index i beyond the row's ends.
type edge func(i, n int) int

// nearest repeats the last value: a a a | a b c d | d d d.
func nearest(i, n int) int { return min(max(i, 0), n-1) }

// reflect mirrors at the edge, the last value twice: c b a | a b c d | d c b.
func reflect(i, n int) int {
	if i %= 2 * n; i < 0 {
		i += 2 * n
	}
	return min(i, 2*n-1-i)
}

// mirror mirrors at the last value, which stands once: d c b | a b c d | c b a.
func mirror(i, n int) int {
	if i %= 2*n - 2; i < 0 {
		i += 2*n - 2
	}
	return min(i, 2*n-2-i)
}

// gaussian is scikit-image's filter on each channel of an image. It cuts off the kernel at truncate sigmas.
func gaussian(x []float64, side, channels int, sigma, truncate float64, beyond edge) []float64 {
	if sigma == 0 {
		return x
	}
	radius := int(truncate*sigma + .5)
	weights, sum := make([]float64, 2*radius+1), 0.0
	for i := range weights {
		d := float64(i - radius)
		weights[i] = math.Exp(-.5 / (sigma * sigma) * d * d)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	columns := along(x, side, channels, side*channels, channels, weights, beyond)
	return along(columns, side, channels, channels, side*channels, weights, beyond)
}

// along filters the lines of an image. The values of a line lie step apart; the lines begin across apart.
func along(x []float64, side, channels, step, across int, weights []float64, beyond edge) []float64 {
	out, line, radius := make([]float64, len(x)), make([]float64, side+len(weights)-1), len(weights)/2
	for first := range side {
		for c := range channels {
			at := first*across + c
			for i := range line {
				line[i] = x[at+beyond(i-radius, side)*step]
			}
			for i := range side {
				sum := 0.0
				for k, w := range weights {
					sum += w * line[i+k]
				}
				out[at+i*step] = sum
			}
		}
	}
	return out
}

// disk returns the authors' kernel: a disk with a softened edge. Its side is odd.
func disk(radius, alias float64) (kernel []float64, side int) {
	reach, soft := 8, 1
	if radius > 8 {
		reach, soft = int(radius), 2
	}
	side = 2*reach + 1
	kernel, sum := make([]float64, side*side), 0.0
	for i := range kernel {
		y, x := float64(i/side-reach), float64(i%side-reach)
		if x*x+y*y <= radius*radius {
			kernel[i] = 1
			sum++
		}
	}
	for i := range kernel {
		kernel[i] = float64(float32(kernel[i] / sum))
	}
	// This is OpenCV's GaussianBlur with 3 or 5 taps: alias and the number of taps agree.
	return gaussian(kernel, side, 1, alias, (float64(soft))/alias, mirror), side
}

func defocusBlur(p picture, severity int, _ Source) []float64 {
	c := by(p, severity, [...][2]float64{{.3, .4}, {.4, .5}, {.5, .6}, {1, .2}, {1.5, .1}},
		[...][2]float64{{3, .1}, {4, .5}, {6, .5}, {8, .5}, {10, .5}})
	kernel, wide := disk(c[0], c[1])
	x, n, reach := p.unit(), p.side, wide/2
	out, row := make([]float64, len(x)), make([]float64, 3*(n+2*reach)) // a row, extended beyond its ends
	for i := -reach; i < n+reach; i++ {
		for j := range row {
			row[j] = x[3*(mirror(i, n)*n+mirror(j/3-reach, n))+j%3]
		}
		for k, w := range kernel {
			to := i - k/wide + reach
			if w == 0 || to < 0 || to >= n {
				continue
			}
			line, from := out[3*to*n:3*(to+1)*n], row[3*(k%wide):]
			for j := range line {
				line[j] += w * from[j]
			}
		}
	}
	return full(out)
}

// glassBlur moves pixels among their neighbours. The authors mean to swap two, but their assignment of NumPy views
// copies one over the other; the published images were made so.
func glassBlur(p picture, severity int, draw Source) []float64 {
	type setting struct {
		sigma        float64
		most, rounds int
	}
	c := by(p, severity, [...]setting{{.05, 1, 1}, {.25, 1, 1}, {.4, 1, 1}, {.25, 1, 2}, {.4, 1, 2}},
		[...]setting{{.7, 1, 2}, {.9, 2, 1}, {1, 2, 3}, {1.1, 3, 2}, {1.5, 4, 2}})
	n := p.side
	levels := make([]uint8, len(p.levels))
	for i, v := range gaussian(p.unit(), n, 3, c.sigma, 4, nearest) {
		levels[i] = uint8(v * 255)
	}
	for range c.rounds {
		for h := n - c.most; h > c.most; h-- {
			for w := n - c.most; w > c.most; w-- {
				dx := draw.IntN(2*c.most) - c.most
				dy := draw.IntN(2*c.most) - c.most
				to, from := 3*(h*n+w), 3*((h+dy)*n+w+dx)
				copy(levels[to:to+3], levels[from:from+3])
			}
		}
	}
	return full(gaussian(picture{n, levels}.unit(), n, 3, c.sigma, 4, nearest))
}

// zoomed is the authors' clipped_zoom: it enlarges the middle of an image linearly, as SciPy does, and cuts it to the
// image's size.
func zoomed(x []float64, n, channels int, factor float64) []float64 {
	small := int(math.Ceil(float64(n) / factor))
	top := (n - small) / 2
	wide := int(math.RoundToEven(float64(small) * factor))
	step := 0.0
	if wide > 1 {
		step = float64(small-1) / float64(wide-1)
	}
	trim := (wide - n) / 2
	starts, parts := make([]int, n), make([]float64, n)
	for i := range n {
		at := float64(i+trim) * step
		starts[i] = min(int(at), max(small-2, 0))
		parts[i] = at - float64(starts[i])
	}
	out := make([]float64, len(x))
	for i := range n {
		for j := range n {
			for c := range channels {
				value := func(y, x0 int) float64 { return x[((top+y)*n+top+x0)*channels+c] }
				y, x0, fy, fx := starts[i], starts[j], parts[i], parts[j]
				y1, x1 := min(y+1, small-1), min(x0+1, small-1)
				out[(i*n+j)*channels+c] = (1-fy)*((1-fx)*value(y, x0)+fx*value(y, x1)) +
					fy*((1-fx)*value(y1, x0)+fx*value(y1, x1))
			}
		}
	}
	return out
}

func zoomBlur(p picture, severity int, _ Source) []float64 {
	c := by(p, severity, [...][2]float64{{1.06, .01}, {1.11, .01}, {1.16, .01}, {1.21, .01}, {1.26, .01}},
		[...][2]float64{{1.11, .01}, {1.16, .01}, {1.21, .02}, {1.26, .02}, {1.31, .03}})
	x := p.unit()
	for i, v := range x {
		x[i] = float64(float32(v))
	}
	sum := make([]float32, len(x))
	count := math.Ceil((c[0] - 1) / c[1]) // as numpy.arange counts and steps
	step := 1 + c[1] - 1
	for k := range int(count) {
		for i, v := range zoomed(x, p.side, 3, 1+float64(k)*step) {
			sum[i] += float32(v)
		}
	}
	for i, v := range x {
		x[i] = float64((float32(v) + sum[i]) / float32(count+1))
	}
	return full(x)
}
