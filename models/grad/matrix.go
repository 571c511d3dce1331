package grad

import (
	"selfheal/models/onnx"
)

// y = α·A'·B' + β·C with A' = A or Aᵀ: Ā' = α·g·B'ᵀ, B̄' = α·A'ᵀ·g, C̄ = β·g
func gemm(c *Context, n *onnx.Node, gy []string) []string {
	g, a, b := gy[0], n.Inputs[0], n.Inputs[1]
	ta, tb := n.Int("transA", 0), n.Int("transB", 0)
	product := func(l, r string, tl, tr int64) string {
		return c.OpWith("Gemm", onnx.Attrs{"alpha": n.Float("alpha", 1), "transA": tl, "transB": tr}, l, r)
	}
	return c.by(n, func() string {
		if ta == 0 {
			return product(g, b, 0, 1-tb)
		}
		return product(b, g, tb, 1)
	}, func() string {
		if tb == 0 {
			return product(a, g, 1-ta, 0)
		}
		return product(g, a, 1, ta)
	}, func() string { return c.Op("Mul", g, c.Float(n.Float("beta", 1))) })
}

// y = A·B on the last two axes: Ā = g·Bᵀ, B̄ = Aᵀ·g
func matMul(c *Context, n *onnx.Node, gy []string) []string {
	return c.by(n, func() string { return c.Op("MatMul", gy[0], c.swapLast(n.Inputs[1])) },
		func() string { return c.Op("MatMul", c.swapLast(n.Inputs[0]), gy[0]) })
}

func (c *Context) swapLast(t string) string {
	r := len(c.Shape(t))
	return c.swap(t, r-1, r-2)
}

func (c *Context) swap(t string, i, j int) string {
	perm := onnx.Range(0, len(c.Shape(t)))
	perm[i], perm[j] = perm[j], perm[i]
	return c.OpWith("Transpose", onnx.Attrs{"perm": perm}, t)
}

// kept returns the resolved axes of a reduction and the shape of its result with the reduced dimensions kept as 1.
func (c *Context) kept(n *onnx.Node) ([]int64, onnx.Shape) {
	x := c.Shape(n.Inputs[0])
	axes := []int64{}
	if t, ok := c.G.Consts[n.Input(1)]; ok {
		axes = t.Ints
	}
	if len(axes) == 0 && n.Int("noop_with_empty_axes", 0) == 0 {
		axes = onnx.Range(0, len(x))
	}
	at := onnx.Sure(onnx.Axes(axes, len(x)))
	shape, resolved := append(onnx.Shape{}, x...), make([]int64, len(at))
	for i, a := range at {
		shape[a], resolved[i] = 1, int64(a)
	}
	return resolved, shape
}

// restore inserts the reduced dimensions, as 1, into a reduction's result or cotangent t.
func (c *Context) restore(n *onnx.Node, t string, shape onnx.Shape) string {
	if n.Int("keepdims", 1) == 1 {
		return t
	}
	return c.Reshape(t, shape)
}

// y = Σ x along axes: x̄ = g repeated. Simplify writes ReduceMean and the sums of powers by other operators.
func reduceSum(c *Context, n *onnx.Node, gy []string) []string {
	_, shape := c.kept(n)
	return []string{c.restore(n, gy[0], shape)} // the walk repeats it
}

// y = max x along axes, or min: x̄ = g shared evenly among the places that equal y, as in PyTorch's amax and amin
func reduceExtremum(c *Context, n *onnx.Node, gy []string) []string {
	axes, shape := c.kept(n)
	if len(axes) == 0 {
		return gy[:1]
	}
	y, g := c.restore(n, n.Outputs[0], shape), c.restore(n, gy[0], shape)
	holds := c.Op("Equal", n.Inputs[0], y)
	count := c.Sum(c.Op("Where", holds, c.Float(1), c.Float(0)), axes)
	return []string{c.Op("Where", holds, c.Op("Div", g, count), c.Float(0))}
}

// y = ln Σ eˣ along axes: x̄ = g·e^(x−y)
func reduceLogSumExp(c *Context, n *onnx.Node, gy []string) []string {
	_, shape := c.kept(n)
	y, g := c.restore(n, n.Outputs[0], shape), c.restore(n, gy[0], shape)
	return []string{c.Op("Mul", g, c.Op("Exp", c.Op("Sub", n.Inputs[0], y)))}
}
