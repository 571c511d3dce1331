package corruption

import "selfheal/internal/resample"

// pixelate shrinks the image and enlarges it again, both by Pillow's box filter.
func pixelate(p picture, severity int, _ Source) []float64 {
	c := by(p, severity, [...]float64{.95, .9, .85, .75, .65}, [...]float64{.6, .5, .4, .3, .25})
	small := int(float64(p.side) * c)
	return floats(boxed(boxed(p.levels, p.side, small), small, p.side))
}

// boxed resizes a square RGB image: along its rows, then along its columns.
func boxed(levels []uint8, from, to int) []uint8 {
	kernel := resample.New(from, to, 0, to, resample.Box)
	wide, out := make([]uint8, 3*from*to), make([]uint8, 3*to*to)
	for y := range from {
		for c := range 3 {
			kernel.Apply(levels[3*y*from+c:], 3, wide[3*y*to+c:], 3)
		}
	}
	for at := range 3 * to {
		kernel.Apply(wide[at:], 3*to, out[at:], 3*to)
	}
	return out
}
