package grad

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// y = x at constant indices along an axis: x̄ = g added up at them
func gather(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	indices, ok := c.G.Consts[n.Input(1)]
	if !ok {
		return nil, errors.New("its indices must be constants")
	}
	axes, err := onnx.Axes([]int64{n.Int("axis", 0)}, len(x))
	if err != nil {
		return nil, err
	}
	axis := axes[0]
	from := slices.Clone(indices.Ints)
	for i, j := range from {
		if j < 0 {
			from[i] += x[axis]
		}
	}
	g := gy[0]
	if len(indices.Shape) != 1 { // the indices' axes as one
		flat := slices.Concat(y[:axis], onnx.Shape{int64(len(from))}, x[axis+1:])
		g = c.Reshape(g, flat)
	}
	g, err = c.pickBack(g, axis, from, x[axis])
	return []string{g}, err
}

// y = data with updates added, or put, at indices: updates get g by index, data
// gets g, without what was overwritten
func scatterElements(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx, axis := make([]string, 3), onnx.Attrs{"axis": n.Int("axis", 0)}
	switch reduction := n.Str("reduction", "none"); {
	case reduction != "add" && reduction != "none":
		return nil, fmt.Errorf("the reduction %q is not supported", reduction)
	case !c.needs(n, 0):
	case reduction == "add":
		gx[0] = gy[0]
	default:
		gx[0] = c.OpWith("ScatterElements", axis, gy[0], n.Inputs[1], c.zerosLike(n.Inputs[2]))
	}
	if c.needs(n, 2) {
		gx[2] = c.OpWith("GatherElements", axis, gy[0], n.Inputs[1])
	}
	return gx, nil
}

// y = x at indices: x̄ = g added up at them
func gatherElements(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	zeros := c.zerosLike(n.Inputs[0])
	return []string{c.scatterAdd(n.Int("axis", 0), zeros, n.Inputs[1], gy[0])}, nil
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
	return []string{c.scatterAdd(n.Int("axis", -1), zeros, n.Outputs[1], gy[0])}, nil
}

// scatterAdd adds values to a tensor at indices along an axis.
func (c *Context) scatterAdd(axis int64, to, at, values string) string {
	return c.OpWith("ScatterElements", onnx.Attrs{"axis": axis, "reduction": "add"}, to, at, values)
}
