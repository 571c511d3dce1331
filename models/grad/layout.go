package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// y = x in another shape: x̄ = g in x's shape
func reshape(c *Context, n *onnx.Node, gy []string) []string {
	return []string{c.Reshape(gy[0], c.Shape(n.Inputs[0]))}
}

// y = x with its axes permuted: x̄ = g permuted back
func transpose(c *Context, n *onnx.Node, gy []string) []string {
	back := onnx.Inverse(onnx.Perm(n, len(c.Shape(n.Inputs[0]))))
	return []string{c.OpWith("Transpose", onnx.Attrs{"perm": back}, gy[0])}
}

// y = the inputs side by side: each gets its part of g
func concat(c *Context, n *onnx.Node, gy []string) []string {
	axis := n.AxisOf(len(c.Shape(n.Outputs[0])))
	gx := make([]string, len(n.Inputs))
	sizes, all := make([]int64, len(n.Inputs)), true
	for i, in := range n.Inputs {
		sizes[i], all = c.Shape(in)[axis], all && c.needs(n, i)
	}
	if all {
		return c.Multi("Split", onnx.Attrs{"axis": int64(axis)}, len(sizes), gy[0], c.Ints(sizes...))
	}
	from := int64(0)
	for i := range n.Inputs {
		to := from + sizes[i]
		if c.needs(n, i) {
			gx[i] = c.Op("Slice", gy[0], c.Ints(from), c.Ints(to), c.Ints(int64(axis)))
		}
		from = to
	}
	return gx
}

// y = the parts of x side by side: x̄ = their cotangents side by side, with zeros for a part that has none
func split(c *Context, n *onnx.Node, gy []string) []string {
	axis := n.AxisOf(len(c.Shape(n.Inputs[0])))
	var parts []string
	before, gap := int64(0), int64(0) // gap: size of the parts behind the last one with a cotangent
	for i, size := range c.G.SplitSizes(n) {
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
	return []string{c.padAxis(g, axis, before, gap)}
}

// y = x[from:to:step] along some axes: x̄ = g with zeros around it, and between its values if the step is not 1
func slice(c *Context, n *onnx.Node, gy []string, starts *onnx.Tensor) []string {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	axes := onnx.Range(0, len(starts.Ints))
	if a, ok := c.G.Consts[n.Input(3)]; ok {
		axes = a.Ints
	}
	g, pads := gy[0], make([]int64, 2*len(x))
	for i, a := range onnx.Sure(onnx.Axes(axes, len(x))) {
		if x[a] < 0 {
			continue // takes all of it
		}
		step := int64(1)
		if s, ok := c.G.Consts[n.Input(4)]; ok {
			step = s.Ints[i]
		}
		first, _ := onnx.SliceRange(starts.Ints[i], 0, step, x[a])
		if step == 1 {
			pads[a], pads[a+len(x)] = first, x[a]-first-y[a]
			continue
		}
		from := make([]int64, y[a])
		for j := range from {
			from[j] = first + int64(j)*step
		}
		g = c.pickBack(g, a, from, x[a])
	}
	if slices.ContainsFunc(pads, func(p int64) bool { return p != 0 }) {
		g = c.Op("Pad", g, c.Ints(pads...))
	}
	return []string{g}
}

// y = x with a border; negative widths cut. x̄ = g without the border, and zeros where x was cut. A reflected, repeated
// or wrapped border adds its cotangent to the positions that it copies.
func pad(c *Context, n *onnx.Node, gy []string, p *onnx.Tensor) []string {
	x, mode := c.Shape(n.Inputs[0]), n.Str("mode", "constant")
	g, r := gy[0], len(x)
	known := slices.Contains([]string{"constant", "edge", "wrap", "reflect"}, mode)
	onnx.Require(known, "mode %q is not supported", mode)
	for a, d := range x {
		before, behind := p.Ints[a], p.Ints[a+r]
		if before == 0 && behind == 0 {
			continue
		}
		cuts := min(before, behind) < 0
		onnx.Require(!cuts || mode == "constant", "mode %q with negative pads is not supported", mode)
		from := make([]int64, d+before+behind)
		for i := range from {
			from[i] = padSource(mode, int64(i)-before, d)
		}
		g = c.pickBack(g, a, from, d)
	}
	return []string{g}
}

// padSource returns the position, of d, that a padded axis copies at position i; i lies outside for the border; -1
// means none.
func padSource(mode string, i, d int64) int64 {
	switch {
	case i >= 0 && i < d:
		return i
	case mode == "edge":
		return min(max(i, 0), d-1)
	case mode == "wrap":
		return ((i % d) + d) % d
	case mode == "reflect":
		period := max(2*(d-1), 1)
		i = ((i % period) + period) % period
		return min(i, period-i)
	}
	return -1
}

// y = x's blocks of channels laid out as squares: x̄ = g's squares turned back into channels. In the mode CRD the
// position in the square is the inner part of the channel.
func depthToSpace(c *Context, n *onnx.Node, gy []string) []string {
	x, b := c.Shape(n.Inputs[0]), n.Int("blocksize", 1)
	g := c.OpWith("SpaceToDepth", onnx.Attrs{"blocksize": b}, gy[0])
	if n.Str("mode", "DCR") == "CRD" {
		g = c.Op("Reshape", g, c.Ints(0, b*b, x[1]/(b*b), x[2], x[3]))
		g = c.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}}, g)
		g = c.Op("Reshape", g, c.Ints(0, x[1], x[2], x[3]))
	}
	return []string{g}
}

// y = x repeated as a whole along some axes: x̄ = the sum over the repetitions
func tile(c *Context, n *onnx.Node, gy []string, repeats *onnx.Tensor) []string {
	x := c.Shape(n.Inputs[0])
	var apart onnx.Shape // x's shape with an axis of repeats in front of each repeated axis
	var axes []int64
	for i, d := range x {
		if r := repeats.Ints[i]; r != 1 {
			axes = append(axes, int64(len(apart)))
			apart = append(apart, r)
		}
		apart = append(apart, d)
	}
	if len(axes) == 0 {
		return gy[:1]
	}
	sum := c.Sum(c.Reshape(gy[0], apart), axes)
	return []string{c.Reshape(sum, x)}
}

// y_i = Σ_{j ≤ i} x_j along an axis: x̄ = the same sum of g from the other end
func cumSum(c *Context, n *onnx.Node, gy []string) []string {
	attrs := onnx.Attrs{"exclusive": n.Int("exclusive", 0), "reverse": 1 - n.Int("reverse", 0)}
	return []string{c.OpWith("CumSum", attrs, gy[0], n.Inputs[1])}
}

// y = x's upper or lower triangle, zeros elsewhere: x̄ = the same of g
func trilu(c *Context, n *onnx.Node, gy []string) []string {
	in := []string{gy[0]}
	if k := n.Input(1); k != "" {
		in = append(in, k)
	}
	return []string{c.OpWith("Trilu", onnx.Attrs{"upper": n.Int("upper", 1)}, in...)}
}
