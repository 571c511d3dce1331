package grad

import "selfheal/models/onnx"

// rules are the gradient rules of the operators without a slope in [onnx.Operators]'s table. Each needs a golden in
// gradtest; a test fails for a rule without one, and for an operator with neither rule nor slope.
var rules map[string]Rule

func init() { // init breaks the cycle rules → Backward → rules
	// one makes a rule with one gradient, the one by the first input.
	one := func(rule func(c *Context, n *onnx.Node, g string) string) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string { return []string{rule(c, n, gy[0])} }
	}
	// by makes a rule that reads its second input, which must be a constant.
	by := func(what string, rule func(c *Context, n *onnx.Node, gy []string, t *onnx.Tensor) []string) Rule {
		return func(c *Context, n *onnx.Node, gy []string) []string {
			if !c.needs(n, 0) {
				return nil // nor does the second input pass a gradient
			}
			t, ok := c.G.Consts[n.Input(1)]
			onnx.Require(ok, "its %s must be constants", what)
			return rule(c, n, gy, t)
		}
	}
	rules = map[string]Rule{
		// y = −x: x̄ = −g
		"Neg": one(func(c *Context, _ *onnx.Node, g string) string { return c.Op("Neg", g) }),
		// y = ln x: x̄ = g/x
		"Log": one(func(c *Context, n *onnx.Node, g string) string { return c.Op("Div", g, n.Inputs[0]) }),
		// y = √x: x̄ = g/(2y); infinite at 0, as in PyTorch
		"Sqrt": one(func(c *Context, n *onnx.Node, g string) string {
			return c.Op("Div", g, c.Op("Mul", c.Float(2), n.Outputs[0]))
		}),
		// y = x repeated: the walk sums g down to x's shape
		"Expand": identity,
		// y = x's squares as channels: x̄ = g's channels as squares
		"SpaceToDepth": one(func(c *Context, n *onnx.Node, g string) string {
			return c.OpWith("DepthToSpace", onnx.Attrs{"blocksize": n.Int("blocksize", 1)}, g)
		}),
		// y = x at indices: x̄ = g added up at them
		"GatherElements": one(func(c *Context, n *onnx.Node, g string) string {
			return c.scatterAdd(n.Axis(), c.zerosLike(n.Inputs[0]), n.Inputs[1], g)
		}),
		"Identity": identity, "Add": add, "Sub": sub, "Mul": mul, "Div": div,
		"Mod": mod, "Where": where, "Clip": clip, "Pow": pow, "Max": extremum, "Min": extremum,
		"PRelu":              pRelu,
		"LayerNormalization": layerNormalization, "Softmax": softmax, "LogSoftmax": logSoftmax,
		"Conv": conv, "ConvTranspose": convTranspose, "BatchNormalization": batchNormalization,
		"MaxPool": maxPool, "AveragePool": averagePool, "GlobalAveragePool": globalAveragePool,
		"GlobalMaxPool": maxPool, "MaxUnpool": maxUnpool,
		"Resize":    resize,
		"Transpose": transpose, "Concat": concat, "Slice": by("starts", slice), "Pad": by("pads", pad),
		"Split": split, "Tile": by("repeats", tile), "CumSum": cumSum, "Trilu": trilu,
		"DepthToSpace": depthToSpace,
		"Gather":       by("indices", gather), "ScatterElements": scatterElements, "TopK": topK,
		"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear,
		"Gemm": gemm, "MatMul": matMul, "ReduceSum": reduceSum, "ReduceMax": reduceExtremum,
		"ReduceMin": reduceExtremum, "ReduceLogSumExp": reduceLogSumExp,
	}
}

func ruleOf(op string) Rule {
	traits := onnx.TraitsOf(op)
	switch {
	case traits.Slope != nil:
		return sloped
	case traits.Relabels:
		return reshape
	}
	return rules[op]
}
