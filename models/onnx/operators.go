package onnx

import (
	"cmp"
	"maps"
	"slices"
)

// Traits is a row of the table of operators. An activation is one row and the function that gives its slope; lists of
// operators are made from the rows.
type Traits struct {
	// Inputs is the least number of inputs of a node: 0 stands for one, -1 for none.
	Inputs int
	// Slope appends dy/dx of a node that computes y = f(x) value by value, and returns two tensors: slope, or "" if it
	// is 0 everywhere; and on, which is 0 where f is flat, see [Builder.Masked], or "" if f is flat nowhere. Package
	// grad has the gradient rules of all other operators.
	Slope slopeRule
	// Gain is 1/E[f(x)²] for x of variance 1. Only activations have one.
	Gain float64
	// Pointwise operators work value by value, or on values at the same place: they work in every layout, and on the
	// rows of a matrix.
	Pointwise bool
	// Relabels is set if the output holds the first input's values in the same order.
	Relabels bool
	// Simplified operators are replaced by others in package simplify: they carry no data afterwards and need no
	// gradient rule.
	Simplified bool
	// Parameters are the inputs that can be parameters: weights, biases, scales. The gradient rule also computes
	// gradients by them, summed over the batch.
	Parameters []int
	// Folded operators are accepted only if they can be folded away: they have no shape rule.
	Folded bool
	// Batch says how the operator treats the batch; nil if it works on constants alone.
	Batch *Batching
	// Random operators draw numbers that depend only on the input's shape or, for Bernoulli, on probabilities.
	Random bool
	// Axis is the default of the attribute axis.
	Axis int64

	shape     shapeRule
	result    DType // element type of the first output; 0: the type of input typedBy
	typedBy   int
	alike     bool // the inputs have one element type
	discrete  bool // the derivative is 0 even if the output's element type is Float
	Steady    bool // the variance of the first input is about kept
	moves     bool // it moves values and computes nothing
	inKernels func(b *Builder, n *Node) string
}

type slopeRule func(b *Builder, n *Node) (slope, on string)

// Discrete reports whether an operator returns whole numbers, truth values or random numbers, even as floats: its
// derivative is 0, also at the steps, and no gradient passes. Simplification removes a Cast of floats to floats.
func (t Traits) Discrete() bool { return t.discrete || t.result == Bool || t.result == Int64 }

// TraitsOf returns an operator's traits, the zero value if it is unknown.
func TraitsOf(op string) Traits { return operators[op] }

// Operators lists the standard operators that models may have, sorted. Some are accepted only on constants or shapes.
func Operators() []string { return slices.Sorted(maps.Keys(operators)) }

var operators map[string]Traits

func init() { // init breaks the cycle operators → shape rules → operators
	kinked := func(gain float64, slope slopeRule) Traits {
		return Traits{shape: sameShape, Pointwise: true, Slope: slope, Gain: gain, Batch: first}
	}
	activation := func(gain float64, slope func(b *Builder, n *Node) string) Traits {
		return kinked(gain, func(b *Builder, n *Node) (string, string) { return slope(b, n), "" })
	}
	function := func(slope func(b *Builder, n *Node) string) Traits { return activation(0, slope) }
	pointwise := Traits{shape: sameShape, Pointwise: true, Batch: first}
	steps := Traits{shape: sameShape, Pointwise: true, discrete: true, Batch: first}
	inKernels := func(t Traits, write func(b *Builder, n *Node) string) Traits { t.inKernels = write; return t }
	binary := Traits{shape: broadcastShape, Inputs: 2, Pointwise: true, alike: true, Batch: byPlace}
	bits := Traits{shape: broadcastShape, Inputs: 2, alike: true, discrete: true, Batch: byPlace}
	weighted := binary
	weighted.Parameters = []int{1}
	gained := func(t Traits, gain float64) Traits { t.Gain = gain; return t }
	variadic := Traits{shape: broadcastShape, alike: true, Simplified: true, Batch: byPlace}
	truth := Traits{shape: broadcastShape, Inputs: 2, alike: true, result: Bool, Batch: byPlace}
	asked := Traits{shape: sameShape, result: Bool, Batch: first}
	reduction := Traits{shape: reduceShape, Simplified: true, Batch: first}
	relabelling := Traits{Relabels: true, Steady: true, moves: true, Axis: 1, Batch: first}
	shaped := func(t Traits, shape shapeRule) Traits { t.shape = shape; return t }
	random := Traits{shape: sameShape, discrete: true, Random: true, Batch: first}
	folded := Traits{Folded: true}
	operators = map[string]Traits{
		// y = f(x): slopes are in slope.go. Gains hold for the default attributes.
		"Relu":            kinked(2, reluSlope),
		"LeakyRelu":       kinked(2, leakyReluSlope),
		"ThresholdedRelu": kinked(2.5, thresholdedReluSlope),
		"Elu":             inKernels(activation(1.55, exponentialSlope), exponentialKernel),
		"Selu":            inKernels(activation(1, exponentialSlope), exponentialKernel),
		"Celu":            inKernels(activation(1.55, celuSlope), exponentialKernel),
		"Sigmoid":         activation(3.4, sigmoidSlope),
		"HardSigmoid":     kinked(3.6, hardSigmoidSlope),
		"HardSwish":       kinked(2.8, hardSwishSlope),
		"Mish":            inKernels(activation(2.1, mishSlope), mishKernel),
		"Gelu":            activation(2.35, geluSlope),
		"Softplus":        inKernels(activation(0.9, softplusSlope), softplusKernel),
		"Softsign":        activation(5.5, softsignSlope),
		"Tanh":            activation(2.5, tanhSlope),
		"Swish":           {shape: sameShape, Gain: 2.8, Simplified: true, Batch: first},
		"PRelu":           gained(weighted, 2),
		"Clip":            gained(pointwise, 2),
		"Erf":             function(erfSlope),
		"Exp":             function(expSlope),
		"Abs":             kinked(0, absSlope),
		"Sin":             inKernels(function(sinSlope), filledKernel),
		"Cos":             inKernels(function(cosSlope), filledKernel),
		"Log":             inKernels(pointwise, filledKernel),
		"Sqrt":            pointwise, "Neg": pointwise,
		"Reciprocal": function(reciprocalSlope),
		"Tan":        function(tanSlope),
		"Atan":       inKernels(function(atanSlope), filledKernel),
		"Sinh":       function(sinhSlope), "Cosh": function(coshSlope),
		"Sign": steps, "Floor": steps, "Ceil": steps, "Round": steps,
		"Identity": {shape: sameShape, Pointwise: true, Steady: true, moves: true, Batch: first},
		// Values at the same place.
		"Add": weighted, "Mul": weighted, "Sub": binary, "Div": binary,
		"Pow":      {shape: broadcastShape, Inputs: 2, Pointwise: true, Batch: byPlace},
		"Min":      {shape: broadcastShape, Pointwise: true, alike: true, Batch: byPlace},
		"Max":      {shape: broadcastShape, Pointwise: true, alike: true, Batch: byPlace},
		"Mod":      {shape: broadcastShape, Inputs: 2, alike: true, Batch: byPlace},
		"BitShift": bits, "BitwiseAnd": bits, "BitwiseOr": bits, "BitwiseXor": bits,
		"BitwiseNot": {shape: sameShape, discrete: true, Batch: first},
		"Sum":        variadic, "Mean": variadic,
		"Where": {shape: broadcastShape, Inputs: 3, typedBy: 1, Batch: byPlace},
		"Equal": truth, "Greater": truth, "GreaterOrEqual": truth, "Less": truth, "LessOrEqual": truth,
		"And": truth, "Or": truth, "Xor": truth, "Not": asked, "IsNaN": asked, "IsInf": asked,
		"Cast":     {shape: sameShape, discrete: true, Steady: true, Batch: first},
		"CastLike": {shape: sameShape, Inputs: 2, typedBy: 1, Simplified: true, Batch: first},
		// Products.
		"Conv":          {shape: convShape, Inputs: 2, Parameters: []int{1, 2}, Batch: first},
		"ConvTranspose": {shape: convTransposeShape, Inputs: 2, Parameters: []int{1, 2}, Batch: first},
		"Gemm":          {shape: gemmShape, Inputs: 2, Parameters: []int{1, 2}, Batch: anyInput},
		"MatMul":        {shape: matMulShape, Inputs: 2, Parameters: []int{1}, Batch: anyInput},
		"Einsum":        {shape: einsumShape, Simplified: true, Batch: anyInput},
		// Pooling.
		"MaxPool": {shape: poolShape, Steady: true, Batch: first}, "AveragePool": {shape: poolShape, Batch: first},
		"LpPool":            {shape: poolShape, Simplified: true, Batch: first},
		"GlobalAveragePool": {shape: globalPoolShape, Steady: true, Batch: first},
		"GlobalMaxPool":     {shape: globalPoolShape, Batch: first},
		"GlobalLpPool":      {shape: globalPoolShape, Simplified: true, Batch: first},
		"MaxUnpool":         {shape: maxUnpoolShape, Inputs: 2, Batch: inAll},
		"Resize":            {shape: resizeShape, Batch: first}, "Upsample": folded,
		"GridSample": {shape: gridSampleShape, Inputs: 2, Simplified: true, Batch: inAll},
		"AffineGrid": {shape: byInts(affineGridShape), Inputs: 2, Simplified: true, Batch: first},
		// Normalisation and Softmax.
		"BatchNormalization": {shape: batchNormShape, Inputs: 5, Parameters: []int{1, 2, 3, 4}, Steady: true,
			Batch: first},
		"LayerNormalization": {shape: byAxis(layerNormalizationShape), Axis: -1, Inputs: 2, Parameters: []int{1, 2},
			Batch: first},
		"InstanceNormalization": {shape: sameShape, Inputs: 3, Simplified: true, Batch: first},
		"GroupNormalization":    {shape: sameShape, Inputs: 3, Simplified: true, Batch: first},
		"RMSNormalization":      {shape: alongAxis, Axis: -1, Inputs: 2, Simplified: true, Batch: first},
		"LpNormalization":       {shape: alongAxis, Axis: -1, Simplified: true, Batch: first},
		"LRN":                   {shape: sameShape, Simplified: true, Batch: first},
		"Softmax":               {shape: alongAxis, Axis: -1, Batch: first},
		"LogSoftmax":            {shape: alongAxis, Axis: -1, Batch: first},
		// Reductions.
		"ReduceSum": {shape: reduceShape, Batch: first}, "ReduceMax": {shape: reduceShape, Batch: first},
		"ReduceMin":       {shape: reduceShape, Batch: first},
		"ReduceLogSumExp": {shape: reduceShape, Batch: first},
		"ReduceMean":      reduction, "ReduceL1": reduction, "ReduceL2": reduction, "ReduceProd": reduction,
		"ReduceSumSquare": reduction, "ReduceLogSum": reduction,
		"ArgMax": {shape: argShape, result: Int64, Batch: first},
		"ArgMin": {shape: argShape, result: Int64, Batch: first},
		"TopK":   {shape: byInts(topKShape), Axis: -1, Batch: first},
		"CumSum": {shape: byInts(cumSumShape), Inputs: 2, Batch: first},
		// Layout.
		"Reshape": shaped(relabelling, byInts(reshapeShape)), "Flatten": shaped(relabelling, flattenShape),
		"Squeeze": shaped(relabelling, squeezeShape), "Unsqueeze": shaped(relabelling, byInts(unsqueezeShape)),
		"Transpose": {shape: transposeShape, Steady: true, moves: true, Batch: first},
		"Concat":    {shape: byAxis(concatShape), Axis: 1, moves: true, Batch: inAll},
		"Slice":     {shape: sliceShape, Batch: first}, "Split": {shape: byAxis(splitShape), Batch: first},
		"Pad":          {shape: byInts(padShape), Batch: first},
		"Expand":       {shape: byInts(expandShape), Inputs: 2, Batch: first},
		"Tile":         {shape: byInts(tileShape), Inputs: 2, Batch: first},
		"Trilu":        {shape: triluShape, Batch: first},
		"DepthToSpace": {shape: blockShape, Batch: first}, "SpaceToDepth": {shape: blockShape, Batch: first},
		// Reading and writing at indices.
		"Gather":          {shape: byAxis(gatherShape), Inputs: 2, Batch: inOne},
		"GatherElements":  {shape: elementsShape, Inputs: 2, Batch: inAll},
		"GatherND":        {shape: gatherNDShape, Inputs: 2, Simplified: true},
		"ScatterElements": {shape: elementsShape, Inputs: 3, Batch: inAll},
		"ScatterND":       {shape: scatterNDShape, Inputs: 3, Simplified: true}, // on constants alone
		"OneHot":          {shape: byInts(oneHotShape), Axis: -1, Inputs: 3, typedBy: 2, discrete: true, Batch: first},
		// Quantisation, random numbers.
		"QuantizeLinear":   {shape: sameShape, Axis: 1, Batch: first},
		"DequantizeLinear": {shape: sameShape, Axis: 1, result: Float, Batch: first},
		"RandomNormalLike": random, "RandomUniformLike": random, "Bernoulli": random,
		"Dropout": {shape: sameShape, Steady: true, Simplified: true, Batch: first},
		// Shapes and constants.
		"Constant": {Inputs: -1, Folded: true}, "ConstantOfShape": folded, "Range": {Inputs: 3, Folded: true},
		"Shape": {Folded: true, result: Int64}, "Size": {Folded: true, result: Int64},
	}
}

// TypeOf returns the element type of a tensor that is a constant, the input, or the output of a node visited before;
// Float if it is unknown.
func (c *Inference) TypeOf(tensor string) DType {
	if t, ok := c.Graph.Consts[tensor]; ok {
		return t.DType
	}
	if _, ok := c.Ints[tensor]; ok {
		return cmp.Or(c.types[tensor], Int64)
	}
	return cmp.Or(c.types[tensor], Float)
}

// SameTypes refuses arithmetic of floats with integers or truth values. ONNX Runtime refuses it too, but its message
// can't name a node that a lowering has written.
func (c *Inference) SameTypes(n *Node) {
	if !TraitsOf(n.Op).alike {
		return
	}
	for _, in := range n.Inputs[1:] {
		a, b := c.TypeOf(n.Inputs[0]), c.TypeOf(in)
		Require(a == b || a != Float && b != Float, "its inputs %q and %q hold values of different types",
			n.Inputs[0], in)
	}
}

// SetTypes records the element types of a node's outputs, except Float.
func (c *Inference) SetTypes(n *Node) {
	traits := TraitsOf(n.Op)
	for i, o := range n.Outputs {
		t := traits.result
		switch {
		case (n.Op == "TopK" || n.Op == "MaxPool") && i == 1:
			t = Int64
		case n.Op == "Cast":
			t = DType(n.Int("to", int64(Float)))
		case t == 0:
			t = c.TypeOf(n.Input(traits.typedBy))
		}
		c.SetType(o, t)
	}
}

// SetType records a tensor's element type.
func (c *Inference) SetType(tensor string, t DType) {
	if t == Float {
		return
	}
	if c.types == nil {
		c.types = map[string]DType{}
	}
	c.types[tensor] = t
}

// quantizedRange holds the smallest and the largest value of QuantizeLinear's output types.
var quantizedRange = map[DType][2]int64{
	Int8: {-128, 127}, Uint8: {0, 255}, int16Type: {-32768, 32767}, uint16Type: {0, 65535},
}

// QuantizedRange returns the smallest and the largest value of an output type of QuantizeLinear; ok is false for any
// other.
func QuantizedRange(t DType) (lo, hi int64, ok bool) {
	r, ok := quantizedRange[t]
	return r[0], r[1], ok
}

// Parameters returns the number of float values in the graph's constants.
func (g *Graph) Parameters() int64 {
	n := int64(0)
	for _, t := range g.Consts {
		n += int64(len(t.Floats))
	}
	return n
}

// FLOPs returns the number of floating-point operations for one item: 2 for each multiply-accumulate of Conv,
// ConvTranspose, Gemm and MatMul, 1 per value for everything else. Shapes must be set.
func (g *Graph) FLOPs() int64 {
	total := int64(0)
	for _, n := range g.Nodes {
		x, y := g.Shapes[n.Input(0)], g.Shapes[n.Outputs[0]].Items()
		switch {
		case n.Op == "Conv":
			y *= 2 * g.Shapes[n.Inputs[1]][1:].Items()
		case n.Op == "ConvTranspose":
			y = 2 * x.Items() * g.Shapes[n.Inputs[1]][1:].Items()
		case n.Op == "Gemm" && n.Int("transA", 0) == 1:
			y *= 2 * x[0]
		case n.Op == "Gemm", n.Op == "MatMul":
			y *= 2 * x[len(x)-1]
		case TraitsOf(n.Op).moves:
			y = 0
		}
		total += y
	}
	return total
}
