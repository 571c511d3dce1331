package corruption

import (
	"math"

	"selfheal/internal/lists"
)

// moved is ImageMagick 6's MotionBlurImage in a build with 16 bits per value (Q16), with 8-bit levels in and out.
func moved(levels []uint8, n, channels int, radius, sigma, angle float64) []uint8 {
	width := 2*int(math.Ceil(radius)) + 1
	kernel, sum := make([]float64, width), 0.0
	for i := range kernel {
		kernel[i] = math.Exp(-float64(i*i)/(2*sigma*sigma)) / (math.Sqrt(2*math.Pi) * sigma)
		sum += kernel[i]
	}
	sine, cosine := math.Sincos(angle * math.Pi / 180)
	px, py := float64(width)*sine, float64(width)*cosine
	length := math.Hypot(px, py)
	out := make([]uint8, len(levels))
	total := make([]float64, len(levels))
	for i, k := range kernel {
		k /= sum
		dx, dy := int(math.Ceil(float64(i)*py/length-.5)), int(math.Ceil(float64(i)*px/length-.5))
		for y := range n {
			for x := range n {
				to, from := (y*n+x)*channels, (nearest(y+dy, n)*n+nearest(x+dx, n))*channels
				for c := range channels {
					total[to+c] += k * 257 * float64(levels[from+c])
				}
			}
		}
	}
	for i, v := range total {
		out[i] = uint8(uint32(min(v+.5, 65535)) / 257) // truncated, not rounded
	}
	return out
}

func motionBlur(p picture, severity int, draw Source) []float64 {
	c := by(p, severity, [...][2]float64{{6, 1}, {6, 1.5}, {6, 2}, {8, 2}, {9, 2.5}},
		[...][2]float64{{10, 3}, {15, 5}, {15, 8}, {15, 12}, {20, 15}})
	return floats(moved(p.levels, p.side, 3, c[0], c[1], -45+90*draw.Float64()))
}

func floats(levels []uint8) []float64 {
	return lists.Map(levels, func(v uint8) float64 { return float64(v) })
}

func snow(p picture, severity int, draw Source) []float64 {
	type setting struct{ mean, scale, zoom, threshold, radius, sigma, keep float64 }
	c := by(p, severity, [...]setting{{.1, .2, 1, .6, 8, 3, .95}, {.1, .2, 1, .5, 10, 4, .9},
		{.15, .3, 1.75, .55, 10, 4, .9}, {.25, .3, 2.25, .6, 12, 6, .85}, {.3, .3, 1.25, .65, 14, 12, .8}},
		[...]setting{{.1, .3, 3, .5, 10, 4, .8}, {.2, .3, 2, .5, 12, 4, .7}, {.55, .3, 4, .9, 12, 8, .7},
			{.55, .3, 4.5, .85, 12, 8, .65}, {.55, .3, 2.5, .85, 12, 12, .55}})
	n := p.side
	layer := make([]float64, n*n)
	for i := range layer {
		layer[i] = c.mean + c.scale*draw.NormFloat64()
	}
	flakes := make([]uint8, n*n)
	for i, v := range zoomed(layer, n, 1, c.zoom) {
		if v >= c.threshold {
			flakes[i] = uint8(min(max(v, 0), 1) * 255)
		}
	}
	flakes = moved(flakes, n, 1, c.radius, c.sigma, -135+90*draw.Float64())
	out := make([]float64, 3*n*n)
	for i, v := range flakes {
		var rgb [3]float32
		for k := range rgb {
			rgb[k] = float32(p.levels[3*i+k]) / 255
		}
		grey := rgb[0]*.299 + rgb[1]*.587 + rgb[2]*.114
		fallen := float64(v)/255 + float64(flakes[n*n-1-i])/255 // the second term is turned by half a turn
		for k, x := range rgb {
			whiter := max(x, grey*1.5+.5)
			out[3*i+k] = float64(float32(c.keep)*x+float32(1-c.keep)*whiter) + fallen
		}
	}
	return full(out)
}
