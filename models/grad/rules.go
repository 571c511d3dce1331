package grad

// discrete operators give integers or truth values: no gradient passes through them.
var discrete = map[string]bool{
	"Greater": true, "GreaterOrEqual": true, "Less": true, "LessOrEqual": true, "Equal": true,
	"And": true, "Or": true, "Not": true, "ArgMax": true, "ArgMin": true, "Mod": true, "OneHot": true,
}

// rules is THE table: what can be differentiated. Each entry needs a check case
// in gradtest's list; a test fails for one that has none.
var rules map[string]Rule

func init() { // init breaks the cycle rules → Backward → rules
	rules = map[string]Rule{
		// elementwise.go
		"Identity": identity, "Neg": neg, "Add": add, "Sub": sub, "Mul": mul, "Div": div,
		"Exp": exp, "Log": log, "Sqrt": sqrt, "Where": where, "Clip": clip,
		// activation.go
		"Relu": relu, "Elu": elu, "Sigmoid": sigmoid, "HardSigmoid": hardSigmoid, "Tanh": tanh,
		"Softmax": softmax, "LogSoftmax": logSoftmax,
		// convolution.go
		"Conv": conv, "ConvTranspose": convTranspose, "BatchNormalization": batchNormalization,
		// pooling.go
		"MaxPool": maxPool, "AveragePool": averagePool, "GlobalAveragePool": globalAveragePool, "Resize": resize,
		// matrix.go
		"Gemm": gemm, "MatMul": matMul,
		// layout.go
		"Reshape": reshape, "Flatten": reshape, "Squeeze": reshape, "Unsqueeze": reshape,
		"Transpose": transpose, "Concat": concat, "Slice": slice, "Pad": pad, "Expand": expand,
		"ScatterElements": scatterElements, "GatherElements": gatherElements, "TopK": topK,
		// reduction.go
		"ReduceSum": reduceSum,
	}
}
