package grad

import "selfheal/models/onnx"

// rules are the gradient rules of the operators whose row in [onnx.Operators]'s table
// has no slope. Each needs a golden in gradtest; a test fails for one that has none,
// and for an operator that has neither.
var rules map[string]Rule

func init() { // init breaks the cycle rules → Backward → rules
	rules = map[string]Rule{
		// elementwise.go
		"Identity": identity, "Neg": neg, "Add": add, "Sub": sub, "Mul": mul, "Div": div,
		"Log": log, "Sqrt": sqrt, "Where": where, "Clip": clip, "Pow": pow, "Max": extremum, "Min": extremum,
		// activation.go
		"PRelu": pRelu, "Softmax": softmax, "LogSoftmax": logSoftmax,
		// normalization.go
		"LayerNormalization": layerNormalization,
		// convolution.go
		"Conv": conv, "ConvTranspose": convTranspose, "BatchNormalization": batchNormalization,
		// pooling.go
		"MaxPool": maxPool, "AveragePool": averagePool, "GlobalAveragePool": globalAveragePool,
		"GlobalMaxPool": globalMaxPool, "MaxUnpool": maxUnpool,
		// resize.go
		"Resize": resize,
		// matrix.go
		"Gemm": gemm, "MatMul": matMul,
		// layout.go
		"Transpose": transpose, "Concat": concat, "Slice": slice, "Pad": pad, "Expand": expand,
		"Split": split, "Tile": tile, "CumSum": cumSum, "Trilu": trilu,
		"DepthToSpace": depthToSpace, "SpaceToDepth": spaceToDepth,
		// indexing.go
		"Gather": gather, "ScatterElements": scatterElements, "GatherElements": gatherElements, "TopK": topK,
		// quantized.go
		"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear,
		// matrix.go
		"ReduceSum": reduceSum, "ReduceMax": reduceExtremum, "ReduceMin": reduceExtremum,
		"ReduceLogSumExp": reduceLogSumExp,
	}
}

// ruleOf returns an operator's gradient rule, or nil.
func ruleOf(op string) Rule {
	traits := onnx.TraitsOf(op)
	switch {
	case traits.Slope != nil:
		return sloped(traits.Slope)
	case traits.Relabels:
		return reshape
	}
	return rules[op]
}
