package grad

import (
	"errors"
	"slices"

	"selfheal/models/onnx"
)

// target is the constant that reshapes a tensor to shape s: Batch, -1, is what
// Reshape infers.
func (c *Context) target(s onnx.Shape) string { return c.Ints(slices.Clone(s)...) }

// y = x in another shape: x̄ = g in x's shape
func reshape(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Op("Reshape", gy[0], c.target(c.Shape(n.Inputs[0])))}, nil
}

// y = x with its axes permuted: x̄ = g permuted back
func transpose(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	p, err := onnx.Perm(n, len(c.Shape(n.Inputs[0])))
	if err != nil {
		return nil, err
	}
	inverse := make([]int64, len(p))
	for i, d := range p {
		inverse[d] = int64(i)
	}
	return []string{c.OpWith("Transpose", onnx.Attrs{"perm": inverse}, gy[0])}, nil
}

// y = the inputs side by side: each gets its slice of g
func concat(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	rank := len(c.Shape(n.Outputs[0]))
	axes, err := onnx.Axes([]int64{n.Int("axis", 1)}, rank)
	if err != nil {
		return nil, err
	}
	gx := make([]string, len(n.Inputs))
	from := int64(0)
	for i, in := range n.Inputs {
		to := from + c.Shape(in)[axes[0]]
		if c.Needs(n, i) {
			gx[i] = c.Op("Slice", gy[0], c.Ints(from), c.Ints(to), c.Ints(int64(axes[0])))
		}
		from = to
	}
	return gx, nil
}

// y = x[from:to] (steps of 1): x̄ = g with zeros around it
func slice(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	starts, ok := c.G.Consts[n.Input(1)]
	if !ok {
		return nil, errors.New("its starts must be constants")
	}
	if s, ok := c.G.Consts[n.Input(4)]; ok && slices.ContainsFunc(s.Ints, func(v int64) bool { return v != 1 }) {
		return nil, errors.New("steps other than 1 are not supported")
	}
	axes := make([]int64, len(starts.Ints))
	for i := range axes {
		axes[i] = int64(i)
	}
	if a, ok := c.G.Consts[n.Input(3)]; ok {
		axes = a.Ints
	}
	at, err := onnx.Axes(axes, len(x))
	if err != nil {
		return nil, err
	}
	pads := make([]int64, 2*len(x))
	for i, a := range at {
		if x[a] == onnx.Batch {
			continue // takes all of it
		}
		from := starts.Ints[i]
		if from < 0 {
			from += x[a]
		}
		from = min(max(from, 0), x[a])
		pads[a], pads[a+len(x)] = from, x[a]-from-y[a]
	}
	return []string{c.Op("Pad", gy[0], c.Ints(pads...))}, nil
}

// y = x with a constant border: x̄ = g without it
func pad(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	if n.Str("mode", "constant") != "constant" {
		return nil, errors.New("only constant padding is supported")
	}
	p, ok := c.G.Consts[n.Input(1)]
	x := c.Shape(n.Inputs[0])
	if !ok || slices.ContainsFunc(p.Ints, func(v int64) bool { return v < 0 }) {
		return nil, errors.New("its pads must be constants and not negative")
	}
	var starts, ends, axes []int64
	for i, d := range x {
		if d != onnx.Batch {
			starts, ends, axes = append(starts, p.Ints[i]), append(ends, p.Ints[i]+d), append(axes, int64(i))
		}
	}
	return []string{c.Op("Slice", gy[0], c.Ints(starts...), c.Ints(ends...), c.Ints(axes...))}, nil
}

// y = x repeated: the walk sums g down to x's shape
func expand(_ *Context, _ *onnx.Node, gy []string) ([]string, error) { return []string{gy[0]}, nil }

// y = data with updates added at indices: both get g, updates theirs by index
func scatterElements(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	if n.Str("reduction", "none") != "add" {
		return nil, errors.New("only the reduction add is supported")
	}
	gx := []string{gy[0], "", ""}
	if c.Needs(n, 2) {
		gx[2] = c.OpWith("GatherElements", onnx.Attrs{"axis": n.Int("axis", 0)}, gy[0], n.Inputs[1])
	}
	return gx, nil
}

// y = x at indices: x̄ = g added up at them
func gatherElements(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	zeros := c.zerosLike(n.Inputs[0])
	return []string{c.OpWith("ScatterElements", onnx.Attrs{"axis": n.Int("axis", 0), "reduction": "add"}, zeros, n.Inputs[1], gy[0])}, nil
}

// y = the k largest values: x̄ = g at the places they came from
func topK(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	for len(n.Outputs) < 2 {
		n.Outputs = append(n.Outputs, c.G.Fresh(n.Outputs[0]+"/indices"))
	}
	if n.Outputs[1] == "" {
		n.Outputs[1] = c.G.Fresh(n.Outputs[0] + "/indices")
	}
	c.G.Shapes[n.Outputs[1]] = c.Shape(n.Outputs[0])
	if gy[0] == "" {
		return []string{""}, nil
	}
	zeros := c.zerosLike(n.Inputs[0])
	return []string{c.OpWith("ScatterElements", onnx.Attrs{"axis": n.Int("axis", -1), "reduction": "add"}, zeros, n.Outputs[1], gy[0])}, nil
}
