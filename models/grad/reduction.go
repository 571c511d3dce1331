package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// spread gives a reduction's cotangent the reduced axes back, as 1, and
// broadcasts it to the input's shape.
func (c *Context) spread(n *onnx.Node, g string) (string, error) {
	x := c.Shape(n.Inputs[0])
	axes := []int64{}
	if t, ok := c.G.Consts[n.Input(1)]; ok {
		axes = t.Ints
	}
	if len(axes) == 0 {
		if n.Int("noop_with_empty_axes", 0) == 1 {
			return g, nil
		}
		for i := range x {
			axes = append(axes, int64(i))
		}
	}
	at, err := onnx.Axes(axes, len(x))
	if err != nil {
		return "", err
	}
	kept, ones := slices.Clone(x), slices.Repeat([]int64{1}, len(x))
	for _, a := range at {
		if x[a] != onnx.Batch {
			ones[a] = x[a]
		}
		kept[a] = 1
	}
	if n.Int("keepdims", 1) == 0 {
		g = c.Op("Reshape", g, c.target(kept))
	}
	return c.Op("Expand", g, c.Ints(ones...)), nil
}

// y = Σ x along axes: x̄ = g repeated. ReduceMean needs no rule: Simplify writes it
// as GlobalAveragePool, and sums of data as that times their number.
func reduceSum(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	g, err := c.spread(n, gy[0])
	return []string{g}, err
}
