package grad

import "selfheal/models/onnx"

// y = α·A'·B' + β·C with A' = A or Aᵀ: Ā' = α·g·B'ᵀ, B̄' = α·A'ᵀ·g, C̄ = β·g
func gemm(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	g, a, b := gy[0], n.Inputs[0], n.Inputs[1]
	ta, tb := n.Int("transA", 0), n.Int("transB", 0)
	product := func(l, r string, tl, tr int64) string {
		return c.OpWith("Gemm", onnx.Attrs{"alpha": n.Float("alpha", 1), "transA": tl, "transB": tr}, l, r)
	}
	gx := make([]string, len(n.Inputs))
	if c.needs(n, 0) {
		if ta == 0 {
			gx[0] = product(g, b, 0, 1-tb)
		} else {
			gx[0] = product(b, g, tb, 1)
		}
	}
	if c.needs(n, 1) {
		if tb == 0 {
			gx[1] = product(a, g, 1-ta, 0)
		} else {
			gx[1] = product(g, a, 1, ta)
		}
	}
	if c.needs(n, 2) {
		gx[2] = c.Op("Mul", g, c.Float(n.Float("beta", 1)))
	}
	return gx, nil
}

// y = A·B on the last two axes: Ā = g·Bᵀ, B̄ = Aᵀ·g
func matMul(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx := make([]string, 2)
	if c.needs(n, 0) {
		gx[0] = c.Op("MatMul", gy[0], c.swapLast(n.Inputs[1]))
	}
	if c.needs(n, 1) {
		gx[1] = c.Op("MatMul", c.swapLast(n.Inputs[0]), gy[0])
	}
	return gx, nil
}

// swapLast transposes the last two axes.
func (c *Context) swapLast(t string) string {
	r := len(c.Shape(t))
	perm := make([]int64, r)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[r-1], perm[r-2] = perm[r-2], perm[r-1]
	return c.OpWith("Transpose", onnx.Attrs{"perm": perm}, t)
}
