// Package optimize rewrites a network into an equivalent one that ONNX Runtime's CPU
// kernels run faster. Convolutions of many channels become Winograd's algorithm,
// written as matrix products. Their states are laid out as [H W N C]; operators
// that work value by value follow them into that layout, and everything else stays
// [N C H W]. All operators are standard ones with gradient rules, so a gradient
// derived from the result is faster too: the transposed algorithm is one of Winograd's.
//
// The results differ from the network's by float32 rounding. They do not depend
// on the batch: the form of a layer follows from its shape alone.
package optimize

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// Graph returns the faster network. g is simplified, with the batch open; it is
// not changed, and inputs, outputs and the names of those tensors that stay
// [N C H W] are kept. Constants are shared where they stay as they are.
func Graph(g *onnx.Graph) (*onnx.Graph, error) {
	src := g.Clone()
	fold(src)
	rescale(src)
	pack(src, blocked())
	// With stride 1, F(4) makes four times as many numbers of a layer's weights, F(2)
	// less than twice; with stride 2, nine and three times.
	for _, sizes := range [][]int{{2, 4}, {2}} {
		t, err := rewrite(src.Clone(), sizes)
		if err != nil {
			return nil, err
		}
		if t.weights <= maxWeights {
			return t.G, nil
		}
	}
	return src, src.Verify()
}

// rewrite copies a graph with algorithms of the given numbers of outputs.
func rewrite(src *onnx.Graph, sizes []int) (*tuner, error) {
	t := &tuner{src: src, sizes: sizes, wide: map[string]string{}, plain: map[string]bool{}}
	t.Builder = &onnx.Builder{G: onnx.NewGraph(src.Name)}
	t.G.Opset, t.G.IR, t.G.Meta, t.G.Inputs, t.G.Outputs = src.Opset, src.IR, src.Meta, src.Inputs, src.Outputs
	for name := range src.Shapes {
		t.G.Shapes[name] = nil // taken
	}
	for name, c := range src.Consts {
		t.G.Consts[name], t.G.Shapes[name] = c, c.Shape
	}
	for _, in := range src.Inputs {
		t.G.Shapes[in.Name], t.plain[in.Name] = in.Shape, true
	}
	for _, n := range src.Nodes {
		if err := t.node(n); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Label(), err)
		}
		if err := t.Err(); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Label(), err)
		}
	}
	for _, out := range src.Outputs {
		t.inPlain(out.Name)
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	t.G.Prune()
	return t, t.G.Verify()
}

// tuner copies a graph, node by node. A tensor of src may exist in the copy
// under its own name, in the layout of src (plain), or as [H W N C] (wide), or both.
type tuner struct {
	*onnx.Builder
	src     *onnx.Graph
	sizes   []int // outputs of the algorithms to choose from
	wide    map[string]string
	plain   map[string]bool
	weights int64 // numbers that the transformed weights hold
}

func (t *tuner) node(n *onnx.Node) error {
	if n.Domain == "" {
		switch {
		case n.Op == "Conv":
			if done, err := t.conv(n); done || err != nil {
				return err
			}
		case n.Op == "BatchNormalization" && t.isWide(n.Inputs[0]):
			if t.batchNormalization(n) {
				return nil
			}
		case slices.Contains(pointwise, n.Op) && slices.ContainsFunc(n.Inputs, t.isWide):
			if t.pointwise(n) {
				return nil
			}
		}
	}
	for _, in := range n.Inputs {
		t.inPlain(in)
	}
	c := n.Clone()
	t.Append(c)
	for _, o := range c.Outputs {
		t.plain[o] = true
	}
	return nil
}
