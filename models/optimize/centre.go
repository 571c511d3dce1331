package optimize

import (
	"slices"

	"selfheal/models/onnx"
)

// Centre takes the subtraction of a mean off the front of a graph: whoever copies an
// image to where the graph reads it can subtract on the way, for nothing. It returns the
// graph without that node and what to subtract from each value of an item of the first
// input; g itself and nil where g does not begin so. The float32 results are the same.
func Centre(g *onnx.Graph) (*onnx.Graph, []float32) {
	in := g.Inputs[0]
	readers := g.Consumers()[in.Name]
	if len(readers) != 1 || slices.ContainsFunc(g.Outputs, func(o onnx.Value) bool { return o.Name == in.Name }) {
		return g, nil
	}
	n := readers[0]
	if n.Op != "Sub" || n.Domain != "" || n.Inputs[0] != in.Name || n.Inputs[1] == in.Name || !slices.Equal(g.Shapes[n.Outputs[0]], in.Shape) ||
		slices.ContainsFunc(g.Outputs, func(o onnx.Value) bool { return o.Name == n.Outputs[0] }) {
		return g, nil
	}
	mean := perValue(g.Consts[n.Inputs[1]], in.Shape)
	if mean == nil {
		return g, nil
	}
	out := g.Clone()
	out.Nodes = slices.DeleteFunc(out.Nodes, func(m *onnx.Node) bool { return slices.Equal(m.Outputs, n.Outputs) })
	for _, m := range out.Nodes {
		for i, name := range m.Inputs {
			if name == n.Outputs[0] {
				m.Inputs[i] = in.Name
			}
		}
	}
	out.Prune()
	return out, mean
}

// perValue spreads a constant over the values of an item, [N …], that it broadcasts
// against; nil where it does not or is none.
func perValue(k *onnx.Tensor, item onnx.Shape) []float32 {
	if k == nil || k.DType != onnx.Float || len(k.Shape) > len(item) || len(item) == 0 || item[0] != onnx.Batch {
		return nil
	}
	shape := append(slices.Repeat(onnx.Shape{1}, len(item)-len(k.Shape)), k.Shape...)
	out, at := make([]float32, item.Items()), make([]int64, len(item))
	for i, d := range shape {
		if d != 1 && (i == 0 || d != item[i]) {
			return nil
		}
	}
	for i := range out {
		from := int64(0)
		for axis, d := range shape {
			if from *= d; d != 1 {
				from += at[axis]
			}
		}
		out[i] = k.Floats[from]
		for axis := len(item) - 1; axis > 0; axis-- {
			if at[axis]++; at[axis] < item[axis] {
				break
			}
			at[axis] = 0
		}
	}
	return out
}
