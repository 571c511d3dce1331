package grad

import "selfheal/models/onnx"

// steep turns HardSigmoid into a step: max(0, min(1, 3e38·x)) is 0 for x ≤ 0
// and 1 for every normal x > 0.
const steep = 3e38

// y = max(x, 0): ḡ = g·[y > 0], 0 at the kink as in PyTorch. The mask is
// HardSigmoid(y): vectorised in ONNX Runtime, and it stays in the blocked
// layout of the convolutions around it, which Sign, Greater and Where leave.
func relu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	mask := c.OpWith("HardSigmoid", onnx.Attrs{"alpha": float32(steep), "beta": float32(0)}, n.Outputs[0])
	return []string{c.Op("Mul", gy[0], mask)}, nil
}

// y = x for x > 0, α(eˣ−1) else: ḡ = g for y > 0, g·(y + α) else; α's branch at 0 as in PyTorch
func elu(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	low := c.Op("Add", y, c.Float(n.Float("alpha", 1)))
	slope := c.Op("Where", c.Op("Greater", y, c.Float(0)), c.Float(1), low)
	return []string{c.Op("Mul", gy[0], slope)}, nil
}

// y = 1/(1+e⁻ˣ): ḡ = g·y·(1−y)
func sigmoid(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	return []string{c.Op("Mul", gy[0], c.Op("Mul", y, c.Op("Sub", c.Float(1), y)))}, nil
}

// y = max(0, min(1, αx+β)): ḡ = α·g where 0 < y < 1, else 0 (0 at both ends, as
// in PyTorch). Where keeps 0·α from meeting an α as steep as relu's.
func hardSigmoid(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	inside := c.Op("And", c.Op("Greater", y, c.Float(0)), c.Op("Less", y, c.Float(1)))
	slope := c.Op("Where", inside, c.Float(n.Float("alpha", 0.2)), c.Float(0))
	return []string{c.Op("Mul", gy[0], slope)}, nil
}

// y = tanh x: ḡ = g·(1−y²)
func tanh(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	return []string{c.Op("Mul", gy[0], c.Op("Sub", c.Float(1), c.Op("Mul", y, y)))}, nil
}

// y = softmax x: ḡ = y·(g − Σ g·y)
func softmax(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	y := n.Outputs[0]
	inner := c.Sum(c.Op("Mul", gy[0], y), []int64{n.Int("axis", -1)})
	return []string{c.Op("Mul", y, c.Op("Sub", gy[0], inner))}, nil
}

// y = log softmax x: ḡ = g − eʸ·Σ g
func logSoftmax(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	total := c.Sum(gy[0], []int64{n.Int("axis", -1)})
	return []string{c.Op("Sub", gy[0], c.Op("Mul", c.Op("Exp", n.Outputs[0]), total))}, nil
}
