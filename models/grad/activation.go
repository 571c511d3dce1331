package grad

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// y = max(x, 0): x̄ = g·[y > 0], 0 at the kink as in PyTorch
func relu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Op("Mul", gy[0], c.positive(n.Outputs[0]))}, nil
}

// y = x for x > 0, αx else: x̄ = g or α·g; α·g at 0 as in PyTorch
func leakyRelu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, alpha := n.Inputs[0], n.Float("alpha", 0.01)
	if alpha >= 0 && alpha <= 1 {
		return []string{c.Op("Mul", gy[0], c.Op("Max", c.positive(x), c.Float(alpha)))}, nil
	}
	return []string{c.Op("Where", c.Op("Greater", x, c.Float(0)), gy[0], c.Op("Mul", gy[0], c.Float(alpha)))}, nil
}

// y = x for x > 0, s·x else: x̄ = g or s·g, s̄ = 0 or g·x; the second ones at 0 as in PyTorch
func pRelu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, s := n.Inputs[0], n.Inputs[1]
	above := c.Op("Greater", x, c.Float(0))
	gx := make([]string, 2)
	if c.Needs(n, 0) {
		gx[0] = c.Op("Where", above, gy[0], c.Op("Mul", gy[0], s))
	}
	if c.Needs(n, 1) {
		gx[1] = c.Op("Where", above, c.Float(0), c.Op("Mul", gy[0], x))
	}
	return gx, nil
}

// y = x for x > α, else 0: x̄ = g·[x > α], 0 at α as in PyTorch
func thresholdedRelu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	above := c.less(n.Inputs[0], c.Float(n.Float("alpha", 1)))
	return []string{c.Op("Mul", gy[0], c.positive(above))}, nil
}

// y = x for x > 0, α(eˣ−1) else: x̄ = g for x > 0, g·(y + α) else; α's branch at 0 as in PyTorch
func elu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return c.exponentialUnit(n, gy[0], 1, n.Float("alpha", 1))
}

// y = γx for x > 0, γα(eˣ−1) else: x̄ = γ·g for x > 0, g·(y + γα) else; the latter at 0 as in PyTorch
func selu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gamma, alpha := n.Float("gamma", 1.05070102214813232421875), n.Float("alpha", 1.67326319217681884765625)
	return c.exponentialUnit(n, gy[0], gamma, gamma*alpha)
}

// exponentialUnit gives g·(x > 0 ? above : y + below).
func (c *Context) exponentialUnit(n *onnx.Node, g string, above, below float32) ([]string, error) {
	y := n.Outputs[0]
	if above == below && above > 0 { // no step: min(y, 0) + below
		return []string{c.Op("Mul", g, c.Op("Add", c.negativePart(y), c.Float(below)))}, nil
	}
	slope := c.Op("Where", c.Op("Greater", n.Inputs[0], c.Float(0)), c.Float(above), c.Op("Add", y, c.Float(below)))
	return []string{c.Op("Mul", g, slope)}, nil
}

// y = x for x > 0, α(e^{x/α}−1) else: x̄ = g·(min(y, 0)/α + 1)
func celu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	low := c.negativePart(n.Outputs[0])
	if alpha := n.Float("alpha", 1); alpha != 1 {
		low = c.Op("Mul", low, c.Float(1/alpha))
	}
	return []string{c.Op("Mul", gy[0], c.Op("Add", low, c.Float(1)))}, nil
}

// y = 1/(1+e⁻ˣ): x̄ = g·y·(1−y)
func sigmoid(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	return []string{c.Op("Mul", gy[0], c.Op("Mul", y, c.Op("Sub", c.Float(1), y)))}, nil
}

// y = max(0, min(1, αx+β)): x̄ = α·g where 0 < y < 1, else 0 (0 at both ends, as
// in PyTorch). One as steep as this package's masks is a step: no gradient.
func hardSigmoid(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	alpha := n.Float("alpha", 0.2)
	if alpha >= steep || alpha <= -steep {
		return []string{""}, nil
	}
	slope := c.Op("Mul", c.inside(n.Outputs[0]), c.Float(alpha))
	return []string{c.Op("Mul", gy[0], slope)}, nil
}

// y = x·h, h = max(0, min(1, x/6 + ½)): x̄ = g·(h + (h−½)·[0 < h < 1]); 0 at −3 and g
// at 3, as in PyTorch since 2.3
func hardSwish(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	h := c.step(n.Inputs[0], 1./6, 0.5)
	return []string{c.Op("Mul", gy[0], c.hardSwishSlope(h, 0.5))}, nil
}

// hardSwishSlope gives the derivative of x·h for h = HardSigmoid(x): h + αx where 0 < h < 1
// and αx = h − β there.
func (c *Context) hardSwishSlope(h string, beta float32) string {
	return c.Op("Add", h, c.Op("Mul", c.Op("Sub", h, c.Float(beta)), c.inside(h)))
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
		return c.Op("Add", s, c.Op("Mul", y, c.step(s, -1, 1)))
	case "HardSigmoid":
		if a := n.Float("alpha", 0.2); a < steep && a > -steep {
			return c.hardSwishSlope(s, n.Float("beta", 0.5))
		}
	}
	return ""
}

// y = x·tanh(ln(1+eˣ)). With e = eˣ, m = e(e+2), d = m + 2 the factor is t = m/d and
// x̄ = g·(t + x·4(m−e)/d²); above 20, where t is 1 in float32, x is held at 20 in e.
func mish(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x := n.Inputs[0]
	e := c.Op("Exp", c.Op("Clip", x, "", c.Float(20)))
	m := c.Op("Mul", e, c.Op("Add", e, c.Float(2)))
	d := c.Op("Add", m, c.Float(2))
	dt := c.Op("Div", c.Op("Div", c.Op("Mul", c.Op("Sub", m, e), c.Float(4)), d), d)
	slope := c.Op("Add", c.Op("Div", m, d), c.Op("Mul", x, dt))
	return []string{c.Op("Mul", gy[0], slope)}, nil
}

// y = x·Φ(x), Φ(x) = ½(1 + erf(x/√2)): x̄ = g·(Φ + x·e^(−x²/2)/√(2π)); with approximate="tanh"
// y = ½x(1+t), t = tanh u, u = √(2/π)(x + κx³), κ = 0.044715: x̄ = g·(½(1+t) + ½x(1−t²)·√(2/π)(1+3κx²))
func gelu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x := n.Inputs[0]
	half := func(v string) string { return c.step(v, 0.5, 0.5) } // ½(1+v) for |v| ≤ 1, in one pass
	if n.Str("approximate", "none") == "tanh" {
		const kappa = 0.044715
		root := math.Sqrt(2 / math.Pi)
		square := c.Op("Mul", x, x)
		cubic := c.Op("Add", c.Op("Mul", square, c.Float(float32(root*kappa))), c.Float(float32(root)))
		t := c.Op("Tanh", c.Op("Mul", x, cubic))
		du := c.Op("Add", c.Op("Mul", square, c.Float(float32(1.5*root*kappa))), c.Float(float32(root/2)))
		falling := c.Op("Sub", c.Float(1), c.Op("Mul", t, t))
		slope := c.Op("Add", half(t), c.Op("Mul", c.Op("Mul", x, falling), du))
		return []string{c.Op("Mul", gy[0], slope)}, nil
	}
	h := c.Op("Mul", x, c.Float(float32(math.Sqrt(0.5))))
	phi := half(c.Op("Erf", h))
	// x·e^(−x²/2)/√(2π) = h·e^(ln(1/√π) − h²): the factor costs nothing in the exponent
	bell := c.Op("Exp", c.Op("Sub", c.Float(float32(-0.5*math.Log(math.Pi))), c.Op("Mul", h, h)))
	return []string{c.Op("Mul", gy[0], c.Op("Add", phi, c.Op("Mul", h, bell)))}, nil
}

// y = erf x: x̄ = g·(2/√π)·e^(−x²)
func erf(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	square := c.Op("Mul", n.Inputs[0], n.Inputs[0])
	bell := c.Op("Exp", c.Op("Sub", c.Float(float32(math.Log(2/math.Sqrt(math.Pi)))), square))
	return []string{c.Op("Mul", gy[0], bell)}, nil
}

// y = ln(1+eˣ): x̄ = g/(1+e⁻ˣ)
func softplus(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Op("Mul", gy[0], c.Op("Sigmoid", n.Inputs[0]))}, nil
}

// y = x/(1+|x|): x̄ = g·(1−|y|)²
func softsign(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	rest := c.Op("Sub", c.Float(1), c.Op("Abs", n.Outputs[0]))
	return []string{c.Op("Mul", gy[0], c.Op("Mul", rest, rest))}, nil
}

// y = tanh x: x̄ = g·(1−y²)
func tanh(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	return []string{c.Op("Mul", gy[0], c.Op("Sub", c.Float(1), c.Op("Mul", y, y)))}, nil
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
