package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// sloped is the rule of y = f(x), value by value: x̄ = g·f′(x).
func sloped(slope func(b *onnx.Builder, n *onnx.Node) string) Rule {
	return func(c *Context, n *onnx.Node, gy []string) ([]string, error) {
		t := slope(c.Builder, n)
		if t != "" {
			t = c.Op("Mul", gy[0], t)
		}
		return []string{t}, nil
	}
}

// y = x for x > 0, s·x else: x̄ = g or s·g, s̄ = 0 or g·x; the second ones at 0 as in PyTorch
func pRelu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, s := n.Inputs[0], n.Inputs[1]
	above := c.Op("Greater", x, c.Float(0))
	return c.by(n,
		func() string { return c.Op("Where", above, gy[0], c.Op("Mul", gy[0], s)) },
		func() string { return c.Op("Where", above, c.Float(0), c.Op("Mul", gy[0], x)) }), nil
}

// gate gives dy/dx of y = x·s where s is computed from x alone in a way that is
// known here, or "": x·Sigmoid(x) is SiLU, x·HardSigmoid(x) is HardSwish. The
// general rule would take twice as many passes over the data. It alone gives s a
// cotangent, and so is the one where the gradient by s is asked for.
func (c *Context) gate(x, s, y string) string {
	n := c.producer(s)
	if n == nil || len(n.Inputs) != 1 || n.Inputs[0] != x || slices.Contains(c.wrt, s) {
		return ""
	}
	switch n.Op {
	case "Sigmoid": // s + y·(1−s); the step is 1−s in a pass that keeps the blocked layout
		return c.Op("Add", s, c.Op("Mul", y, c.Step(s, -1, 1)))
	case "HardSigmoid":
		if a := n.Float("alpha", 0.2); a < onnx.Steep && a > -onnx.Steep {
			return c.GatedSlope(s, n.Float("beta", 0.5))
		}
	}
	return ""
}

// y = softmax x: x̄ = y·(g − Σ g·y)
func softmax(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	inner := c.Sum(c.Op("Mul", gy[0], y), []int64{n.Int("axis", -1)})
	return []string{c.Op("Mul", y, c.Op("Sub", gy[0], inner))}, nil
}

// y = log softmax x: x̄ = g − eʸ·Σ g
func logSoftmax(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	total := c.Sum(gy[0], []int64{n.Int("axis", -1)})
	return []string{c.Op("Sub", gy[0], c.Op("Mul", c.Op("Exp", n.Outputs[0]), total))}, nil
}
