package grad

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// y = x resampled along each axis separately: y = M·x with a constant M that holds the interpolation's weights, so x̄ =
// Mᵀ·g. In nearest sampling a row of M is a single 1, so that M picks. For whole factors, which repeat each value
// equally often, x̄ is an average pool of g times the window's size.
func resize(c *Context, n *onnx.Node, gy []string) []string {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	onnx.Require(n.Int("antialias", 0) == 0, "antialias is not supported")
	mode := n.Str("mode", "nearest")
	onnx.Require(slices.Contains([]string{"nearest", "linear", "cubic"}, mode), "mode %q is not supported", mode)
	if slices.Equal(x, y) { // ONNX Runtime copies x, regardless of the scales
		return gy[:1]
	}
	scales := c.G.Consts[n.Input(2)]
	g, factors, pools := gy[0], slices.Repeat([]int64{1}, max(len(x)-2, 0)), false
	for i := range x {
		if x[i] < 0 || x[i] == y[i] && (scales == nil || scales.Floats[i] == 1) {
			continue
		}
		coord := n.Str("coordinate_transformation_mode", "half_pixel")
		s := sampling{in: x[i], out: y[i], scale: float32(y[i]) / float32(x[i]), at: coordinates[coord]}
		onnx.Require(s.at != nil, "coordinates %q are not supported", coord)
		if scales != nil { // the scales apply, regardless of the sizes
			s.scale = scales.Floats[i]
		}
		if mode == "nearest" {
			round := n.Str("nearest_mode", "round_prefer_floor")
			onnx.Require(rounding[round] != nil, "nearest_mode %q is not supported", round)
			from := s.nearest(rounding[round])
			if i >= 2 && repeats(from, y[i]/x[i]) && y[i]%x[i] == 0 {
				factors[i-2], pools = y[i]/x[i], true
				continue
			}
			g = c.pickBack(g, i, from, x[i])
			continue
		}
		m := matrix(s.out, s.in)
		s.weigh(m, mode, n.Float("cubic_coeff_a", -0.75), n.Int("exclude_outside", 0) == 1)
		g = c.weighted(g, i, m)
	}
	if pools {
		g = c.OpWith("AveragePool", onnx.Attrs{"kernel_shape": factors, "strides": slices.Clone(factors)}, g)
		g = c.Op("Mul", g, c.Float(float32(onnx.Shape(factors).Items())))
	}
	return []string{g}
}

// repeats reports whether from[i] is i/factor for all i.
func repeats(from []int64, factor int64) bool {
	for i, j := range from {
		if factor < 1 || j != int64(i)/factor {
			return false
		}
	}
	return true
}

// sampling describes how a Resize reads one axis. It computes in float32, like ONNX Runtime, because rounding decides
// which position is read.
type sampling struct {
	in, out int64
	scale   float32
	at      func(s sampling, v float32) float32 // one of coordinates
}

// coordinates maps the attribute coordinate_transformation_mode to a function from an output position v to its place in
// the input.
var coordinates = map[string]func(s sampling, v float32) float32{
	"half_pixel": halfPixel,
	"pytorch_half_pixel": func(s sampling, v float32) float32 {
		if s.out <= 1 {
			return 0
		}
		return halfPixel(s, v)
	},
	"half_pixel_symmetric": func(s sampling, v float32) float32 {
		offset := float32(s.in) / 2 * (1 - float32(s.out)/(s.scale*float32(s.in)))
		return float32(float64(offset) + (float64(v)+0.5)/float64(s.scale) - 0.5)
	},
	"tf_half_pixel_for_nn": func(s sampling, v float32) float32 { return (v + 0.5) / s.scale },
	"asymmetric":           func(s sampling, v float32) float32 { return v / s.scale },
	"align_corners": func(s sampling, v float32) float32 {
		if s.out <= 1 {
			return 0
		}
		return v * float32(s.in-1) / float32(s.out-1)
	},
}

func halfPixel(s sampling, v float32) float32 { return (v+0.5)/s.scale - 0.5 }

// rounding maps the attribute nearest_mode to a function from a place to a position.
var rounding = map[string]func(v float64) float64{
	"round_prefer_floor": func(v float64) float64 { return math.Ceil(v - 0.5) },
	"round_prefer_ceil":  func(v float64) float64 { return math.Floor(v + 0.5) },
	"floor":              math.Floor,
	"ceil":               math.Ceil,
}

// nearest lists the input position for every output position.
func (s sampling) nearest(round func(v float64) float64) []int64 {
	from := make([]int64, s.out)
	for i := range from {
		from[i] = min(max(int64(round(float64(s.at(s, float32(i))))), 0), s.in-1)
	}
	return from
}

// weigh fills the interpolation's matrix, [out, in]: linear between two neighbours, or cubic between four (Keys' kernel
// with coefficient a). The border value replaces those outside, unless exclude is set: then the remaining weights are
// scaled to sum to 1.
func (s sampling) weigh(m *onnx.Tensor, mode string, a float32, exclude bool) {
	for i := range s.out {
		p := s.at(s, float32(i))
		row := m.Floats[i*s.in : (i+1)*s.in]
		if mode == "linear" {
			p = min(max(p, 0), float32(s.in-1))
			low := int64(p)
			row[low] += 1 - (p - float32(low))
			if low+1 < s.in {
				row[low+1] += p - float32(low)
			}
			continue
		}
		low := int64(math.Floor(float64(p)))
		total := float32(0)
		for k := low - 1; k <= low+2; k++ {
			w := cubic(float64(p)-float64(k), float64(a))
			if exclude && (k < 0 || k >= s.in) {
				continue
			}
			row[min(max(k, 0), s.in-1)] += w
			total += w
		}
		if exclude {
			for j := range row {
				row[j] /= total
			}
		}
	}
}

// cubic returns Keys' convolution kernel at distance t.
func cubic(t, a float64) float32 {
	t = math.Abs(t)
	switch {
	case t <= 1:
		return float32(((a+2)*t-(a+3))*t*t + 1)
	case t < 2:
		return float32(((a*t-5*a)*t+8*a)*t - 4*a)
	}
	return 0
}
