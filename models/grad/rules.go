package grad

// discrete operators give integers, truth values or random numbers: no gradient
// passes through them.
var discrete = map[string]bool{
	"Greater": true, "GreaterOrEqual": true, "Less": true, "LessOrEqual": true, "Equal": true,
	"And": true, "Or": true, "Not": true, "ArgMax": true, "ArgMin": true, "Mod": true, "OneHot": true,
	"RandomNormalLike": true, "RandomUniformLike": true, "Bernoulli": true,
}

// parameterised lists, for the operators that have them, which inputs are
// parameters: weights, biases, scales. Their rules give gradients by them too,
// summed over the batch; each needs a case among the parameters' goldens.
var parameterised = map[string][]int{
	"Conv": {1, 2}, "ConvTranspose": {1, 2}, "Gemm": {1, 2}, "MatMul": {1}, "Add": {1}, "Mul": {1},
	"BatchNormalization": {1, 2, 3, 4}, "LayerNormalization": {1, 2}, "PRelu": {1},
}

// rules is THE table: what can be differentiated. Each entry needs a check case
// in gradtest's list; a test fails for one that has none.
var rules map[string]Rule

func init() { // init breaks the cycle rules → Backward → rules
	rules = map[string]Rule{
		// elementwise.go
		"Identity": identity, "Neg": neg, "Add": add, "Sub": sub, "Mul": mul, "Div": div,
		"Exp": exp, "Log": log, "Sqrt": sqrt, "Where": where, "Clip": clip, "Pow": pow, "Reciprocal": reciprocal,
		"Abs": abs, "Sign": flat, "Floor": flat, "Ceil": flat, "Round": flat, "Cast": flat, "Sin": sin, "Cos": cos, "Max": maximum, "Min": minimum,
		// activation.go
		"Relu": relu, "LeakyRelu": leakyRelu, "PRelu": pRelu, "ThresholdedRelu": thresholdedRelu,
		"Elu": elu, "Selu": selu, "Celu": celu, "Sigmoid": sigmoid, "HardSigmoid": hardSigmoid, "HardSwish": hardSwish,
		"Mish": mish, "Gelu": gelu, "Erf": erf, "Softplus": softplus, "Softsign": softsign, "Tanh": tanh,
		"Softmax": softmax, "LogSoftmax": logSoftmax,
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
		"Reshape": reshape, "Flatten": reshape, "Squeeze": reshape, "Unsqueeze": reshape,
		"Transpose": transpose, "Concat": concat, "Slice": slice, "Pad": pad, "Expand": expand,
		"Split": split, "Tile": tile, "CumSum": cumSum, "Trilu": trilu,
		"DepthToSpace": depthToSpace, "SpaceToDepth": spaceToDepth,
		// indexing.go
		"Gather": gather, "ScatterElements": scatterElements, "GatherElements": gatherElements, "TopK": topK,
		// quantized.go
		"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear,
		// reduction.go
		"ReduceSum": reduceSum, "ReduceMax": reduceExtremum, "ReduceMin": reduceExtremum, "ReduceLogSumExp": reduceLogSumExp,
	}
}
