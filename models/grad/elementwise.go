package grad

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

func identity(_ *Context, _ *onnx.Node, gy []string) []string { return gy[:1] }

// y = a + b: ā = b̄ = g
func add(_ *Context, _ *onnx.Node, gy []string) []string { return []string{gy[0], gy[0]} }

// y = a − b: ā = g, b̄ = −g
func sub(c *Context, n *onnx.Node, gy []string) []string {
	return c.by(n, func() string { return gy[0] }, func() string { return c.Op("Neg", gy[0]) })
}

// y = a·b: ā = g·b, b̄ = g·a. A square and a gate, x·σ(x), have forms of their own, see gate: networks spend much of
// their elementwise time on them.
func mul(c *Context, n *onnx.Node, gy []string) []string {
	if n.Inputs[0] == n.Inputs[1] {
		half := c.Op("Mul", gy[0], n.Inputs[0])
		return []string{c.Op("Add", half, half), ""}
	}
	for i, x := range n.Inputs {
		if slope, on := c.gate(x, n.Inputs[1-i], n.Outputs[0]); slope != "" {
			gx := make([]string, 2)
			gx[i] = c.times(gy[0], slope, on)
			return gx
		}
	}
	return c.by(n, func() string { return c.Op("Mul", gy[0], n.Inputs[1]) },
		func() string { return c.Op("Mul", gy[0], n.Inputs[0]) })
}

// y = a/b: ā = g/b, b̄ = −g·y/b
func div(c *Context, n *onnx.Node, gy []string) []string {
	over := c.Op("Div", gy[0], n.Inputs[1])
	return c.by(n, func() string { return over },
		func() string { return c.Op("Neg", c.Op("Mul", over, n.Outputs[0])) })
}

// y = cond ? a : b: ā = cond ? g : 0, b̄ = cond ? 0 : g. A guard's derivatives are guarded: without it a gets all of g.
func where(c *Context, n *onnx.Node, gy []string) []string {
	cond, g := n.Inputs[0], gy[0]
	return c.by(n, func() string { return "" }, func() string {
		if n.Guard {
			return c.Guarded(cond, g, c.Float(0))
		}
		return c.Op("Where", cond, g, c.Float(0))
	}, func() string {
		if n.Guard {
			return c.Guarded(cond, c.zerosLike(g), g)
		}
		return c.Op("Where", cond, c.Float(0), g)
	})
}

// y = min(max(x, lo), hi): x̄ = g between the bounds, otherwise 0. It is 0 at the ends, as in PyTorch's ReLU6 and
// hardtanh, and in clamp since version 2.15; before, clamp passed the gradient there. For lo ≥ hi the output is hi and
// has no gradient; with constants lo = hi this package writes a constant of x's shape so. The bounds are scalars, the
// same for all items.
func clip(c *Context, n *onnx.Node, gy []string) []string {
	x, g := n.Inputs[0], gy[0]
	lo, ok1 := c.G.Consts[n.Input(1)]
	hi, ok2 := c.G.Consts[n.Input(2)]
	ordered := ok1 && ok2 && len(lo.Floats) == 1 && len(hi.Floats) == 1
	if ordered && lo.Floats[0] >= hi.Floats[0] {
		return []string{""}
	}
	onnx.Require(!c.needs(n, 1) && !c.needs(n, 2), "no gradient with respect to its bounds")
	below, above := crossed(n.Input(1), lo, -1), crossed(n.Input(2), hi, 1)
	if below && above && ordered { // x − lo and hi − x have the same sign only between the ends
		between := c.Op("Mul", c.Less(x, n.Inputs[1]), c.Op("Sub", n.Inputs[2], x))
		return []string{c.masked(g, c.Positive(between))}
	}
	if below {
		g = c.masked(g, c.Positive(c.Less(x, n.Inputs[1])))
	}
	if above {
		g = c.masked(g, c.Step(c.Less(x, n.Inputs[2]), -onnx.Steep, 0))
	}
	return []string{g}
}

// masked returns g where mask is 1 and 0 where it is 0.
func (c *Context) masked(g, mask string) string { return c.Masked(g, mask, mask) }

// times returns g·slope, and 0 where on is 0; an on of "" is never 0.
func (c *Context) times(g, slope, on string) string {
	if on == "" {
		return c.Op("Mul", g, slope)
	}
	return c.Masked(g, slope, on)
}

// crossed reports whether a Clip's bound can be crossed: it is not the largest float32 of the given sign.
func crossed(name string, t *onnx.Tensor, side float32) bool {
	return name != "" && (t == nil || len(t.Floats) != 1 || side*t.Floats[0] < math.MaxFloat32)
}

// y = xᵉ: x̄ = g·e·xᵉ⁻¹, ē = g·y·ln x. As in PyTorch x̄ = 0 at e = 0, and ē = 0 at x = 0 with e ≥ 0.
func pow(c *Context, n *onnx.Node, gy []string) []string {
	x, e := n.Inputs[0], n.Inputs[1]
	gx := make([]string, 2)
	if c.needs(n, 0) {
		slope, flat := "", ""
		if t, ok := c.G.Consts[e]; ok {
			// Exponents of 0 become x⁰·0, not x⁻¹·0, which is infinite or NaN at 0.
			less := onnx.FloatTensor(t.Shape, slices.Clone(t.Floats))
			for i, v := range t.Floats {
				if v != 0 {
					less.Floats[i] = v - 1
				}
			}
			slope = c.Op("Mul", c.power(x, less), e)
			if slices.Contains(t.Floats, 0) {
				flat = c.Op("Equal", e, c.Float(0))
			}
		} else {
			slope = c.Op("Mul", c.Op("Pow", x, c.Op("Sub", e, c.Float(1))), e)
			flat = c.Op("Equal", e, c.Float(0))
		}
		if gx[0] = c.Op("Mul", gy[0], slope); flat != "" {
			gx[0] = c.Op("Where", flat, c.Float(0), gx[0])
		}
	}
	if c.needs(n, 1) {
		// At x = 0 with e ≥ 0 it takes the logarithm of 1: 0, also when it is differentiated again.
		flat := c.Op("And", c.Op("Equal", x, c.Float(0)), c.Op("GreaterOrEqual", e, c.Float(0)))
		log := c.Op("Log", c.Op("Where", flat, c.Float(1), x))
		gx[1] = c.Op("Where", flat, c.Float(0), c.Op("Mul", gy[0], c.Op("Mul", n.Outputs[0], log)))
	}
	return gx
}

// power appends xᵉ for a constant e, with cheaper operators for the common exponents.
func (c *Context) power(x string, e *onnx.Tensor) string {
	if len(e.Floats) == 1 {
		switch e.Floats[0] {
		case 1:
			return x
		case 2:
			return c.Op("Mul", x, x)
		case -1:
			return c.Op("Reciprocal", x)
		}
	}
	return c.Op("Pow", x, c.Const(e))
}

// y = max(a, b): ā = g for a > b, g/2 for a = b, otherwise 0, as in PyTorch; b̄ likewise. Simplify makes a chain of
// these of more inputs. min reverses the order.
func extremum(c *Context, n *onnx.Node, gy []string) []string {
	onnx.Require(len(n.Inputs) == 2, "%s of %d inputs", n.Op, len(n.Inputs))
	a, b, g, first, second := n.Inputs[0], n.Inputs[1], gy[0], "Greater", "Less"
	if n.Op == "Min" {
		first, second = second, first
	}
	tie := c.Op("Where", c.Op("Equal", a, b), c.Op("Mul", g, c.Float(0.5)), c.Float(0))
	return c.by(n, func() string { return c.Op("Where", c.Op(first, a, b), g, tie) },
		func() string { return c.Op("Where", c.Op(second, a, b), g, tie) })
}

// sloped is the rule of y = f(x), value by value: x̄ = g·f′(x).
func sloped(c *Context, n *onnx.Node, gy []string) []string {
	slope, on := onnx.TraitsOf(n.Op).Slope(c.Builder, n)
	if slope == "" {
		return []string{""}
	}
	return []string{c.times(gy[0], slope, on)}
}

// y = a − b·⌊a/b⌋ towards zero, of floats: ā = g, b̄ = −g·(a − y)/b, a whole number. Integers have no derivative.
func mod(c *Context, n *onnx.Node, gy []string) []string {
	if n.Int("fmod", 0) == 0 {
		return []string{"", ""}
	}
	return c.by(n, func() string { return gy[0] }, func() string {
		whole := c.Op("Round", c.Op("Div", c.Op("Sub", n.Inputs[0], n.Outputs[0]), n.Inputs[1]))
		return c.Op("Neg", c.Op("Mul", gy[0], whole))
	})
}

// y = x for x > 0, otherwise s·x: x̄ = g or s·g, s̄ = 0 or g·x; at 0 the second ones, as in PyTorch
func pRelu(c *Context, n *onnx.Node, gy []string) []string {
	x, s := n.Inputs[0], n.Inputs[1]
	above := c.Op("Greater", x, c.Float(0))
	below := c.Guarded(c.Op("Not", above), gy[0], c.Float(0))
	return c.by(n,
		func() string { return c.Op("Where", above, gy[0], c.Op("Mul", below, s)) },
		func() string { return c.Op("Where", above, c.Float(0), c.Op("Mul", below, x)) })
}

// gate returns dy/dx of y = x·s if s is computed from x alone in a known way, and a tensor that is 0 where y is flat;
// "" stands for neither. x·Sigmoid(x) is SiLU, x·HardSigmoid(x) is HardSwish. The general rule would take twice as many
// passes over the data. Only that rule returns a cotangent of s, so it is used if the gradient by s is needed.
func (c *Context) gate(x, s, y string) (slope, on string) {
	n := c.producer(s)
	if n == nil || len(n.Inputs) != 1 || n.Inputs[0] != x || slices.Contains(c.wrt, s) {
		return "", ""
	}
	switch n.Op {
	case "Sigmoid": // s + y·(1−s); Step computes 1−s in a pass that keeps the blocked layout
		return c.Op("Add", s, c.Op("Mul", y, c.Step(s, -1, 1))), ""
	case "HardSigmoid":
		if a := n.Float("alpha", 0.2); a < onnx.Steep && a > -onnx.Steep {
			return c.GatedSlope(s, n.Float("beta", 0.5)), s
		}
	}
	return "", ""
}
