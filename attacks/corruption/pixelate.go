package corruption

import "math"

// pixelate makes the image smaller and as large again, both by Pillow's box filter.
func pixelate(p picture, severity int, _ Source) []float64 {
	c := by(p, severity, [...]float64{.95, .9, .85, .75, .65}, [...]float64{.6, .5, .4, .3, .25})
	small := int(float64(p.side) * c)
	return floats(boxed(boxed(p.levels, p.side, small), small, p.side))
}

// window is the values that one of a resized line is the mean of, with weights in units of 2^-22.
type window struct {
	start   int
	weights []int
}

// boxed resizes a square RGB image: along its rows, then along its columns, with Pillow's rounding after each.
func boxed(levels []uint8, from, to int) []uint8 {
	scale := float64(from) / float64(to)
	support := max(scale, 1) / 2
	windows := make([]window, to)
	for i := range windows {
		centre := (float64(i) + .5) * scale
		start, end := max(int(centre-support+.5), 0), min(int(centre+support+.5), from)
		w, count := window{start, make([]int, end-start)}, 0
		for j := range w.weights {
			if at := (float64(start+j) - centre + .5) / max(scale, 1); at > -.5 && at <= .5 {
				w.weights[j] = 1
				count++
			}
		}
		for j := range w.weights {
			w.weights[j] *= int(math.Round((1 << 22) / float64(max(count, 1))))
		}
		windows[i] = w
	}
	wide, out := make([]uint8, 3*from*to), make([]uint8, 3*to*to)
	for y := range from {
		scan(levels[3*y*from:], wide[3*y*to:], 3, windows)
	}
	for x := range to {
		scan(wide[3*x:], out[3*x:], 3*to, windows)
	}
	return out
}

// scan resizes a line of pixels, which lie a step apart in both images.
func scan(in, out []uint8, step int, windows []window) {
	for i, w := range windows {
		for c := range 3 {
			value := 1 << 21
			for j, weight := range w.weights {
				value += weight * int(in[(w.start+j)*step+c])
			}
			out[i*step+c] = uint8(min(value>>22, 255))
		}
	}
}
