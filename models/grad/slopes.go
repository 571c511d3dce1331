package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// Backward pass differentiable approximation (Athalye et al. 2018, section 4.1): slopes for operators whose derivative
// is 0 or stops where they saturate. They are no derivatives; what is found along them counts only where the network's
// own answer confirms it.
//
//	sign, rounding, casts to integers: x̄ = g
//	quantisation: x̄ = g/scale, also where it saturates; Clip: x̄ = g, also outside
//	a > b and its kin: ā = −b̄ = g/(1 + 10·|a − b|)², as for spiking networks (Zenke & Ganguli 2018)
//	cond ? a : b: as its rule, and the condition's cotangent is g·(a − b)
var slopes map[string]Rule

func init() { // init breaks the cycle slopes → Backward → slopes
	compared := func(sign string) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string {
			d := c.Op("Add", c.Op("Mul", c.Op("Abs", c.Op("Sub", n.Inputs[0], n.Inputs[1])), c.Float(10)), c.Float(1))
			g := c.Op(sign, c.Op("Div", gy[0], c.Op("Mul", d, d)))
			return []string{g, c.Op("Neg", g)}
		}
	}
	above, below := compared("Identity"), compared("Neg")
	slopes = map[string]Rule{
		"Sign": identity, "Round": identity, "Floor": identity, "Ceil": identity, "Cast": identity,
		"Greater": above, "GreaterOrEqual": above, "Less": below, "LessOrEqual": below,
		"Not":  func(c *Context, _ *onnx.Node, gy []string) []string { return []string{c.Op("Neg", gy[0])} },
		"Clip": identity,
		"QuantizeLinear": func(c *Context, n *onnx.Node, gy []string) []string {
			scale, ok := c.G.Consts[n.Input(1)]
			onnx.Require(ok, "its scale must be constant")
			shape := onnx.PerAxis(n, c.Shape(n.Inputs[0]), scale.Shape.Items())
			return []string{c.Op("Div", gy[0], c.Const(onnx.FloatTensor(shape, scale.Floats)))}
		},
		"Where": func(c *Context, n *onnx.Node, gy []string) []string {
			gx := where(c, n, gy)
			if c.needs(n, 0) {
				gx[0] = c.Op("Mul", gy[0], c.Op("Sub", n.Inputs[1], n.Inputs[2]))
			}
			return gx
		},
	}
}

// Sloped returns a node's slope, or the gradient's rule where it has none.
func Sloped(n *onnx.Node) (rule Rule, ends bool) {
	if rule = slopes[n.Op]; rule != nil && n.Domain == "" {
		return rule, false
	}
	return Differentiation(n)
}

// HasSlope reports whether an operator has a slope.
func HasSlope(op string) bool { return slopes[op] != nil }

// Slopes lists the nodes between a network's input and its first output that [Sloped] gives a slope.
func Slopes(net *onnx.Graph) (nodes []*onnx.Node) {
	path, active := net.Reached(net.Inputs[0].Name)
	need := map[string]bool{net.Outputs[0].Name: true}
	for _, n := range slices.Backward(path) {
		if !slices.ContainsFunc(n.Outputs, func(o string) bool { return need[o] }) {
			continue
		}
		for _, in := range n.Inputs {
			need[in] = need[in] || active[in]
		}
		if HasSlope(n.Op) && n.Domain == "" && (n.Op != "Where" || active[n.Inputs[0]]) {
			nodes = append(nodes, n)
		}
	}
	slices.Reverse(nodes)
	return nodes
}
