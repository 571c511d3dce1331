package simplify

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// fuse finds what exporters write for operators that their operator set lacked,
// Gelu by its erf and LayerNormalization by its means, and puts those operators
// back: they take half the passes over the data, and so do their gradients.
// What they leave behind is pruned.
func (s *simplifier) fuse() {
	s.writes, s.reads = s.g.Producers(), s.g.Consumers()
	for _, n := range s.g.Nodes {
		switch n.Op {
		case "Erf":
			s.fuseGelu(n)
		case "Sqrt":
			s.fuseLayerNorm(n)
		}
	}
}

// number returns the value of a constant of one float.
func (s *simplifier) number(name string) (float64, bool) {
	if t, ok := s.g.Consts[name]; ok && t.DType == onnx.Float && len(t.Floats) == 1 {
		return float64(t.Floats[0]), true
	}
	return 0, false
}

// with returns x where n computes x op v, or v op x for an operator that
// commutes, for a constant v close to one of the given values; else "".
func (s *simplifier) with(n *onnx.Node, op string, values ...float64) string {
	if n == nil || n.Op != op || len(n.Inputs) != 2 {
		return ""
	}
	for i, in := range n.Inputs {
		if v, ok := s.number(in); ok && (i == 1 || op == "Mul" || op == "Add") {
			for _, want := range values {
				if math.Abs(v-want) <= 1e-5*want {
					return n.Inputs[1-i]
				}
			}
		}
	}
	return ""
}

// fuseGelu recognises ½·x·(1 + erf(x/√2)), the products in any order.
func (s *simplifier) fuseGelu(erf *onnx.Node) {
	in := s.writes[erf.Inputs[0]]
	x := s.with(in, "Div", math.Sqrt2)
	if x == "" {
		x = s.with(in, "Mul", math.Sqrt(0.5))
	}
	if x == "" {
		return
	}
	half := func(n *onnx.Node) string {
		if t := s.with(n, "Mul", 0.5); t != "" {
			return t
		}
		return s.with(n, "Div", 2)
	}
	for _, plus := range s.reads[erf.Outputs[0]] {
		if s.with(plus, "Add", 1) != erf.Outputs[0] {
			continue
		}
		sum := plus.Outputs[0]
		for _, n := range s.reads[sum] {
			if half(n) == sum { // (½·sum)·x
				for _, last := range s.reads[n.Outputs[0]] {
					s.asGelu(last, n.Outputs[0], x, x)
				}
				continue
			}
			for _, in := range n.Inputs { // (½·x)·sum
				if half(s.writes[in]) == x {
					s.asGelu(n, sum, in, x)
				}
			}
			if n.Op == "Mul" && slices.Contains(n.Inputs, x) { // (x·sum)·½
				for _, last := range s.reads[n.Outputs[0]] {
					if half(last) == n.Outputs[0] {
						s.replace(last, "Gelu", nil, x)
					}
				}
			}
		}
	}
}

// asGelu makes n, where it is a·b, the Gelu of x.
func (s *simplifier) asGelu(n *onnx.Node, a, b, x string) {
	if n.Op == "Mul" && (n.Inputs[0] == a && n.Inputs[1] == b || n.Inputs[0] == b && n.Inputs[1] == a) {
		s.replace(n, "Gelu", nil, x)
	}
}

// replace turns a node into another with the same output.
func (s *simplifier) replace(n *onnx.Node, op string, attrs onnx.Attrs, inputs ...string) {
	n.Op, n.Attrs, n.Inputs = op, attrs, inputs
	if op == "Gelu" {
		s.g.Opset = max(s.g.Opset, geluOpset)
	}
}

// geluOpset is the first operator set that has Gelu.
const geluOpset = 20

// meanOf is a ReduceMean that keeps its axes.
type meanOf struct {
	in   string
	axes []int64
}

// fuseLayerNorm recognises (x − mean x)/√(mean (x − mean x)² + ε), then perhaps
// ·γ and + β, over the last axes.
func (s *simplifier) fuseLayerNorm(root *onnx.Node) {
	sum := s.writes[root.Inputs[0]]
	if sum == nil || sum.Op != "Add" {
		return
	}
	for i, in := range sum.Inputs {
		epsilon, ok := s.number(sum.Inputs[1-i])
		variance, mean := s.means[in], meanOf{}
		square := s.writes[variance.in]
		if !ok || square == nil || square.Op != "Mul" || square.Inputs[0] != square.Inputs[1] {
			continue
		}
		centred := square.Inputs[0]
		if d := s.writes[centred]; d != nil && d.Op == "Sub" {
			if mean = s.means[d.Inputs[1]]; mean.in != d.Inputs[0] {
				continue
			}
		}
		x := s.g.Shapes[mean.in]
		first := len(x) - len(mean.axes)
		if mean.in == "" || !slices.Equal(mean.axes, variance.axes) || int(mean.axes[0]) != first {
			continue
		}
		for _, n := range s.reads[root.Outputs[0]] {
			if n.Op == "Div" && n.Inputs[0] == centred && n.Inputs[1] == root.Outputs[0] {
				s.asLayerNorm(n, mean.in, first, float32(epsilon))
			}
		}
	}
}

// asLayerNorm replaces n, which standardises x over the axes from first on, and
// the product and sum with constants behind it.
func (s *simplifier) asLayerNorm(n *onnx.Node, x string, first int, epsilon float32) {
	over := s.g.Shapes[x][first:]
	if over.Items() > maxFold {
		return
	}
	// by finds the one reader of n's output that applies op with a constant over those axes.
	by := func(n *onnx.Node, op string) (*onnx.Node, string) {
		next := s.reads[n.Outputs[0]]
		if len(next) != 1 || next[0].Op != op || s.g.IsOutput(n.Outputs[0]) {
			return nil, ""
		}
		for i, in := range next[0].Inputs {
			if t, ok := s.g.Consts[in]; ok && next[0].Inputs[1-i] == n.Outputs[0] && slices.Equal(t.Shape, over) {
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
		inputs[1] = s.g.AddConst(n.Outputs[0]+"/scale", onnx.Filled(1, slices.Clone(over)...))
	}
	s.replace(n, "LayerNormalization", onnx.Attrs{"axis": first, "epsilon": epsilon}, inputs...)
}
