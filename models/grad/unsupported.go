package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// unsupported returns an [onnx.UnsupportedError] about the nodes between the
// seeds and wrt that have no rule. path are the nodes that depend on wrt, in order.
func (c *Context) unsupported(path []*onnx.Node, seeds map[string][]string) error {
	reached := map[string]bool{}
	for t := range seeds {
		reached[t] = true
	}
	var missing []*onnx.Node
	for _, n := range slices.Backward(path) {
		meets := slices.ContainsFunc(n.Outputs, func(o string) bool { return reached[o] })
		if !meets || onnx.TraitsOf(n.Op).Discrete() {
			continue
		}
		if !HasRule(n.Op) {
			missing = append(missing, n)
		}
		for _, in := range n.Inputs {
			if c.active[in] {
				reached[in] = true
			}
		}
	}
	slices.Reverse(missing)
	return onnx.Unsupported("no gradient rule for", missing)
}

// Check returns an [onnx.UnsupportedError] that names every node of a
// simplified network between its input and its first output without a gradient
// rule, nil where there is none. It is quick: it derives nothing.
func Check(net *onnx.Graph) error {
	c := &Context{active: map[string]bool{net.Inputs[0].Name: true}}
	var path []*onnx.Node
	for _, n := range net.Nodes {
		if slices.ContainsFunc(n.Inputs, func(in string) bool { return c.active[in] }) {
			path = append(path, n)
			for _, o := range n.Outputs {
				c.active[o] = o != ""
			}
		}
	}
	return c.unsupported(path, map[string][]string{net.Outputs[0].Name: nil})
}
