package bounds

import (
	"slices"

	"selfheal/models/onnx"
)

// insert has a builder append to a graph in front of the node at a place.
func insert(g *onnx.Graph, at int, prefix string, build func(b *onnx.Builder) string) string {
	rest := slices.Clone(g.Nodes[at:])
	g.Nodes = g.Nodes[:at:at]
	tensor := build(&onnx.Builder{G: g, Prefix: prefix + "/"})
	g.Nodes = append(g.Nodes, rest...)
	return tensor
}

// multiplied gives the stages of nodes that multiply two tensors which depend on the network's input.
func (n *Network) multiplied() map[*onnx.Node]*stage {
	stages := map[*onnx.Node]*stage{}
	_, active := n.graph.Reached(n.input)
	for _, node := range slices.Clone(n.graph.Nodes) {
		if node.Op != "Mul" || !active[node.Inputs[0]] || !active[node.Inputs[1]] {
			continue
		}
		if x, f, ok := gated(n.graph, node); ok {
			stages[node] = &stage{target: target{tensor: x}, activation: f, place: slices.Index(node.Inputs, x)}
		} else if p, joined := newProduct(n.graph, slices.Index(n.graph.Nodes, node)); p != nil {
			stages[node] = &stage{target: target{tensor: joined}, product: p}
		}
	}
	return stages
}

// relay puts an Identity, which becomes a stage, behind each matrix product that affine operators read. The error of a
// product of thousands of terms is then charged there with the coefficients that it has, instead of being carried on by
// their absolute values, which in a projection's second product are much larger.
func (n *Network) relay(stages map[*onnx.Node]*stage) {
	_, active := n.graph.Reached(n.input)
	for _, node := range slices.Clone(n.graph.Nodes) {
		y := node.Outputs[0]
		if !active[y] || node.Op != "MatMul" && node.Op != "Gemm" || n.graph.IsOutput(y) {
			continue
		}
		read := slices.ContainsFunc(n.graph.Consumers()[y], func(reader *onnx.Node) bool {
			_, affine := affineOf(n.graph, reader, active)
			return affine
		})
		if row, ok := affineOf(n.graph, node, active); !ok || !read {
			continue
		} else if forward, backward := row.terms(n.graph, node); max(forward, backward) < manyTerms {
			continue
		}
		at := slices.Index(n.graph.Nodes, node) + 1
		z := insert(n.graph, at, y, func(b *onnx.Builder) string { return b.Op("Identity", y) })
		n.graph.Replace(y, z)
		relay := n.graph.Nodes[at]
		relay.Inputs[0], active[z] = y, true
		stages[relay] = &stage{target: target{tensor: y}, activation: relayed}
	}
}

// manyTerms is from how many terms on a product's error is charged where it is made.
const manyTerms = 256

// relayed is the identity as a stage.
var relayed = activation{
	f:     func(x float64) float64 { return x },
	bends: func(l, u float64) bool { return l < u },
	lines: func(l, u float64) (lower, upper line) { return line{a: 1}, line{a: 1} },
}

// repeated bounds how many values of a node's output are one value of an input.
func repeated(g *onnx.Graph, n *onnx.Node, active map[string]bool) int64 {
	y, most := int64(0), int64(1)
	for _, o := range n.Outputs {
		y += g.Shapes[o].Items()
	}
	switch {
	case n.Op == "Gather" || n.Op == "Pad" && n.Str("mode", "constant") != "constant":
		return y
	case n.Op == "Concat":
		return 1
	}
	for _, in := range n.Inputs {
		if active[in] {
			most = max(most, y/max(g.Shapes[in].Items(), 1))
		}
	}
	return most
}

// fold transposes constant matrices now: gradients, which unrolled solvers are made of, have them.
func fold(g *onnx.Graph) {
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool {
		c := g.Consts[n.Input(0)]
		if n.Op != "Transpose" || c == nil || len(c.Shape) != 2 || c.Floats == nil ||
			!slices.Equal(n.Ints("perm", []int64{1, 0}), []int64{1, 0}) {
			return false
		}
		rows, columns := c.Shape[0], c.Shape[1]
		turned := make([]float32, len(c.Floats))
		for i, v := range c.Floats {
			turned[int64(i)%columns*rows+int64(i)/columns] = v
		}
		g.Consts[n.Outputs[0]] = onnx.FloatTensor(onnx.Shape{columns, rows}, turned)
		return true
	})
}
