package corruption

import "math"

func gaussianNoise(p picture, severity int, draw Source) []float64 {
	scale := by(p, severity, [...]float64{.04, .06, .08, .09, .10}, [...]float64{.08, .12, .18, .26, .38})
	x := p.unit()
	for i := range x {
		x[i] += scale * draw.NormFloat64()
	}
	return full(x)
}

func shotNoise(p picture, severity int, draw Source) []float64 {
	c := by(p, severity, [...]float64{500, 250, 100, 75, 50}, [...]float64{60, 25, 12, 5, 3})
	x := p.unit()
	for i, v := range x {
		x[i] = float64(poisson(v*c, draw.Float64())) / c
	}
	return full(x)
}

// poisson returns the quantile at u of the Poisson distribution with this mean, at most 500.
func poisson(mean, u float64) int {
	k, p := 0, math.Exp(-mean)
	for sum := p; sum < u && p > 0; sum += p {
		k++
		p *= mean / float64(k)
	}
	return k
}

// impulseNoise is scikit-image's salt and pepper: it first draws which values flip, then to which end.
func impulseNoise(p picture, severity int, draw Source) []float64 {
	amount := by(p, severity, [...]float64{.01, .02, .03, .05, .07}, [...]float64{.03, .06, .09, .17, .27})
	x := p.unit()
	flipped := make([]bool, len(x))
	for i := range x {
		flipped[i] = draw.Float64() <= amount
	}
	for i := range x {
		if salt := draw.Float64() <= .5; flipped[i] && salt {
			x[i] = 1
		} else if flipped[i] {
			x[i] = 0
		}
	}
	return full(x)
}
