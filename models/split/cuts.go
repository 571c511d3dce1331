// Package split cuts a feed-forward network into a chain of segments F_0 … F_{T−1} that compose to it: the dynamical
// system x_{t+1} = F_t(x_t) that the closed-loop controller works on. [Cuts] lists the possible cuts, [Boundaries]
// chooses the default ones, and [At] makes the segments. It finds boundaries by structure, never by names.
package split

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/graph/flow"
	"gonum.org/v1/gonum/graph/simple"

	"selfheal/internal/suggest"
	"selfheal/models/onnx"
)

// Cuts returns the tensors that every path from the input to the output passes through, in that order, without the
// input and the output: the dominators of the output in the graph of tensors whose first dimension is the batch. The
// network can be cut at each of them. g is a simplified graph.
func Cuts(g *onnx.Graph) []string {
	x, d := g.Inputs[0].Name, simple.NewDirectedGraph()
	tensors, id := []string{x}, map[string]int64{x: 0} // tensors that depend on the input
	d.AddNode(simple.Node(0))
	nodes, _ := g.Reached(x)
	for _, n := range nodes {
		for _, o := range n.Outputs {
			id[o] = int64(len(tensors))
			tensors = append(tensors, o)
			for _, in := range n.Inputs {
				if from, ok := id[in]; ok && in != "" {
					d.SetEdge(simple.Edge{F: simple.Node(from), T: simple.Node(id[o])})
				}
			}
		}
	}
	tree := flow.Dominators(simple.Node(0), d)
	var cuts []string
	at := tree.DominatorOf(id[g.Outputs[0].Name])
	for ; at != nil && at.ID() != 0; at = tree.DominatorOf(at.ID()) {
		// A state must have the batch in front: otherwise (in some transformers) it can't be controlled.
		if s := g.Shapes[tensors[at.ID()]]; len(s) > 0 && s[0] == onnx.Batch {
			cuts = append(cuts, tensors[at.ID()])
		}
	}
	slices.Reverse(cuts)
	return cuts
}

// Boundaries returns the default boundaries, in order:
//   - the first Conv's output
//   - each residual join's Add, or its activation where that is the Add's only consumer
//   - the linear bottleneck that ends a block without a shortcut (MobileNetV2, EfficientNet)
//   - the input of the final Gemm or MatMul
//
// Tensors that are no cuts are left out. A network with none of these blocks can still be cut at any of its [Cuts].
func Boundaries(g *onnx.Graph) []string {
	_, depends := g.Reached(g.Inputs[0].Name)
	chosen := map[string]bool{}
	consumers, producers := g.Consumers(), g.Producers()
	first := true
	for _, n := range g.Nodes {
		switch {
		case n.Op == "Conv" && first && depends[n.Outputs[0]]:
			first = false
			chosen[n.Outputs[0]] = true
		case n.Op == "Add" && depends[n.Input(0)] && depends[n.Input(1)]:
			out := n.Outputs[0]
			if next := consumers[out]; len(next) == 1 && onnx.TraitsOf(next[0].Op).Gain > 0 {
				out = next[0].Outputs[0]
			}
			chosen[out] = true
		case linear(n, producers) &&
			slices.ContainsFunc(consumers[n.Outputs[0]], func(c *onnx.Node) bool { return c.Op == "Conv" }):
			chosen[n.Outputs[0]] = true
		}
	}
	if last, err := Last(g); err == nil {
		chosen[last] = true
	}
	return slices.DeleteFunc(Cuts(g), func(t string) bool { return !chosen[t] })
}

// linear reports whether a node returns a convolution's result without an activation: if a convolution reads it, it is
// a bottleneck between two blocks.
func linear(n *onnx.Node, producers map[string]*onnx.Node) bool {
	if n.Op == "BatchNormalization" {
		n = producers[n.Inputs[0]]
	}
	return n != nil && n.Op == "Conv"
}

// Last returns the tensor that enters the final Gemm or MatMul: the pooled features, [N, 512] in a ResNet-18.
func Last(g *onnx.Graph) (string, error) {
	cuts := Cuts(g)
	for _, n := range slices.Backward(g.Nodes) {
		if (n.Op == "Gemm" || n.Op == "MatMul") && slices.Contains(cuts, n.Input(0)) {
			return n.Input(0), nil
		}
	}
	return "", fmt.Errorf("has no final Gemm or MatMul, so no boundary %q; name a cut tensor instead", "last")
}

// At cuts the network at the given tensors and returns len(boundaries)+1 segments. The boundaries must be different cut
// tensors, in order. The input of segment t is named after the boundary before it, its output after the boundary behind
// it. A segment that reads further inputs of g has them as well. Constants are shared with g.
func At(g *onnx.Graph, boundaries []string) ([]*onnx.Graph, error) {
	cuts := Cuts(g)
	at := -1
	for _, b := range boundaries {
		i := slices.Index(cuts, b)
		if i < 0 {
			return nil, fmt.Errorf("%q is not a tensor at which the network can be cut%s", b,
				suggest.Or(b, "cut tensors", cuts))
		}
		if i <= at {
			return nil, fmt.Errorf("boundary %q is out of order or named twice", b)
		}
		at = i
	}
	writers := map[string]int{}
	for i, n := range g.Nodes {
		for _, o := range n.Outputs {
			writers[o] = i
		}
	}
	from := g.Inputs[0]
	var segments []*onnx.Graph
	for t := range len(boundaries) + 1 {
		to := g.Outputs[0]
		if t < len(boundaries) {
			to = onnx.Value{Name: boundaries[t], DType: onnx.Float, Shape: g.Shapes[boundaries[t]]}
		}
		if len(to.Shape) == 0 || to.Shape[0] != onnx.Batch {
			return nil, fmt.Errorf("%q has shape %v, without the batch in front", to.Name, to.Shape)
		}
		s := segment(g, writers, from, to)
		s.Name = fmt.Sprintf("%s/F%d", g.Name, t)
		if err := s.Verify(); err != nil {
			return nil, fmt.Errorf("segment %d: %w", t, err)
		}
		segments = append(segments, s)
		from = to
	}
	return segments, nil
}

// segment copies the part of g between from and to. It visits no other part: a network may have thousands of nodes.
// writers maps tensors to the indices of the nodes that write them.
func segment(g *onnx.Graph, writers map[string]int, from, to onnx.Value) *onnx.Graph {
	var part []int
	seen := map[int]bool{}
	for open := []string{to.Name}; len(open) > 0; {
		name := open[len(open)-1]
		open = open[:len(open)-1]
		if i, ok := writers[name]; ok && name != "" && name != from.Name && !seen[i] {
			seen[i], part, open = true, append(part, i), append(open, g.Nodes[i].Inputs...)
		}
	}
	slices.Sort(part)
	s := *g
	s.Inputs, s.Outputs, s.Meta, s.Notices = []onnx.Value{from}, []onnx.Value{to}, map[string]string{}, nil
	s.Nodes, s.Consts, s.Shapes = nil, map[string]*onnx.Tensor{}, map[string]onnx.Shape{}
	for _, in := range g.Inputs[1:] {
		if slices.ContainsFunc(part, func(i int) bool { return slices.Contains(g.Nodes[i].Inputs, in.Name) }) {
			s.Inputs = append(s.Inputs, in)
		}
	}
	for _, i := range part {
		n := g.Nodes[i].Clone()
		s.Nodes = append(s.Nodes, n)
		for _, name := range slices.Concat(n.Inputs, n.Outputs) {
			if c, ok := g.Consts[name]; ok {
				s.Consts[name] = c
			}
			if shape, ok := g.Shapes[name]; ok {
				s.Shapes[name] = shape
			}
		}
	}
	return &s
}
