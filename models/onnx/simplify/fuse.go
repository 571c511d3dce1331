package simplify

import (
	"cmp"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// fuse finds what exporters write for operators that their operator set lacked, Gelu by its erf and LayerNormalization
// by its means, and puts those operators back: they take half the passes over the data, and so do their gradients. It
// does so for Softmax and LogSoftmax, too, written out or as the logarithm of a Softmax: where their parts overflow or
// round to 0, gradients would be lost.
func fuse(g *onnx.Graph, means, totals map[string]reduced) {
	f := fuser{g, means, totals, g.Producers(), g.Consumers()}
	for _, n := range g.Nodes {
		switch n.Op {
		case "Erf":
			f.gelu(n)
		case "Sqrt":
			f.layerNorm(n)
		case "Div":
			f.softmax(n)
		case "Log":
			if p := f.writes[n.Inputs[0]]; p != nil && p.Op == "Softmax" {
				n.Op, n.Attrs, n.Inputs = "LogSoftmax", onnx.Attrs{"axis": p.Axis()}, p.Inputs
			}
		}
	}
}

type fuser struct {
	g      *onnx.Graph
	means  map[string]reduced // by what they write
	totals map[string]reduced
	writes map[string]*onnx.Node
	reads  map[string][]*onnx.Node
}

func (f fuser) number(name string) (float64, bool) {
	if t, ok := f.g.Consts[name]; ok && t.DType == onnx.Float && len(t.Floats) == 1 {
		return float64(t.Floats[0]), true
	}
	return 0, false
}

// with returns x where n computes x op v, or v op x for an operator that
// commutes, for a constant v close to the one given; else "".
func (f fuser) with(n *onnx.Node, op string, want float64) string {
	if n == nil || n.Op != op || len(n.Inputs) != 2 {
		return ""
	}
	for i, in := range n.Inputs {
		v, ok := f.number(in)
		if ok && (i == 1 || op == "Mul" || op == "Add") && math.Abs(v-want) <= 1e-6*want {
			return n.Inputs[1-i]
		}
	}
	return ""
}

// gelu recognises ½·x·(1 + erf(x/√2)), the products in any order.
func (f fuser) gelu(erf *onnx.Node) {
	in := f.writes[erf.Inputs[0]]
	x := cmp.Or(f.with(in, "Div", math.Sqrt2), f.with(in, "Mul", math.Sqrt(0.5)))
	if x == "" {
		return
	}
	half := func(n *onnx.Node) string { return cmp.Or(f.with(n, "Mul", 0.5), f.with(n, "Div", 2)) }
	product := func(n *onnx.Node, a, b string) bool {
		return n.Op == "Mul" && (n.Inputs[0] == a && n.Inputs[1] == b || n.Inputs[0] == b && n.Inputs[1] == a)
	}
	for _, plus := range f.reads[erf.Outputs[0]] {
		if f.with(plus, "Add", 1) != erf.Outputs[0] {
			continue
		}
		sum := plus.Outputs[0]
		for _, n := range f.reads[sum] {
			y := n.Outputs[0]
			halfOfX := func(in string) bool { return half(f.writes[in]) == x && product(n, sum, in) }
			for _, last := range append(slices.Clone(f.reads[y]), n) {
				if half(n) == sum && product(last, y, x) || product(n, sum, x) && half(last) == y ||
					last == n && slices.ContainsFunc(n.Inputs, halfOfX) {
					last.Op, last.Attrs, last.Inputs = "Gelu", nil, []string{x}
					f.g.Opset = max(f.g.Opset, 20) // the first that has it
				}
			}
		}
	}
}

// softmax recognises eˣ/Σ eˣ, the sum over one axis.
func (f fuser) softmax(n *onnx.Node) {
	e, total := f.writes[n.Inputs[0]], f.totals[n.Inputs[1]]
	if e != nil && e.Op == "Exp" && total.in == n.Inputs[0] && len(total.axes) == 1 {
		n.Op, n.Attrs, n.Inputs = "Softmax", onnx.Attrs{"axis": total.axes[0]}, e.Inputs
	}
}

// reduced is the input of a ReduceMean or ReduceSum that keeps its axes, and these.
type reduced struct {
	in   string
	axes []int64
}

// layerNorm recognises (x − mean x)/√(mean (x − mean x)² + ε), then perhaps ·γ and + β, over the last axes.
func (f fuser) layerNorm(root *onnx.Node) {
	sum := f.writes[root.Inputs[0]]
	if sum == nil || sum.Op != "Add" {
		return
	}
	for i, in := range sum.Inputs {
		epsilon, ok := f.number(sum.Inputs[1-i])
		variance, mean := f.means[in], reduced{}
		square := f.writes[variance.in]
		if !ok || square == nil || square.Op != "Mul" || square.Inputs[0] != square.Inputs[1] {
			continue
		}
		centred := square.Inputs[0]
		if d := f.writes[centred]; d != nil && d.Op == "Sub" {
			if mean = f.means[d.Inputs[1]]; mean.in != d.Inputs[0] {
				continue
			}
		}
		x := f.g.Shapes[mean.in]
		first := len(x) - len(mean.axes)
		if mean.in == "" || !slices.Equal(mean.axes, variance.axes) || int(mean.axes[0]) != first {
			continue
		}
		for _, n := range f.reads[root.Outputs[0]] {
			if n.Op == "Div" && n.Inputs[0] == centred && n.Inputs[1] == root.Outputs[0] {
				f.asLayerNorm(n, mean.in, first, float32(epsilon))
			}
		}
	}
}

// asLayerNorm replaces n, which standardises x over the axes from first on, and
// the product and sum with constants behind it.
func (f fuser) asLayerNorm(n *onnx.Node, x string, first int, epsilon float32) {
	over := f.g.Shapes[x][first:]
	if over.Items() > maxFold {
		return
	}
	// by finds the one reader of n's output that applies op with a constant over those axes.
	by := func(n *onnx.Node, op string) (*onnx.Node, string) {
		next := f.reads[n.Outputs[0]]
		if len(next) != 1 || next[0].Op != op || f.g.IsOutput(n.Outputs[0]) {
			return nil, ""
		}
		for i, in := range next[0].Inputs {
			if t, ok := f.g.Consts[in]; ok && next[0].Inputs[1-i] == n.Outputs[0] && slices.Equal(t.Shape, over) {
				return next[0], in
			}
		}
		return nil, ""
	}
	inputs := []string{x, ""}
	if next, scale := by(n, "Mul"); next != nil {
		n, inputs[1] = next, scale
		if next, bias := by(n, "Add"); next != nil {
			n, inputs = next, append(inputs, bias)
		}
	} else {
		inputs[1] = f.g.AddConst(n.Outputs[0]+"/scale", onnx.Filled(1, slices.Clone(over)...))
	}
	n.Op, n.Attrs, n.Inputs = "LayerNormalization", onnx.Attrs{"axis": first, "epsilon": epsilon}, inputs
}
