package bounds

import (
	"slices"

	"selfheal/models/onnx"
)

// gatedBy is a node x·gate(x).
type gatedBy struct {
	x string
	activation
}

// joinedBy is a product and its stage's input.
type joinedBy struct {
	*product
	joined string
}

// multiplied finds the nodes that multiply two tensors which depend on the network's input.
func (n *Network) multiplied() (map[*onnx.Node]gatedBy, map[*onnx.Node]joinedBy) {
	gate, products := map[*onnx.Node]gatedBy{}, map[*onnx.Node]joinedBy{}
	_, active := n.graph.Reached(n.input)
	for _, node := range slices.Clone(n.graph.Nodes) {
		if node.Op != "Mul" || !active[node.Inputs[0]] || !active[node.Inputs[1]] {
			continue
		}
		if x, f, ok := gated(n.graph, node); ok {
			gate[node] = gatedBy{x, f}
		} else if p, joined := newProduct(n.graph, slices.Index(n.graph.Nodes, node)); p != nil {
			products[node] = joinedBy{p, joined}
		}
	}
	return gate, products
}

// relay puts an Identity, which becomes a stage, behind each matrix product that affine operators read. The error of a
// product of thousands of terms is then charged there with the coefficients that it has, instead of being carried on by
// their absolute values, which in a projection's second product are much larger.
func (n *Network) relay() map[*onnx.Node]bool {
	relays := map[*onnx.Node]bool{}
	_, active := n.graph.Reached(n.input)
	for _, node := range slices.Clone(n.graph.Nodes) {
		if !active[node.Outputs[0]] || node.Op != "MatMul" && node.Op != "Gemm" || n.graph.IsOutput(node.Outputs[0]) {
			continue
		}
		y := node.Outputs[0]
		readers := n.graph.Consumers()[y]
		read := slices.ContainsFunc(readers, func(reader *onnx.Node) bool {
			_, affine := affineOf(n.graph, reader, active)
			return affine
		})
		if row, ok := affineOf(n.graph, node, active); !ok || !read {
			continue
		} else if forward, backward := row.terms(n.graph, node); max(forward, backward) < manyTerms {
			continue
		}
		at := slices.Index(n.graph.Nodes, node) + 1
		rest := n.graph.Nodes[at:]
		n.graph.Nodes = slices.Clone(n.graph.Nodes[:at])
		z := (&onnx.Builder{G: n.graph, Prefix: y + "/"}).Op("Identity", y)
		relays[n.graph.Nodes[at]], active[z] = true, true
		for _, reader := range readers {
			for i, in := range reader.Inputs {
				if in == y {
					reader.Inputs[i] = z
				}
			}
		}
		n.graph.Nodes = append(n.graph.Nodes, rest...)
	}
	return relays
}

// manyTerms is from how many terms on a product's error is charged where it is made.
const manyTerms = 256

// relayed is the identity as a stage.
var relayed = activation{
	f:     func(x float64) float64 { return x },
	bends: func(l, u float64) bool { return l < u },
	lines: func(l, u float64) (lower, upper line) { return line{a: 1}, line{a: 1} },
}

// repeats bounds how many values of a node's output are one value of an input.
func repeats(g *onnx.Graph, n *onnx.Node, active map[string]bool) int64 {
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
