package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// BatchSize stands for the batch size inside a folded integer vector (the
// output of Shape), where -1 already means "infer" to Reshape.
const BatchSize = int64(-1) << 62

// BatchSizes is k times the batch size, for k up to MaxDimension.
func BatchSizes(k int64) int64 { return BatchSize + k - 1 }

// BatchFactor is the k of BatchSizes; 0 for an ordinary number.
func BatchFactor(v int64) int64 {
	if k := v - BatchSize + 1; v < BatchSize+MaxDimension && k >= 1 {
		return k
	}
	return 0
}

// BatchIndex is the first place in v that holds a multiple of the batch size, or -1.
func BatchIndex(v []int64) int {
	return slices.IndexFunc(v, func(d int64) bool { return BatchFactor(d) > 0 })
}

// Inference is what the rules for shapes and element types see of a graph, node by
// node in its order. Its zero value but for Graph serves.
type Inference struct {
	Graph *Graph
	Ints  map[string][]int64 // integer vectors that are known and hold multiples of the batch size

	types map[string]DType // element types of nodes' outputs, other than Float
	// mixes allows sums over the batch: gradients by parameters are that. The items
	// of a user's network must not touch each other.
	mixes bool
}

// InferNode computes the shapes of n's outputs from those of its inputs and
// stores them in g.Shapes. Operators without a rule are errors that name them.
func (g *Graph) InferNode(n *Node) error {
	return (&Inference{Graph: g, mixes: true}).Node(n)
}

// Infer computes the shape of every tensor in the graph.
func (g *Graph) Infer() error {
	g.Shapes = make(map[string]Shape, len(g.Nodes)+len(g.Consts))
	for _, v := range g.Inputs {
		g.Shapes[v.Name] = v.Shape
	}
	for name, t := range g.Consts {
		g.Shapes[name] = t.Shape
	}
	for _, n := range g.Nodes {
		if err := g.InferNode(n); err != nil {
			return err
		}
	}
	for i, o := range g.Outputs {
		g.Outputs[i].Shape = g.Shapes[o.Name]
	}
	return nil
}

// Node computes the shapes of n's outputs, as [Graph.InferNode] does.
func (c *Inference) Node(n *Node) error {
	rule, ok := shapeRules[n.Op]
	if !ok || n.Domain != "" {
		return fmt.Errorf("operator %s (node %s) is not supported", opName(n), n.Label())
	}
	if err := n.CheckInputs(); err != nil {
		return err
	}
	in := make([]Shape, len(n.Inputs))
	for i, name := range n.Inputs {
		if name == "" {
			continue
		}
		s := c.Graph.Shapes[name]
		if s == nil {
			return fmt.Errorf("node %s: the shape of %q is not known", n.Label(), name)
		}
		in[i] = s
	}
	out, err := rule(c, n, in)
	if err != nil {
		return fmt.Errorf("node %s on %v: %w", n.Label(), in[0], err)
	}
	for i, name := range n.Outputs {
		if name == "" {
			continue
		}
		if i >= len(out) {
			return fmt.Errorf("node %s: its output %q is not supported", n.Label(), name)
		}
		if err := out[i].Check(); err != nil {
			return fmt.Errorf("node %s on %v: %w", n.Label(), in[0], err)
		}
		c.Graph.Shapes[name] = out[i]
	}
	return nil
}

// ShapesOf gives the shapes of n's outputs for inputs of the given shapes. The
// operator must have a rule, and the inputs that the rule asks for by value be known.
func (c *Inference) ShapesOf(n *Node, in ...Shape) ([]Shape, error) {
	return shapeRules[n.Op](c, n, in)
}

// Bounds of one dimension and of the values in an item's tensor: far above what an
// image classifier has, and small enough that no arithmetic on shapes overflows.
const (
	MaxDimension = 1 << 31
	maxItems     = 1 << 31
)

// Check refuses shapes that no tensor of a batch can have.
func (s Shape) Check() error {
	items, batches := int64(1), 0
	for _, d := range s {
		if d < 0 {
			batches, d = batches+1, -d
		}
		switch {
		case d < 1 || d > MaxDimension:
			return fmt.Errorf("gives the impossible shape %v", s)
		case items > maxItems/d:
			return fmt.Errorf("gives the shape %v, more than %d values an item", s, int64(maxItems))
		default:
			items *= d
		}
	}
	if batches > 1 {
		return fmt.Errorf("gives the shape %v, the batch by itself", s)
	}
	return nil
}

func opName(n *Node) string {
	if n.Domain != "" {
		return n.Domain + "." + n.Op
	}
	return n.Op
}

// IntsOf returns the value of an integer input that is known when the graph is read.
func (c *Inference) IntsOf(n *Node, i int) ([]int64, error) {
	name := n.Input(i)
	if t, ok := c.Graph.Consts[name]; ok && t.DType != Float {
		return t.Ints, nil
	}
	if v, ok := c.Ints[name]; ok {
		return v, nil
	}
	return nil, fmt.Errorf("its input %q must be constant", name)
}

// FloatsOf returns the value of a constant float input.
func (c *Inference) FloatsOf(n *Node, i int) ([]float32, error) {
	if t, ok := c.Graph.Consts[n.Input(i)]; ok && t.DType == Float {
		return t.Floats, nil
	}
	return nil, fmt.Errorf("its input %q must be constant", n.Input(i))
}

type shapeRule func(c *Inference, n *Node, in []Shape) ([]Shape, error)

var shapeRules map[string]shapeRule

func init() { // init breaks the cycle rules → node → rules
	shapeRules = map[string]shapeRule{
		"Conv": convShape, "ConvTranspose": convTransposeShape,
		"MaxPool": poolShape, "AveragePool": poolShape,
		"GlobalAveragePool": globalPoolShape, "GlobalMaxPool": globalPoolShape,
		"Gemm": gemmShape, "MatMul": matMulShape,
		"Reshape": reshapeShape, "Flatten": flattenShape, "Transpose": transposeShape,
		"Concat": concatShape, "Resize": resizeShape, "Pad": padShape, "Slice": sliceShape,
		"Squeeze": squeezeShape, "Unsqueeze": unsqueezeShape, "Gather": gatherShape,
		"Expand": expandShape, "TopK": topKShape, "OneHot": oneHotShape, "DepthToSpace": depthToSpaceShape,
		"LpPool": poolShape, "GlobalLpPool": globalPoolShape, "SpaceToDepth": spaceToDepthShape, "MaxUnpool": maxUnpoolShape, "Tile": tileShape, "CumSum": cumSumShape, "Trilu": triluShape, "ScatterND": scatterNDShape, "GatherND": gatherNDShape,
		"Split": splitShape, "BatchNormalization": batchNormalizationShape,
		"Softmax": alongAxis(-1), "LogSoftmax": alongAxis(-1), "LpNormalization": alongAxis(-1), "ScatterElements": alongAxis(0),
		"LayerNormalization": layerNormalizationShape, "RMSNormalization": alongAxis(-1), "Einsum": einsumShape,
	}
	for _, op := range []string{
		"Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "Tanh", "Softplus", "Sign", "Abs", "Neg",
		"Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Identity", "Cast", "CastLike", "Clip", "Not", "Floor", "Ceil",
		"InstanceNormalization", "GroupNormalization",
		"QuantizeLinear", "DequantizeLinear", "HardSwish", "Gelu", "Mish", "Swish", "Dropout", "ThresholdedRelu", "Celu", "Softsign", "Sin", "Cos", "Round", "LRN",
		"RandomNormalLike", "RandomUniformLike", "Bernoulli",
	} {
		shapeRules[op] = sameShape
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Where", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "PRelu", "Sum", "Mean"} {
		shapeRules[op] = broadcastShape
	}
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd"} {
		shapeRules[op] = reduceShape
	}
	shapeRules["ArgMax"], shapeRules["ArgMin"] = argShape, argShape
	shapeRules["Mod"] = broadcastShape
	shapeRules["GatherElements"] = func(c *Inference, n *Node, in []Shape) ([]Shape, error) {
		_, err := alongAxis(0)(c, n, in)
		return []Shape{in[1]}, err
	}
}

// atLeast lists how many inputs an operator needs where that is not one.
var atLeast = map[string]int{
	"Constant": 0, "Conv": 2, "ConvTranspose": 2, "Gemm": 2, "MatMul": 2, "Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Pow": 2,
	"Equal": 2, "Greater": 2, "GreaterOrEqual": 2, "Less": 2, "LessOrEqual": 2, "And": 2, "Or": 2, "Mod": 2, "PRelu": 2,
	"Where": 3, "BatchNormalization": 5, "Gather": 2, "GatherElements": 2, "ScatterElements": 3, "Expand": 2, "OneHot": 3,
	"InstanceNormalization": 3, "GroupNormalization": 3, "LayerNormalization": 2, "RMSNormalization": 2, "CastLike": 2,
	"MaxUnpool": 2, "Tile": 2, "CumSum": 2, "ScatterND": 3, "GatherND": 2,
}

// CheckInputs refuses a node without the inputs that its operator must have.
func (n *Node) CheckInputs() error {
	need, ok := atLeast[n.Op]
	if !ok {
		need = 1
	}
	for i := range need {
		if n.Input(i) == "" {
			return fmt.Errorf("node %s: has no input %d", n.Label(), i)
		}
	}
	return nil
}

// alongAxis is the rule of operators that keep the shape and work along an axis,
// which must not be the batch.
func alongAxis(def int64) shapeRule {
	return func(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
		a, err := Axis(n, "axis", def, len(in[0]))
		if err == nil && in[0][a:].HasBatch() && (n.Op == "RMSNormalization" || in[0][a] < 0) {
			err = errors.New("works along the batch")
		}
		return []Shape{in[0]}, err
	}
}

// layerNormalizationShape gives the shapes of the result, the mean and the inverse
// standard deviation; the latter two have 1 for each axis that is normalised.
func layerNormalizationShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	first, err := Axis(n, "axis", -1, len(in[0]))
	if err != nil {
		return nil, err
	}
	over := in[0][first:]
	if over.HasBatch() {
		return nil, errors.New("works along the batch")
	}
	for i, s := range in[1:] {
		if n.Inputs[i+1] == "" {
			continue
		}
		if full, err := Broadcast(s, over); err != nil || !slices.Equal(full, over) {
			return nil, fmt.Errorf("its input %q has shape %v, which does not fit %v", n.Inputs[i+1], s, over)
		}
	}
	statistics := slices.Concat(in[0][:first], slices.Repeat(Shape{1}, len(over)))
	return []Shape{in[0], statistics, statistics}, nil
}

func batchNormalizationShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	if len(in[0]) < 2 {
		return nil, errors.New("needs a channel axis")
	}
	for i, s := range in[1:5] {
		if t, ok := c.Graph.Consts[n.Inputs[i+1]]; len(s) != 1 || s[0] != in[0][1] || ok && t.DType != Float {
			return nil, fmt.Errorf("its input %q has shape %v, not one float32 a channel", n.Inputs[i+1], s)
		}
	}
	return []Shape{in[0]}, nil
}

func sameShape(_ *Inference, _ *Node, in []Shape) ([]Shape, error) { return []Shape{in[0]}, nil }

// Broadcast returns the shape of an elementwise operation on a and b.
func Broadcast(a, b Shape) (Shape, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i := range b {
		j := len(a) - len(b) + i
		switch {
		case a[j] == b[i] || b[i] == 1:
		case a[j] == 1:
			out[j] = b[i]
		default:
			return nil, fmt.Errorf("shapes %v and %v do not broadcast", a, b)
		}
	}
	return out, nil
}

func broadcastShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	out := in[0]
	for i, s := range in[1:] {
		if n.Inputs[i+1] == "" {
			return nil, fmt.Errorf("has no input %d", i+1)
		}
		var err error
		if out, err = Broadcast(out, s); err != nil {
			return nil, err
		}
	}
	return []Shape{out}, nil
}

// Axes resolves possibly negative axes against a rank.
func Axes(axes []int64, rank int) ([]int, error) {
	out := make([]int, len(axes))
	for i, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if a < 0 || a >= int64(rank) {
			return nil, fmt.Errorf("axis %d is outside a tensor of rank %d", axes[i], rank)
		}
		out[i] = int(a)
	}
	return out, nil
}

// Axis resolves a possibly negative axis that an attribute names.
func Axis(n *Node, name string, def int64, rank int) (int, error) {
	a, err := Axes([]int64{n.Int(name, def)}, rank)
	if err != nil {
		return 0, err
	}
	return a[0], nil
}
