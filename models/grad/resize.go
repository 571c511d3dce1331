package grad

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// y = x sampled anew, every axis by itself: y = M·x along it with a constant M
// that holds the interpolation's weights, so x̄ = Mᵀ·g along each. Nearest
// sampling, where a row of M is a single 1, picks; by whole factors, where each
// value is repeated alike, x̄ is an average pool of g times its window.
func resize(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	if n.Int("antialias", 0) != 0 {
		return nil, errors.New("antialias is not supported")
	}
	mode := n.Str("mode", "nearest")
	if mode != "nearest" && mode != "linear" && mode != "cubic" {
		return nil, fmt.Errorf("mode %q is not supported", mode)
	}
	if slices.Equal(x, y) { // ONNX Runtime copies, whatever the scales
		return gy[:1], nil
	}
	scales := c.G.Consts[n.Input(2)]
	g, factors, pools := gy[0], slices.Repeat([]int64{1}, max(len(x)-2, 0)), false
	for i := range x {
		if x[i] < 0 || x[i] == y[i] && (scales == nil || scales.Floats[i] == 1) {
			continue
		}
		s := sampling{in: x[i], out: y[i], scale: float32(y[i]) / float32(x[i]),
			coord: n.Str("coordinate_transformation_mode", "half_pixel")}
		if scales != nil { // what is sampled by, whatever the sizes
			s.scale = scales.Floats[i]
		}
		if mode == "nearest" {
			from, err := s.nearest(n.Str("nearest_mode", "round_prefer_floor"))
			if err != nil {
				return nil, err
			}
			if i >= 2 && repeats(from, y[i]/x[i]) && y[i]%x[i] == 0 {
				factors[i-2], pools = y[i]/x[i], true
				continue
			}
			if g, err = c.pickBack(g, i, from, x[i]); err != nil {
				return nil, err
			}
			continue
		}
		m, err := s.weights(mode, n.Float("cubic_coeff_a", -0.75), n.Int("exclude_outside", 0) == 1)
		if err != nil {
			return nil, err
		}
		g = c.along(g, i, m)
	}
	if pools {
		g = c.OpWith("AveragePool", onnx.Attrs{"kernel_shape": factors, "strides": slices.Clone(factors)}, g)
		g = c.Op("Mul", g, c.Float(float32(onnx.Shape(factors).Items())))
	}
	return []string{g}, nil
}

// repeats reports whether position i is i/factor everywhere.
func repeats(from []int64, factor int64) bool {
	for i, j := range from {
		if factor < 1 || j != int64(i)/factor {
			return false
		}
	}
	return true
}

// sampling is how a Resize reads one axis. It computes in float32, as ONNX
// Runtime does, because where positions round to depends on it.
type sampling struct {
	in, out int64
	scale   float32
	coord   string // coordinate_transformation_mode
}

// at is the place in the input that output position i is read from.
func (s sampling) at(i int64) (float32, error) {
	v := float32(i)
	switch s.coord {
	case "half_pixel":
		return (v+0.5)/s.scale - 0.5, nil
	case "pytorch_half_pixel":
		if s.out <= 1 {
			return 0, nil
		}
		return (v+0.5)/s.scale - 0.5, nil
	case "half_pixel_symmetric":
		offset := float32(s.in) / 2 * (1 - float32(s.out)/(s.scale*float32(s.in)))
		return float32(float64(offset) + (float64(v)+0.5)/float64(s.scale) - 0.5), nil
	case "tf_half_pixel_for_nn":
		return (v + 0.5) / s.scale, nil
	case "asymmetric":
		return v / s.scale, nil
	case "align_corners":
		if s.out <= 1 {
			return 0, nil
		}
		return v * float32(s.in-1) / float32(s.out-1), nil
	}
	return 0, fmt.Errorf("coordinates %q are not supported", s.coord)
}

// nearest lists the input position of every output position.
func (s sampling) nearest(mode string) ([]int64, error) {
	from := make([]int64, s.out)
	for i := range from {
		p, err := s.at(int64(i))
		if err != nil {
			return nil, err
		}
		v := float64(p)
		switch mode {
		case "round_prefer_floor":
			v = math.Ceil(v - 0.5)
		case "round_prefer_ceil":
			v = math.Floor(v + 0.5)
		case "floor":
			v = math.Floor(v)
		case "ceil":
			v = math.Ceil(v)
		default:
			return nil, fmt.Errorf("nearest_mode %q is not supported", mode)
		}
		from[i] = min(max(int64(v), 0), s.in-1)
	}
	return from, nil
}

// weights is the interpolation's matrix, [out, in]: linear between two
// neighbours, or cubic between four (Keys' kernel with coefficient a), which
// the border value stands in for outside, unless they are excluded and the rest
// made to add up to 1.
func (s sampling) weights(mode string, a float32, exclude bool) (*onnx.Tensor, error) {
	m, err := newMatrix(s.out, s.in)
	if err != nil {
		return nil, err
	}
	for i := range s.out {
		p, err := s.at(i)
		if err != nil {
			return nil, err
		}
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
	return m, nil
}

// cubic is Keys' convolution kernel at distance t.
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
