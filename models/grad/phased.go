package grad

import (
	"maps"

	"selfheal/models/onnx"
)

// Phased returns a graph with each transposed convolution of several groups and a stride, which OpenVINO runs group by
// group, as convolutions by phases where that form exists: ONNX Runtime runs large ones faster as they are.
func Phased(g *onnx.Graph) (*onnx.Graph, error) {
	out := *g
	out.Nodes, out.Consts, out.Shapes = nil, maps.Clone(g.Consts), maps.Clone(g.Shapes)
	b := &onnx.Builder{G: &out, Prefix: "phased/"}
	c := &Context{Builder: b}
	for _, n := range g.Nodes {
		if n.Op == "ConvTranspose" && len(n.Inputs) == 2 && n.Int("group", 1) > 1 {
			if w, ok := g.Consts[n.Inputs[1]]; ok {
				y := n.Outputs[0]
				win := sure(onnx.NodeWindow(n, w.Shape[2:]))(c)
				if x := convPhases(c, w, win, g.Shapes[y], n.Inputs[0], n.Int("group", 1)); x != "" {
					last := *out.Nodes[len(out.Nodes)-1]
					last.Outputs = []string{y}
					out.Nodes[len(out.Nodes)-1] = &last
					continue
				}
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	return &out, b.Err()
}
