// Package optimize rewrites a network into an equivalent one that ONNX Runtime's CPU kernels run faster. [Graph] does
// so after simplification and before gradients are derived; [Centre] then takes the subtraction of a mean off the
// front. Convolutions with many channels become Winograd's algorithm, written as matrix products. Their states are laid
// out as [H W N C]; operators that work value by value follow them into that layout, and everything else stays [N C H
// W]. All operators are standard ones with gradient rules, so a gradient derived from the result is faster too: the
// transposed algorithm is also one of Winograd's.
//
// The results differ from the network's by float32 rounding. They do not depend on the batch: the form of a layer
// follows from its shape alone.
package optimize

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// Graph returns the faster network. g is simplified, with an open batch, and is not changed. Inputs, outputs and the
// tensors that stay [N C H W] keep their names; unchanged constants are shared.
func Graph(g *onnx.Graph) (*onnx.Graph, error) {
	src := g.Clone()
	fold(src)
	rescale(src)
	spaceToDepth(src, blockChannels)
	// With stride 1, F(4) has four times as many numbers as a layer's weights, F(2) less than twice as many; with
	// stride 2, nine and three times.
	for _, sizes := range [][]int{{2, 4}, {2}} {
		w, err := rewrite(src.Clone(), sizes)
		if err != nil {
			return nil, err
		}
		if w.weights <= maxWeights {
			return w.G, nil
		}
	}
	return src, src.Verify()
}

// A rewriter copies a graph, node by node. A tensor of src may exist in the copy
// under its own name, in the layout of src (nchw), or as [H W N C] (hwnc), or both.
type rewriter struct {
	*onnx.Builder
	src     *onnx.Graph
	sizes   []int // the m of the forms F(m) to choose from
	hwnc    map[string]string
	nchw    map[string]bool
	weights int64 // number of values in the transformed weights
}

// rewrite copies src with convolutions as F(m) for some of the given m.
func rewrite(src *onnx.Graph, sizes []int) (*rewriter, error) {
	w := &rewriter{src: src, sizes: sizes, hwnc: map[string]string{}, nchw: map[string]bool{}}
	w.Builder = &onnx.Builder{G: onnx.NewGraph(src.Name)}
	w.G.Opset, w.G.IR, w.G.Meta, w.G.Inputs, w.G.Outputs = src.Opset, src.IR, src.Meta, src.Inputs, src.Outputs
	for name := range src.Shapes {
		w.G.Shapes[name] = nil // marks the name as taken
	}
	for name, c := range src.Consts {
		w.G.Consts[name], w.G.Shapes[name] = c, c.Shape
	}
	for _, in := range src.Inputs {
		w.G.Shapes[in.Name], w.nchw[in.Name] = in.Shape, true
	}
	for _, n := range src.Nodes {
		if !w.toHWNC(n) {
			w.keep(n)
		}
		if err := w.Err(); err != nil {
			return nil, fmt.Errorf("node %s: %w", n, err)
		}
	}
	for _, out := range src.Outputs {
		w.inNCHW(out.Name)
	}
	if err := w.Err(); err != nil {
		return nil, err
	}
	w.G.Prune()
	return w, w.G.Verify()
}

// toHWNC writes a node with its output as [H W N C] and reports whether it did.
func (w *rewriter) toHWNC(n *onnx.Node) bool {
	switch {
	case n.Domain != "" || w.src.IsOutput(n.Outputs[0]):
		return false
	case n.Op == "Conv":
		return w.conv(n)
	case n.Op == "BatchNormalization":
		return w.isHWNC(n.Inputs[0]) && w.batchNormalization(n)
	case onnx.TraitsOf(n.Op).Pointwise:
		return slices.ContainsFunc(n.Inputs, w.isHWNC) && w.pointwise(n)
	}
	return false
}

func (w *rewriter) keep(n *onnx.Node) {
	for _, in := range n.Inputs {
		w.inNCHW(in)
	}
	w.Append(n.Clone())
	for _, o := range n.Outputs {
		w.nchw[o] = true
	}
}

// Centre removes the subtraction of a mean from the front of a graph: a caller that copies an image to the graph's
// input can subtract on the way, at no cost. It returns the graph without that node, and the mean for each value of an
// item of the first input. If g does not begin so, it returns g itself and nil. The float32 results are the same.
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

// perValue expands a constant to one number for each value of an item, [N …]; nil if it does not broadcast against
// that, or if k is nil.
func perValue(k *onnx.Tensor, item onnx.Shape) []float32 {
	if k == nil || k.DType != onnx.Float || len(k.Shape) > len(item) || len(item) == 0 || item[0] != onnx.Batch {
		return nil
	}
	shape := k.Shape.Padded(len(item))
	for i, d := range shape {
		if d != 1 && (i == 0 || d != item[i]) {
			return nil
		}
	}
	return onnx.Each(item[1:].Places(shape.Strides()[1:]), func(from int64) float32 { return k.Floats[from] })
}
