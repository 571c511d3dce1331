package corruption

import (
	"math"
	"slices"
)

func contrast(p picture, severity int, _ Source) []float64 {
	c := by(p, severity, [...]float64{.75, .5, .4, .3, .15}, [...]float64{.4, .3, .2, .1, .05})
	x, means := p.unit(), [3]float64{}
	for i, v := range x {
		means[i%3] += v
	}
	for i, v := range x {
		mean := means[i%3] / float64(len(x)/3)
		x[i] = (v-mean)*c + mean
	}
	return full(x)
}

// brightness raises the value channel of HSV.
func brightness(p picture, severity int, _ Source) []float64 {
	c := by(p, severity, [...]float64{.05, .1, .15, .2, .3}, [...]float64{.1, .2, .3, .4, .5})
	x := p.unit()
	for pixel := range slices.Chunk(x, 3) {
		h, s, v := hsv(pixel[0], pixel[1], pixel[2])
		pixel[0], pixel[1], pixel[2] = rgb(h, s, min(max(v+c, 0), 1))
	}
	return full(x)
}

// hsv is scikit-image's rgb2hsv.
func hsv(r, g, b float64) (h, s, v float64) {
	v = max(r, g, b)
	delta := v - min(r, g, b)
	if delta == 0 {
		return 0, 0, v
	}
	switch v {
	case b:
		h = 4 + (r-g)/delta
	case g:
		h = 2 + (b-r)/delta
	default:
		h = (g - b) / delta
	}
	h /= 6
	return h - math.Floor(h), delta / v, v
}

// rgb is scikit-image's hsv2rgb.
func rgb(h, s, v float64) (r, g, b float64) {
	sector := math.Floor(h * 6)
	f := h*6 - sector
	p, q, t := v*(1-s), v*(1-f*s), v*(1-(1-f)*s)
	switch int(sector) % 6 {
	case 0:
		return v, t, p
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	}
	return v, p, q
}
