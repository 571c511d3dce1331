package grad

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// y = x in another shape: x̄ = g in x's shape
func reshape(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Reshape(gy[0], c.Shape(n.Inputs[0]))}, nil
}

// y = x with its axes permuted: x̄ = g permuted back
func transpose(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	p, err := onnx.Perm(n, len(c.Shape(n.Inputs[0])))
	if err != nil {
		return nil, err
	}
	return []string{c.OpWith("Transpose", onnx.Attrs{"perm": onnx.Inverse(p)}, gy[0])}, nil
}

// y = the inputs side by side: each gets its part of g
func concat(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	axis, err := onnx.Axis(n, "axis", 1, len(c.Shape(n.Outputs[0])))
	if err != nil {
		return nil, err
	}
	gx := make([]string, len(n.Inputs))
	sizes, all := make([]int64, len(n.Inputs)), true
	for i, in := range n.Inputs {
		sizes[i], all = c.Shape(in)[axis], all && c.needs(n, i)
	}
	if all {
		return c.Multi("Split", onnx.Attrs{"axis": int64(axis)}, len(sizes), gy[0], c.Ints(sizes...)), nil
	}
	from := int64(0)
	for i := range n.Inputs {
		to := from + sizes[i]
		if c.needs(n, i) {
			gx[i] = c.Op("Slice", gy[0], c.Ints(from), c.Ints(to), c.Ints(int64(axis)))
		}
		from = to
	}
	return gx, nil
}

// y = the parts of x side by side: x̄ = their cotangents side by side, zeros
// where a part has none
func split(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	axis, err := onnx.Axis(n, "axis", 0, len(c.Shape(n.Inputs[0])))
	if err != nil {
		return nil, err
	}
	var parts []string
	before, gap := int64(0), int64(0) // gap: what lies behind the last part that has a cotangent
	sizes, err := c.G.SplitSizes(n)
	if err != nil {
		return nil, err
	}
	for i, size := range sizes {
		if gy[i] == "" {
			gap += size
			continue
		}
		if last := len(parts) - 1; last < 0 {
			before = gap
		} else {
			parts[last] = c.padAxis(parts[last], axis, 0, gap)
		}
		parts, gap = append(parts, gy[i]), 0
	}
	g := parts[0]
	if len(parts) > 1 {
		g = c.OpWith("Concat", onnx.Attrs{"axis": axis}, parts...)
	}
	return []string{c.padAxis(g, axis, before, gap)}, nil
}

// y = x[from:to:step] along some axes: x̄ = g with zeros around it, and between
// where the step is not 1
func slice(c *Context, n *onnx.Node, gy []string, starts *onnx.Tensor) ([]string, error) {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	axes := onnx.Range(0, len(starts.Ints))
	if a, ok := c.G.Consts[n.Input(3)]; ok {
		axes = a.Ints
	}
	at, err := onnx.Axes(axes, len(x))
	if err != nil {
		return nil, err
	}
	g, pads := gy[0], make([]int64, 2*len(x))
	for i, a := range at {
		if x[a] < 0 {
			continue // takes all of it
		}
		step := int64(1)
		if s, ok := c.G.Consts[n.Input(4)]; ok {
			step = s.Ints[i]
		}
		first, _, err := onnx.SliceRange(starts.Ints[i], 0, step, x[a])
		if err != nil {
			return nil, err
		}
		if step == 1 {
			pads[a], pads[a+len(x)] = first, x[a]-first-y[a]
			continue
		}
		from := make([]int64, y[a])
		for j := range from {
			from[j] = first + int64(j)*step
		}
		if g, err = c.pickBack(g, a, from, x[a]); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(pads, func(p int64) bool { return p != 0 }) {
		g = c.Op("Pad", g, c.Ints(pads...))
	}
	return []string{g}, nil
}

// y = x with a border, negative widths cut: x̄ = g without the border, zeros where
// it was cut. A reflected, repeated or wrapped border adds its cotangent to the
// positions that it copies.
func pad(c *Context, n *onnx.Node, gy []string, p *onnx.Tensor) ([]string, error) {
	x, mode := c.Shape(n.Inputs[0]), n.Str("mode", "constant")
	g, r := gy[0], len(x)
	var err error
	for a, d := range x {
		before, behind := p.Ints[a], p.Ints[a+r]
		if before == 0 && behind == 0 {
			continue
		}
		if mode != "constant" && min(before, behind) < 0 {
			return nil, fmt.Errorf("mode %q with negative pads is not supported", mode)
		}
		from := make([]int64, d+before+behind)
		for i := range from {
			if from[i], err = padSource(mode, int64(i)-before, d); err != nil {
				return nil, err
			}
		}
		if g, err = c.pickBack(g, a, from, d); err != nil {
			return nil, err
		}
	}
	return []string{g}, nil
}

// padSource is the position, of d, that a padded axis copies at position i,
// which lies outside for the border; -1 for none.
func padSource(mode string, i, d int64) (int64, error) {
	if i >= 0 && i < d {
		return i, nil
	}
	switch mode {
	case "constant":
		return -1, nil
	case "edge":
		return min(max(i, 0), d-1), nil
	case "wrap":
		return ((i % d) + d) % d, nil
	case "reflect":
		period := max(2*(d-1), 1)
		i = ((i % period) + period) % period
		return min(i, period-i), nil
	}
	return 0, fmt.Errorf("mode %q is not supported", mode)
}

// y = x's blocks of channels laid out as squares: x̄ = g's squares taken back
// into channels. In the mode CRD the square's place is the channel's inner part.
func depthToSpace(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, b := c.Shape(n.Inputs[0]), n.Int("blocksize", 1)
	g := c.OpWith("SpaceToDepth", onnx.Attrs{"blocksize": b}, gy[0])
	if n.Str("mode", "DCR") == "CRD" {
		g = c.Op("Reshape", g, c.Ints(0, b*b, x[1]/(b*b), x[2], x[3]))
		g = c.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}}, g)
		g = c.Op("Reshape", g, c.Ints(0, x[1], x[2], x[3]))
	}
	return []string{g}, nil
}

// y = x repeated as a whole along some axes: x̄ = the sum over the repetitions
func tile(c *Context, n *onnx.Node, gy []string, repeats *onnx.Tensor) ([]string, error) {
	x := c.Shape(n.Inputs[0])
	var apart onnx.Shape // x's shape with an axis of repeats before each repeated one
	var axes []int64
	for i, d := range x {
		if r := repeats.Ints[i]; r != 1 {
			axes = append(axes, int64(len(apart)))
			apart = append(apart, r)
		}
		apart = append(apart, d)
	}
	if len(axes) == 0 {
		return gy[:1], nil
	}
	sum := c.Sum(c.Reshape(gy[0], apart), axes)
	return []string{c.Reshape(sum, x)}, nil
}

// y_i = Σ_{j ≤ i} x_j along an axis: x̄ = the same sum of g from the other end
func cumSum(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	attrs := onnx.Attrs{"exclusive": n.Int("exclusive", 0), "reverse": 1 - n.Int("reverse", 0)}
	return []string{c.OpWith("CumSum", attrs, gy[0], n.Inputs[1])}, nil
}

// y = x's upper or lower triangle, zeros elsewhere: x̄ = the same of g
func trilu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	in := []string{gy[0]}
	if k := n.Input(1); k != "" {
		in = append(in, k)
	}
	return []string{c.OpWith("Trilu", onnx.Attrs{"upper": n.Int("upper", 1)}, in...)}, nil
}
