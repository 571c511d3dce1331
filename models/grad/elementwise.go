package grad

import (
	"slices"

	"selfheal/models/onnx"
)

func identity(_ *Context, _ *onnx.Node, gy []string) ([]string, error) { return gy[:1], nil }

// y = −x: ḡ = −g
func neg(c *Context, _ *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Op("Neg", gy[0])}, nil
}

// y = a + b: ā = b̄ = g
func add(_ *Context, _ *onnx.Node, gy []string) ([]string, error) {
	return []string{gy[0], gy[0]}, nil
}

// y = a − b: ā = g, b̄ = −g
func sub(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx := []string{gy[0], ""}
	if c.Needs(n, 1) {
		gx[1] = c.Op("Neg", gy[0])
	}
	return gx, nil
}

// y = a·b: ā = g·b, b̄ = g·a
func mul(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx := make([]string, 2)
	for i := range gx {
		if c.Needs(n, i) {
			gx[i] = c.Op("Mul", gy[0], n.Inputs[1-i])
		}
	}
	return gx, nil
}

// y = a/b: ā = g/b, b̄ = −g·y/b
func div(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx := make([]string, 2)
	over := c.Op("Div", gy[0], n.Inputs[1])
	if c.Needs(n, 0) {
		gx[0] = over
	}
	if c.Needs(n, 1) {
		gx[1] = c.Op("Neg", c.Op("Mul", over, n.Outputs[0]))
	}
	return gx, nil
}

// y = eˣ: ḡ = g·y
func exp(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Op("Mul", gy[0], n.Outputs[0])}, nil
}

// y = ln x: ḡ = g/x
func log(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Op("Div", gy[0], n.Inputs[0])}, nil
}

// y = √x: ḡ = g/(2y); infinite at 0, as in PyTorch
func sqrt(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	return []string{c.Op("Div", gy[0], c.Op("Mul", c.Float(2), n.Outputs[0]))}, nil
}

// y = cond ? a : b: ā = cond ? g : 0, b̄ = cond ? 0 : g
func where(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx := make([]string, 3)
	if c.Needs(n, 1) {
		gx[1] = c.Op("Where", n.Inputs[0], gy[0], c.Float(0))
	}
	if c.Needs(n, 2) {
		gx[2] = c.Op("Where", n.Inputs[0], c.Float(0), gy[0])
	}
	return gx, nil
}

// y = min(max(x, lo), hi): ḡ = g where lo ≤ x ≤ hi (both ends included, as in PyTorch), else 0.
// With lo = hi it is how this package writes a constant of x's shape: no gradient, at lo neither.
func clip(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	g := gy[0]
	lo, ok1 := c.G.Consts[n.Input(1)]
	hi, ok2 := c.G.Consts[n.Input(2)]
	if ok1 && ok2 && slices.Equal(lo.Floats, hi.Floats) {
		return []string{""}, nil
	}
	if lo := n.Input(1); lo != "" {
		g = c.Op("Where", c.Op("GreaterOrEqual", n.Inputs[0], lo), g, c.Float(0))
	}
	if hi := n.Input(2); hi != "" {
		g = c.Op("Where", c.Op("LessOrEqual", n.Inputs[0], hi), g, c.Float(0))
	}
	return []string{g}, nil
}
