package optimize

import (
	"slices"

	"selfheal/models/onnx"
)

// Centre takes the subtraction of a mean off the front of a graph: a caller that copies
// an image to where the graph reads it can subtract on the way, at no cost. It returns the
// graph without that node, and the mean for each value of an item of the first input.
// Where g does not begin so, it returns g itself and nil. The float32 results are the same.
func Centre(g *onnx.Graph) (*onnx.Graph, []float32) {
	in := g.Inputs[0]
	readers := g.Consumers()[in.Name]
	if len(readers) != 1 || g.IsOutput(in.Name) {
		return g, nil
	}
	n := readers[0]
	if n.Op != "Sub" || n.Domain != "" || n.Inputs[0] != in.Name || n.Inputs[1] == in.Name ||
		!slices.Equal(g.Shapes[n.Outputs[0]], in.Shape) || g.IsOutput(n.Outputs[0]) {
		return g, nil
	}
	mean := perValue(g.Consts[n.Inputs[1]], in.Shape)
	if mean == nil {
		return g, nil
	}
	out := g.Clone()
	out.Nodes = slices.DeleteFunc(out.Nodes, func(m *onnx.Node) bool { return slices.Equal(m.Outputs, n.Outputs) })
	out.Replace(n.Outputs[0], in.Name)
	out.Prune()
	return out, mean
}

// perValue returns a constant for each value of an item, [N …], that it broadcasts
// against; nil where it does not, or k is nil.
func perValue(k *onnx.Tensor, item onnx.Shape) []float32 {
	if k == nil || k.DType != onnx.Float || len(k.Shape) > len(item) || len(item) == 0 || item[0] != onnx.Batch {
		return nil
	}
	shape := append(slices.Repeat(onnx.Shape{1}, len(item)-len(k.Shape)), k.Shape...)
	for i, d := range shape {
		if d != 1 && (i == 0 || d != item[i]) {
			return nil
		}
	}
	out := make([]float32, item.Items())
	for i := range out {
		from, rest, stride := int64(0), int64(i), int64(1)
		for axis := len(item) - 1; axis > 0; axis-- {
			if shape[axis] != 1 {
				from += rest % item[axis] * stride
				stride *= item[axis]
			}
			rest /= item[axis]
		}
		out[i] = k.Floats[from]
	}
	return out
}
