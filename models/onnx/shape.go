package onnx

import (
	"cmp"
	"fmt"
	"slices"
)

// BatchSize stands for the batch size in a folded integer vector (the output of Shape), because Reshape already reads
// -1 as "infer".
const BatchSize = int64(-1) << 62

// BatchSizes returns the number that stands for k times the batch size, for k up to MaxDimension.
func BatchSizes(k int64) int64 { return BatchSize + k - 1 }

// BatchFactor returns the k of BatchSizes; 0 for an ordinary number.
func BatchFactor(v int64) int64 {
	if k := v - BatchSize + 1; v < BatchSize+MaxDimension && k >= 1 {
		return k
	}
	return 0
}

// BatchIndex returns the first index in v of a multiple of the batch size, or -1.
func BatchIndex(v []int64) int {
	return slices.IndexFunc(v, func(d int64) bool { return BatchFactor(d) > 0 })
}

// Inference holds the state of the rules for shapes and element types, which visit a graph's nodes in order. The zero
// value with Graph set is ready to use.
type Inference struct {
	Graph *Graph
	Ints  map[string][]int64 // known integer vectors that hold multiples of the batch size

	types map[string]DType // element types of nodes' outputs, other than Float
	// mixes allows sums over the batch, as in gradients by parameters. In a user's network items must not affect each
	// other.
	mixes bool
}

// InferNode computes the shapes of n's outputs from its inputs' and stores them in g.Shapes. Operators without a rule
// are errors that name them.
func (g *Graph) InferNode(n *Node) error {
	return (&Inference{Graph: g, mixes: true}).Node(n)
}

// Node computes the shapes of n's outputs, as [Graph.InferNode] does.
func (c *Inference) Node(n *Node) (err error) {
	defer Refused(&err)
	Require(TraitsOf(n.Op).shape != nil && n.Domain == "", "operator %s (node %s) is not supported", opName(n), n)
	n.CheckInputs()
	in := make([]Shape, len(n.Inputs))
	for i, name := range n.Inputs {
		in[i] = c.Graph.Shapes[name]
		Require(name == "" || in[i] != nil, "node %s: the shape of %q is not known", n, name)
	}
	out, err := c.ShapesOf(n, in...)
	for i, name := range n.Outputs {
		if name == "" || err != nil {
			continue
		}
		Require(i < len(out), "node %s: its output %q is not supported", n, name)
		err = out[i].Check()
		c.Graph.Shapes[name] = append(Shape{}, out[i]...) // not nil, which means unknown
	}
	if err != nil {
		Refuse("node %s on %v: %w", n, in[0], err)
	}
	return nil
}

// ShapesOf returns the shapes of n's outputs for inputs of the given shapes. The operator must have a rule.
func (c *Inference) ShapesOf(n *Node, in ...Shape) (out []Shape, err error) {
	defer Refused(&err)
	out = TraitsOf(n.Op).shape(c, n, in)
	if !c.mixes {
		n.batched(in, out)
	}
	return out, nil
}

// A shapeRule returns the shapes of a node's outputs for its inputs' shapes, or refuses the node.
type shapeRule func(c *Inference, n *Node, in []Shape) []Shape

// Bounds on one dimension and on the values in an item's tensor: far above an image classifier's, and small enough that
// arithmetic on shapes cannot overflow.
const (
	MaxDimension = 1 << 31
	maxItems     = 1 << 31
)

// Check refuses shapes that a tensor of a batch cannot have.
func (s Shape) Check() (err error) {
	defer Refused(&err)
	items, batches := int64(1), 0
	for _, d := range s {
		if d < 0 {
			batches, d = batches+1, -d
		}
		Require(d >= 1 && d <= MaxDimension, "gives the impossible shape %v", s)
		Require(items <= maxItems/d, "gives the shape %v, more than %d values an item", s, int64(maxItems))
		items *= d
	}
	Require(batches <= 1, "gives the shape %v, the batch by itself", s)
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

// byInts makes a rule that reads its second input's integers.
func byInts(rule func(c *Inference, n *Node, in []Shape, v []int64) []Shape) shapeRule {
	return func(c *Inference, n *Node, in []Shape) []Shape { return rule(c, n, in, Sure(c.IntsOf(n, 1))) }
}

// byAxis makes a rule that reads the attribute axis of its first input.
func byAxis(rule func(c *Inference, n *Node, in []Shape, axis int) []Shape) shapeRule {
	return func(c *Inference, n *Node, in []Shape) []Shape { return rule(c, n, in, n.AxisOf(len(in[0]))) }
}

// IntsOr is IntsOf, or returns def if the input is absent.
func (c *Inference) IntsOr(n *Node, i int, def []int64) ([]int64, error) {
	if n.Input(i) == "" {
		return def, nil
	}
	return c.IntsOf(n, i)
}

// FloatsOf returns the value of a constant float input.
func (c *Inference) FloatsOf(n *Node, i int) ([]float32, error) {
	if t, ok := c.Graph.Consts[n.Input(i)]; ok && t.DType == Float {
		return t.Floats, nil
	}
	return nil, fmt.Errorf("its input %q must be constant", n.Input(i))
}

// CheckInputs refuses a node that lacks required inputs.
func (n *Node) CheckInputs() {
	traits, known := operators[n.Op]
	if !known {
		return
	}
	for i := range cmp.Or(traits.Inputs, 1) {
		Require(n.Input(i) != "", "node %s: has no input %d", n, i)
	}
}

// alongAxis is the rule of operators that keep the shape and work along an axis other than the batch.
func alongAxis(_ *Inference, n *Node, in []Shape) []Shape {
	a := n.AxisOf(len(in[0]))
	behind := n.Op == "RMSNormalization" && in[0][a:].HasBatch()
	Require(in[0][a] >= 0 && !behind, "works along the batch")
	return in[:1]
}

// layerNormalizationShape returns the shapes of the result, the mean and the inverse standard deviation; the latter two
// have size 1 in each normalised axis.
func layerNormalizationShape(_ *Inference, n *Node, in []Shape, first int) []Shape {
	over := in[0][first:]
	Require(!over.HasBatch(), "works along the batch")
	for i, s := range in[1:] {
		full, err := Broadcast(s, over)
		Require(n.Inputs[i+1] == "" || err == nil && slices.Equal(full, over),
			"its input %q has shape %v, which does not fit %v", n.Inputs[i+1], s, over)
	}
	statistics := slices.Concat(in[0][:first], slices.Repeat(Shape{1}, len(over)))
	return []Shape{in[0], statistics, statistics}
}

func batchNormShape(c *Inference, n *Node, in []Shape) []Shape {
	Require(len(in[0]) >= 2, "needs a channel axis")
	for i, s := range in[1:5] {
		t, constant := c.Graph.Consts[n.Inputs[i+1]]
		Require(len(s) == 1 && s[0] == in[0][1] && (!constant || t.DType == Float),
			"its input %q has shape %v, not one float32 a channel", n.Inputs[i+1], s)
	}
	return in[:1]
}

// Ones lists the axes whose size is 1.
func (s Shape) Ones() (axes []int64) {
	for i, d := range s {
		if d == 1 {
			axes = append(axes, int64(i))
		}
	}
	return axes
}

// Padded returns the shape with sizes of 1 in front, up to a rank, as broadcasting does.
func (s Shape) Padded(rank int) Shape {
	return slices.Concat(slices.Repeat(Shape{1}, max(0, rank-len(s))), s)
}

// Strides returns a tensor's strides, with the last axis fastest; 0 along axes of size 1, which broadcast.
func (s Shape) Strides() []int64 {
	strides, size := make([]int64, len(s)), int64(1)
	for i, d := range slices.Backward(s) {
		if d != 1 {
			strides[i] = size
		}
		size *= d
	}
	return strides
}

// Places lists Σ index·step for every index into the shape, with the last axis fastest.
func (s Shape) Places(step []int64) []int64 {
	places := []int64{0}
	for axis, d := range s {
		var next []int64
		for _, p := range places {
			for i := range d {
				next = append(next, p+i*step[axis])
			}
		}
		places = next
	}
	return places
}

func sameShape(_ *Inference, _ *Node, in []Shape) []Shape { return in[:1] }

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

func broadcastShape(_ *Inference, n *Node, in []Shape) []Shape {
	out := in[0]
	for i, s := range in[1:] {
		Require(n.Inputs[i+1] != "", "has no input %d", i+1)
		out = Sure(Broadcast(out, s))
	}
	return []Shape{out}
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

// Axis returns the attribute axis, or the operator's default.
func (n *Node) Axis() int64 { return n.Int("axis", TraitsOf(n.Op).Axis) }

// AxisOf returns the place of that axis in a tensor of so many dimensions, or refuses the node.
func (n *Node) AxisOf(rank int) int { return Sure(Axes([]int64{n.Axis()}, rank))[0] }

// PerAxis returns the shape in which a quantising node's values broadcast against x: one in all, or one for each index
// of its axis.
func PerAxis(n *Node, x Shape, values int64) Shape {
	if values == 1 {
		return Shape{}
	}
	return append(Shape{values}, slices.Repeat(Shape{1}, len(x)-n.AxisOf(len(x))-1)...)
}

// Each returns f of each value.
func Each[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// Range lists from, from + 1, … up to but not including to.
func Range(from, to int) []int64 {
	list := make([]int64, 0, max(0, to-from))
	for i := from; i < to; i++ {
		list = append(list, int64(i))
	}
	return list
}
