package grad

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// Backward pass differentiable approximation (Athalye et al. 2018, section 4.1): slopes for operators whose derivative
// is 0 or stops where they saturate. They are no derivatives; what is found along them counts only where the network's
// own answer confirms it.
//
//	sign, rounding, casts to integers: x̄ = g
//	Clip, HardSigmoid, quantisation: as inside their range, and at a distance d outside divided by (1 + 10·d)²; a Clip
//	with one bound, a ReLU, has its derivative
//	sigmoid and tanh: x̄ = g/(2 + |x|)² and g/(1 + |x|)², which do not underflow
//	softmax: that of softmax(x/t), whose two largest lie at most 10 apart
//	a > b and its kin: ā = −b̄ = g/(1 + 10·|a − b|)², as for spiking networks (Zenke & Ganguli 2018)
//	a = b: ā = −b̄ = −g·sign(a − b)/(1 + 10·|a − b|)²
//	a and b: ā = g·b; a or b: ā = g·(1 − b)
//	cond ? a : b: as its rule, and the condition's cotangent is g·(a − b)
//	the place of the largest: x̄ = g·p·(k − Σ p·k)/t with p = softmax(x/t) over the places k, as if it were
//	their mean
//	one-hot codes of i: ī = (g at i + 1 − g at i − 1)/2, as between levels in order; at an end, i is its own
//	neighbour
//	rows t of a table at i: ī = Σ g·(tᵢ₊₁ − tᵢ₋₁)/2, likewise
//	a mod b, where it is taken from a, which rounds a down: 0
//	integers times and divided by a constant: as of floats
//	bits shifted by k: as of a product by 2ᵏ; bits that a mask keeps: x̄ = g; bits turned over: x̄ = −g
var slopes map[string]Rule

func init() { // init breaks the cycle slopes → Backward → slopes
	float := func(c *Context, t string) string { return c.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, t) }
	// over emits g/(a + b·|x|)².
	over := func(c *Context, g, x string, a, b float32) string {
		d := c.Op("Add", c.Op("Mul", c.Op("Abs", x), c.Float(b)), c.Float(a))
		return c.Op("Div", g, c.Op("Mul", d, d))
	}
	saturating := func(a float32) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string {
			return []string{over(c, gy[0], n.Inputs[0], a, 1)}
		}
	}
	compared := func(sign func(c *Context, g, d string) string) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string {
			d := c.Op("Sub", float(c, n.Inputs[0]), float(c, n.Inputs[1]))
			g := sign(c, over(c, gy[0], d, 1, 10), d)
			return []string{g, c.Op("Neg", g)}
		}
	}
	// outside divides g by (1 + 10·|d|)², where d is how far a node's input lies outside of its range.
	outside := func(c *Context, g, d string) []string { return []string{over(c, g, d, 1, 10)} }
	above := compared(func(_ *Context, g, _ string) string { return g })
	below := compared(func(c *Context, g, _ string) string { return c.Op("Neg", g) })
	equal := compared(func(c *Context, g, d string) string { return c.Op("Neg", c.Op("Mul", g, c.Op("Sign", d))) })
	joined := func(weight func(c *Context, other string) string) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string {
			return c.by(n, func() string { return c.Op("Mul", gy[0], weight(c, float(c, n.Inputs[1]))) },
				func() string { return c.Op("Mul", gy[0], weight(c, float(c, n.Inputs[0]))) })
		}
	}
	// tempered emits softmax(x/t) along an axis, and t.
	tempered := func(c *Context, x string, axis int64) (p, t string) {
		t = c.Float(1)
		if at := int(axis+int64(len(c.Shape(x)))) % len(c.Shape(x)); c.Shape(x)[at] > 1 {
			two := c.Multi("TopK", onnx.Attrs{"axis": axis}, 2, x, c.Ints(2))[0]
			gap := c.Op("Sub", c.pick(two, at, []int64{0}), c.pick(two, at, []int64{1}))
			t = c.Op("Clip", c.Op("Mul", gap, c.Float(0.1)), c.Float(1), c.Float(1e6))
		}
		return c.OpWith("Softmax", onnx.Attrs{"axis": axis}, c.Op("Div", x, t)), t
	}
	placed := func(sign string) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string {
			shape, g := c.Shape(n.Inputs[0]), gy[0]
			axis := n.Axis()
			if axis < 0 {
				axis += int64(len(shape))
			}
			if n.Int("keepdims", 1) == 0 {
				g = c.Op("Unsqueeze", g, c.Ints(axis))
			}
			column := slices.Repeat(onnx.Shape{1}, len(shape)-int(axis))
			column[0] = shape[axis]
			places := onnx.FloatTensor(column, make([]float32, shape[axis]))
			for k := range places.Floats {
				places.Floats[k] = float32(k)
			}
			at := c.Const(places)
			p, t := tempered(c, c.Op(sign, n.Inputs[0]), axis)
			mean := c.Sum(c.Op("Mul", p, at), []int64{axis})
			return []string{c.Op(sign, c.Op("Div", c.Op("Mul", c.Op("Mul", g, p), c.Op("Sub", at, mean)), t))}
		}
	}
	// scaled is the rule of a product or a quotient, in which constant integers count as floats.
	scaled := func(op string, rule Rule) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string {
			for i, in := range n.Inputs {
				if t, ok := c.G.Consts[in]; ok && t.DType != onnx.Float && !(op == "Div" && i == 0) {
					g := c.Op(op, gy[0], float(c, in))
					return c.by(n, func() string { return g }, func() string { return g })
				}
			}
			return rule(c, n, gy)
		}
	}
	// both takes bits that a mask keeps for the number itself.
	both := func(c *Context, n *onnx.Node, gy []string) []string {
		return c.by(n, func() string { return gy[0] }, func() string { return gy[0] })
	}
	slopes = map[string]Rule{
		"Mul": scaled("Mul", mul), "Div": scaled("Div", div),
		"Mod": func(c *Context, n *onnx.Node, gy []string) []string {
			if takenOff(c.G, n) {
				return []string{"", ""}
			}
			return mod(c, n, gy)
		},
		"Gather": func(c *Context, n *onnx.Node, gy []string) []string {
			t, ok := c.G.Consts[n.Inputs[0]]
			if !ok || len(t.Floats) == 0 || n.AxisOf(len(t.Shape)) != 0 {
				return ruleOf("Gather")(c, n, gy)
			}
			rows, per := int(t.Shape[0]), len(t.Floats)/int(t.Shape[0])
			rises := make([]float32, len(t.Floats))
			for i := range rises {
				later, sooner := min(i/per+1, rows-1)*per+i%per, max(i/per-1, 0)*per+i%per
				rises[i] = (t.Floats[later] - t.Floats[sooner]) / 2
			}
			places := c.Shape(n.Inputs[1])
			g := c.Op("Mul", gy[0], c.Op("Gather", c.Const(onnx.FloatTensor(t.Shape, rises)), n.Inputs[1]))
			if axes := onnx.Range(len(places), len(places)+len(t.Shape)-1); len(axes) > 0 {
				g = c.Op("Squeeze", c.Sum(g, axes), c.Ints(axes...))
			}
			return []string{"", g}
		},
		"BitShift": func(c *Context, n *onnx.Node, gy []string) []string {
			op := map[string]string{"RIGHT": "Div", "LEFT": "Mul"}[n.Str("direction", "")]
			by, ok := c.G.Consts[n.Inputs[1]]
			onnx.Require(ok && op != "", "it must shift by constants")
			powers := onnx.FloatTensor(by.Shape, nil)
			for _, k := range by.Ints {
				powers.Floats = append(powers.Floats, float32(math.Ldexp(1, int(k))))
			}
			return []string{c.Op(op, gy[0], c.Const(powers)), ""}
		},
		"BitwiseAnd": both, "BitwiseOr": both, "BitwiseXor": both,
		"BitwiseNot": func(c *Context, _ *onnx.Node, gy []string) []string { return []string{c.Op("Neg", gy[0])} },
		"Sign":       identity, "Round": identity, "Floor": identity, "Ceil": identity, "Cast": identity,
		"Greater": above, "GreaterOrEqual": above, "Less": below, "LessOrEqual": below, "Equal": equal,
		"And":    joined(func(_ *Context, other string) string { return other }),
		"Or":     joined(func(c *Context, other string) string { return c.Op("Sub", c.Float(1), other) }),
		"ArgMax": placed("Identity"), "ArgMin": placed("Neg"),
		"Sigmoid": saturating(2), "Tanh": saturating(1),
		"Softmax": func(c *Context, n *onnx.Node, gy []string) []string {
			p, t := tempered(c, n.Inputs[0], n.Axis())
			inner := c.Sum(c.Op("Mul", gy[0], p), []int64{n.Axis()})
			return []string{c.Op("Div", c.Op("Mul", p, c.Op("Sub", gy[0], inner)), t)}
		},
		"HardSigmoid": func(c *Context, n *onnx.Node, gy []string) []string {
			alpha, beta := n.Float("alpha", 0.2), n.Float("beta", 0.5)
			y := c.Op("Add", c.Op("Mul", n.Inputs[0], c.Float(alpha)), c.Float(beta))
			return outside(c, c.Op("Mul", gy[0], c.Float(alpha)), c.Op("Sub", y, n.Outputs[0]))
		},
		"OneHot": func(c *Context, n *onnx.Node, gy []string) []string {
			values, ok := c.G.Consts[n.Inputs[2]]
			onnx.Require(ok && len(values.Floats) == 2, "its values must be constant floats")
			last := len(c.Shape(n.Outputs[0])) - 1
			end := int(c.Shape(n.Outputs[0])[last]) - 1
			near := c.OpWith("OneHot", onnx.Attrs{"axis": int64(-1)}, n.Inputs[0], n.Inputs[1],
				c.Const(onnx.FloatTensor(onnx.Shape{2}, []float32{0, (values.Floats[1] - values.Floats[0]) / 2})))
			at := func(places ...int64) string {
				return c.OpWith("Gather", onnx.Attrs{"axis": int64(last)}, gy[0], c.Ints(places...))
			}
			later := at(append(onnx.Range(1, end+1), int64(end))...)
			sooner := at(append([]int64{0}, onnx.Range(0, end)...)...)
			sum := c.Sum(c.Op("Mul", near, c.Op("Sub", later, sooner)), []int64{int64(last)})
			return []string{c.Op("Squeeze", sum, c.Ints(int64(last)))}
		},
		"Not": func(c *Context, _ *onnx.Node, gy []string) []string { return []string{c.Op("Neg", gy[0])} },
		"Clip": func(c *Context, n *onnx.Node, gy []string) []string {
			if saturates(c.G, n) {
				return outside(c, gy[0], c.Op("Sub", n.Inputs[0], n.Outputs[0]))
			}
			return clip(c, n, gy)
		},
		"QuantizeLinear": func(c *Context, n *onnx.Node, gy []string) []string {
			q := c.quantised(n)
			nearest := c.Op("Max", c.Op("Min", q.x, q.hi), q.lo)
			d := c.Op("Mul", c.Op("Sub", q.x, nearest), q.scale)
			return outside(c, c.Op("Div", gy[0], q.scale), d)
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

// saturates reports whether a Clip has two bounds that an input may cross.
func saturates(g *onnx.Graph, n *onnx.Node) bool {
	lo, ok1 := g.Consts[n.Input(1)]
	hi, ok2 := g.Consts[n.Input(2)]
	if ok1 && ok2 && len(lo.Floats) == 1 && len(hi.Floats) == 1 && lo.Floats[0] >= hi.Floats[0] { // a constant
		return false
	}
	return crossed(n.Input(1), lo, -1) && crossed(n.Input(2), hi, 1)
}

// takenOff reports whether the remainder of a Mod is taken from its dividend.
func takenOff(g *onnx.Graph, n *onnx.Node) bool {
	return slices.ContainsFunc(g.Nodes, func(by *onnx.Node) bool {
		return by.Op == "Sub" && by.Inputs[0] == n.Inputs[0] && by.Inputs[1] == n.Outputs[0]
	})
}

// Slopes lists the nodes between a network's input and its first output that [Sloped] gives a slope.
func Slopes(net *onnx.Graph) (nodes []*onnx.Node) {
	path, active := net.Reached(net.Inputs[0].Name)
	need := map[string]bool{net.Outputs[0].Name: true}
	for _, n := range slices.Backward(path) {
		if !slices.ContainsFunc(n.Outputs, func(o string) bool { return need[o] }) {
			continue
		}
		for i, in := range n.Inputs {
			index := i == 1 && (n.Op == "GatherElements" || n.Op == "ScatterElements")
			need[in] = need[in] || active[in] && !index
		}
		own := false // as its derivative
		switch n.Op {
		case "Where":
			own = !active[n.Inputs[0]]
		case "Clip":
			own = !saturates(net, n)
		case "Gather":
			own = !active[n.Inputs[1]]
		case "Mod":
			own = !takenOff(net, n)
		case "Mul", "Div": // of integers, behind a Cast
			own = true
		}
		if HasSlope(n.Op) && n.Domain == "" && !own {
			nodes = append(nodes, n)
		}
	}
	slices.Reverse(nodes)
	return nodes
}
