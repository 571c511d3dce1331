package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// symBatch stands for the batch size inside a folded integer vector (the
// output of Shape), where -1 already means "infer" to Reshape.
const symBatch = int64(-1) << 62

// inference is what shape rules see of a graph: shapes and integer values.
type inference struct {
	g    *Graph
	ints map[string][]int64 // integer vectors known at this point, symBatch included
}

// InferNode computes the shapes of n's outputs from those of its inputs and
// stores them in g.Shapes. Operators without a rule are errors that name them.
func (g *Graph) InferNode(n *Node) error {
	return (&inference{g: g}).node(n)
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

func (c *inference) node(n *Node) error {
	rule, ok := shapeRules[n.Op]
	if !ok || n.Domain != "" {
		return fmt.Errorf("operator %s (node %s) is not supported", opName(n), n.Label())
	}
	if err := arity(n); err != nil {
		return err
	}
	in := make([]Shape, len(n.Inputs))
	for i, name := range n.Inputs {
		if name == "" {
			continue
		}
		s := c.g.Shapes[name]
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
		if err := out[i].check(); err != nil {
			return fmt.Errorf("node %s on %v: %w", n.Label(), in[0], err)
		}
		c.g.Shapes[name] = out[i]
	}
	return nil
}

// Bounds of one dimension and of the values in an item's tensor: far above what an
// image classifier has, and small enough that no arithmetic on shapes overflows.
const (
	maxDimension = 1 << 31
	maxItems     = 1 << 31
)

// check refuses shapes that no tensor of a batch can have.
func (s Shape) check() error {
	items, batches := int64(1), 0
	for _, d := range s {
		switch {
		case d == Batch:
			batches++
		case d < 1 || d > maxDimension:
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

// intsOf returns the value of an integer input that is known when the graph is read.
func (c *inference) intsOf(n *Node, i int) ([]int64, error) {
	name := n.Input(i)
	if t, ok := c.g.Consts[name]; ok && t.DType != Float {
		return t.Ints, nil
	}
	if v, ok := c.ints[name]; ok {
		return v, nil
	}
	return nil, fmt.Errorf("its input %q must be constant", name)
}

func (c *inference) floatsOf(n *Node, i int) ([]float32, error) {
	if t, ok := c.g.Consts[n.Input(i)]; ok && t.DType == Float {
		return t.Floats, nil
	}
	return nil, fmt.Errorf("its input %q must be constant", n.Input(i))
}

type shapeRule func(c *inference, n *Node, in []Shape) ([]Shape, error)

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
		"Split": splitShape, "BatchNormalization": batchNormalizationShape,
		"Softmax": alongAxis(-1), "LogSoftmax": alongAxis(-1), "LayerNormalization": alongAxis(-1), "ScatterElements": alongAxis(0),
	}
	for _, op := range []string{
		"Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "Tanh", "Softplus", "Sign", "Abs", "Neg",
		"Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Identity", "Cast", "Clip", "Not", "Floor", "Ceil",
		"InstanceNormalization", "GroupNormalization",
		"HardSwish", "Gelu", "Mish", "Dropout", "ThresholdedRelu",
	} {
		shapeRules[op] = sameShape
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Where", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "PRelu", "Sum", "Mean"} {
		shapeRules[op] = broadcastShape
	}
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"} {
		shapeRules[op] = reduceShape
	}
	shapeRules["ArgMax"], shapeRules["ArgMin"] = argShape, argShape
	shapeRules["Mod"] = broadcastShape
	shapeRules["GatherElements"] = func(c *inference, n *Node, in []Shape) ([]Shape, error) {
		_, err := alongAxis(0)(c, n, in)
		return []Shape{in[1]}, err
	}
}

// atLeast lists how many inputs an operator needs where that is not one.
var atLeast = map[string]int{
	"Constant": 0, "Conv": 2, "ConvTranspose": 2, "Gemm": 2, "MatMul": 2, "Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Pow": 2,
	"Equal": 2, "Greater": 2, "GreaterOrEqual": 2, "Less": 2, "LessOrEqual": 2, "And": 2, "Or": 2, "Mod": 2, "PRelu": 2,
	"Where": 3, "BatchNormalization": 5, "Gather": 2, "GatherElements": 2, "ScatterElements": 3, "Expand": 2, "OneHot": 3,
}

// arity refuses a node without the inputs that its operator must have.
func arity(n *Node) error {
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
	return func(_ *inference, n *Node, in []Shape) ([]Shape, error) {
		a, err := axis(n, "axis", def, len(in[0]))
		if err == nil && slices.Contains(in[0][a:], Batch) && (n.Op == "LayerNormalization" || in[0][a] == Batch) {
			err = errors.New("works along the batch")
		}
		return []Shape{in[0]}, err
	}
}

func batchNormalizationShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	if len(in[0]) < 2 {
		return nil, errors.New("needs a channel axis")
	}
	for i, s := range in[1:5] {
		if t, ok := c.g.Consts[n.Inputs[i+1]]; len(s) != 1 || s[0] != in[0][1] || ok && t.DType != Float {
			return nil, fmt.Errorf("its input %q has shape %v, not one float32 a channel", n.Inputs[i+1], s)
		}
	}
	return []Shape{in[0]}, nil
}

func sameShape(_ *inference, _ *Node, in []Shape) ([]Shape, error) { return []Shape{in[0]}, nil }

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

func broadcastShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
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

func axis(n *Node, name string, def int64, rank int) (int, error) {
	a, err := Axes([]int64{n.Int(name, def)}, rank)
	if err != nil {
		return 0, err
	}
	return a[0], nil
}

func reduceShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	var axes []int64
	if n.Input(1) != "" {
		var err error
		if axes, err = c.intsOf(n, 1); err != nil {
			return nil, err
		}
	}
	if len(axes) == 0 {
		if n.Int("noop_with_empty_axes", 0) == 1 {
			return []Shape{in[0]}, nil
		}
		for i := range in[0] {
			axes = append(axes, int64(i))
		}
	}
	return reduceAlong(in[0], axes, n.Int("keepdims", 1) == 1)
}

func reduceAlong(in Shape, axes []int64, keep bool) ([]Shape, error) {
	resolved, err := Axes(axes, len(in))
	if err != nil {
		return nil, err
	}
	var out Shape
	for i, d := range in {
		switch {
		case slices.Contains(resolved, i) && d == Batch:
			return nil, errors.New("reduces the batch")
		case !slices.Contains(resolved, i):
			out = append(out, d)
		case keep:
			out = append(out, 1)
		}
	}
	if out == nil {
		out = Shape{}
	}
	return []Shape{out}, nil
}

func argShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
	return reduceAlong(in[0], []int64{n.Int("axis", 0)}, n.Int("keepdims", 1) == 1)
}

func gemmShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
	if len(in) < 2 || len(in[0]) != 2 || len(in[1]) != 2 {
		return nil, errors.New("needs two matrices")
	}
	m, k := in[0][0], in[0][1]
	if n.Int("transA", 0) == 1 {
		m, k = k, m
	}
	k2, p := in[1][0], in[1][1]
	if n.Int("transB", 0) == 1 {
		k2, p = p, k2
	}
	if k != k2 || k == Batch {
		return nil, fmt.Errorf("inner dimensions of %v and %v differ or are the batch", in[0], in[1])
	}
	return []Shape{{m, p}}, nil
}

func matMulShape(_ *inference, _ *Node, in []Shape) ([]Shape, error) {
	if len(in) < 2 || len(in[0]) < 2 || len(in[1]) < 2 {
		return nil, errors.New("needs two inputs of rank 2 or more")
	}
	a, b := in[0], in[1]
	if k := a[len(a)-1]; k != b[len(b)-2] || k == Batch {
		return nil, fmt.Errorf("inner dimensions of %v and %v differ or are the batch", a, b)
	}
	lead, err := Broadcast(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return nil, err
	}
	return []Shape{append(slices.Clone(lead), a[len(a)-2], b[len(b)-1])}, nil
}

func topKShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	k, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
	a, err := axis(n, "axis", -1, len(in[0]))
	if err != nil {
		return nil, err
	}
	if len(k) != 1 || k[0] < 1 || in[0][a] == Batch || k[0] > in[0][a] {
		return nil, fmt.Errorf("can't take the top %v of %v", k, in[0])
	}
	out := slices.Clone(in[0])
	out[a] = k[0]
	return []Shape{out, out}, nil
}

func oneHotShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	depth, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
	if len(depth) != 1 || depth[0] < 1 || n.Int("axis", -1) != -1 {
		return nil, errors.New("needs one depth and the last axis")
	}
	return []Shape{append(slices.Clone(in[0]), depth[0])}, nil
}
