package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// A lowering writes a node by operators that are simpler and returns the tensor
// that holds the result; "" where the node stays as it is.
type lowering func(s *simplifier, b *onnx.Builder, n *onnx.Node) string

// lowerings are the operators that Simplify takes apart where they work on data:
// those that are a formula of few others, those that ONNX Runtime has no kernel for,
// and those whose kernel rounds differently with an item's place in the batch.
var lowerings map[string]lowering

func init() { // init breaks the cycle lowerings → rules → lowerings
	lowerings = map[string]lowering{
		"Sum": lowerVariadic, "Mean": lowerVariadic, "Min": lowerVariadic, "Max": lowerVariadic,
		"Cast": lowerCast, "CastLike": lowerCast, "Pow": lowerPow, "Swish": lowerSwish, "Einsum": lowerEinsum,
		"Softmax": lowerFlatSoftmax, "LogSoftmax": lowerFlatSoftmax,
		"InstanceNormalization": lowerGroupNorm, "GroupNormalization": lowerGroupNorm,
		"RMSNormalization": lowerRMSNorm, "LpNormalization": lowerLpNorm, "LRN": lowerLRN,
		"GridSample": lowerGridSample,
	}
	for op := range reductions {
		lowerings[op] = lowerReduction
	}
}

// tiny is the smallest normal float32. A norm is held at its root, so that the
// gradient at 0 is 0, as PyTorch's is, and not 0/0.
const tiny = 1.1754944e-38

// lower writes a node by its lowering; it reports false where it has none.
func (s *simplifier) lower(n *onnx.Node) bool {
	onData := slices.ContainsFunc(n.Inputs, s.hasBatch)
	if lowerings[n.Op] == nil || !onData && n.Op != "Softmax" && n.Op != "LogSoftmax" || // these change their meaning
		s.Node(n) != nil { // what is wrong with it is said there
		return false
	}
	s.SetTypes(n) // of its output, which other nodes will write
	return s.write(n, lowerings[n.Op])
}

// write writes a node by a rule; it reports false where there is none or the node stays.
func (s *simplifier) write(n *onnx.Node, rule lowering) bool {
	if rule == nil {
		return false
	}
	b, first := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}, len(s.g.Nodes)
	t := onnx.Sure(rule(s, b, n), b.Err())
	for _, made := range s.g.Nodes[first:] {
		made.Origin = n.Origin
	}
	if t != "" {
		s.become(n, t, first)
	}
	return t != ""
}

// become makes t, which has been computed in a node's stead by nodes from the first on, that node's output. A tensor
// made for it gets its name: users name cut tensors by the names that the file gives them.
func (s *simplifier) become(n *onnx.Node, t string, first int) {
	out := n.Outputs[0]
	if made := s.g.Nodes[first:]; len(made) > 0 && made[len(made)-1].Outputs[0] == t {
		made[len(made)-1].Outputs[0] = out
		s.g.Shapes[out] = s.g.Shapes[t]
		delete(s.g.Shapes, t)
		return
	}
	if s.leaveOut(n, t) {
		return
	}
	(&onnx.Builder{G: s.g}).Named(out, "Identity", t)
}

// Sum, Mean, Min and Max of any number of inputs as a chain of two at a time.
func lowerVariadic(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	onnx.Require(!slices.Contains(n.Inputs, ""), "has an input without a name")
	op := n.Op
	if op == "Sum" || op == "Mean" {
		op = "Add"
	} else if len(n.Inputs) == 2 {
		return ""
	}
	t := n.Inputs[0]
	for _, in := range n.Inputs[1:] {
		t = b.Op(op, t, in)
	}
	if n.Op == "Mean" && len(n.Inputs) > 1 {
		t = b.Op("Mul", t, b.Float(1/float32(len(n.Inputs))))
	}
	return t
}

// A Cast of floats to floats does nothing, and any other has no gradient. CastLike is
// a Cast to the type of its second input.
func lowerCast(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	to := onnx.DType(n.Int("to", 0))
	if n.Op == "CastLike" {
		to = s.TypeOf(n.Inputs[1])
	}
	switch {
	case to == onnx.Float && s.TypeOf(n.Inputs[0]) == onnx.Float:
		return n.Inputs[0]
	case n.Op == "CastLike":
		return b.OpWith("Cast", onnx.Attrs{"to": int(to)}, n.Inputs[0])
	}
	return ""
}

// xᵉ for the constants e that have an operator of their own.
func lowerPow(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x, e := n.Inputs[0], s.g.Consts[n.Inputs[1]]
	if e != nil && e.DType != onnx.Float && s.TypeOf(x) == onnx.Float {
		// The base's type counts; the exponent may be of another.
		e = floats(e.Shape, e.Ints)
		n.Inputs[1] = b.Const(e)
	}
	if e == nil || e.DType != onnx.Float || e.Len() != 1 || len(e.Shape) > len(s.g.Shapes[x]) {
		return ""
	}
	switch e.Floats[0] {
	case 1:
		return x
	case 2:
		return b.Op("Mul", x, x)
	case 0.5:
		return b.Op("Sqrt", x)
	case -1:
		return b.Op("Reciprocal", x)
	}
	return ""
}

// x·σ(αx)
func lowerSwish(_ *simplifier, b *onnx.Builder, n *onnx.Node) string {
	return b.Op("Mul", n.Inputs[0], b.Op("Sigmoid", scaled(b, n, "alpha", n.Inputs[0])))
}

// Before operator set 13, Softmax took everything from axis on as one dimension.
func lowerFlatSoftmax(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	if s.from >= 13 {
		return ""
	}
	x := s.g.Shapes[n.Inputs[0]]
	n.Set("axis", n.Int("axis", 1))
	first := n.AxisOf(len(x))
	n.Set("axis", -1)
	if first == len(x)-1 {
		return ""
	}
	onnx.Require(!x[first:].HasBatch(), "works along the batch")
	flat := append(slices.Clone(x[:first]), x[first:].Items())
	t := b.OpWith(n.Op, onnx.Attrs{"axis": -1}, b.Reshape(n.Inputs[0], flat))
	return b.Reshape(t, x)
}

// reductions are formulas along axes, which stay as dimensions of 1.
var reductions = map[string]func(b *onnx.Builder, x string, axes []int64) string{
	"ReduceSum":  (*onnx.Builder).Sum,
	"ReduceMean": (*onnx.Builder).Mean,
	"ReduceProd": product,
	"ReduceL2":   norm,
	"ReduceL1":   func(b *onnx.Builder, x string, axes []int64) string { return b.Sum(b.Op("Abs", x), axes) },
	"ReduceLogSum": func(b *onnx.Builder, x string, axes []int64) string {
		return b.Op("Log", b.Sum(x, axes))
	},
	"ReduceSumSquare": sumSquare,
}

// Without axes the node stays: it then works on all of a tensor without a batch, or on nothing.
func lowerReduction(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x := n.Inputs[0]
	at := onnx.Sure(onnx.Axes(onnx.Sure(s.IntsOr(n, 1, nil)), len(s.g.Shapes[x])))
	slices.Sort(at)
	axes := onnx.Each(slices.Compact(at), func(a int) int64 { return int64(a) })
	if len(axes) == 0 {
		return ""
	}
	if of := map[string]map[string]reduced{"ReduceMean": s.means, "ReduceSum": s.totals}[n.Op]; of != nil &&
		n.Int("keepdims", 1) == 1 {
		of[n.Outputs[0]] = reduced{in: x, axes: axes}
	}
	return b.Reshape(reductions[n.Op](b, x, axes), s.g.Shapes[n.Outputs[0]])
}

func sumSquare(b *onnx.Builder, x string, axes []int64) string { return b.Sum(b.Op("Mul", x, x), axes) }

// norm appends √Σx² along axes, which stay as dimensions of 1.
func norm(b *onnx.Builder, x string, axes []int64) string {
	return b.Op("Sqrt", b.Op("Clip", sumSquare(b, x, axes), b.Float(tiny)))
}

// product appends Πx along axes, with those axes as the last dimension, of 1: halves are multiplied until one value is
// left. So it has the right gradient where values are 0, which Πx/xᵢ has not.
func product(b *onnx.Builder, x string, axes []int64) string {
	shape := b.Shape(x)
	perm, kept := []int64{}, onnx.Shape{}
	for i, d := range shape {
		if !slices.Contains(axes, int64(i)) {
			perm, kept = append(perm, int64(i)), append(kept, d)
		}
	}
	size := shape.Items() / kept.Items()
	x = b.Reshape(b.Transpose(x, append(perm, axes...)...), append(kept, size))
	last := b.Ints(int64(len(kept)))
	for size > 1 && b.Err() == nil {
		half := size / 2
		part := func(from, to int64) string { return b.Op("Slice", x, b.Ints(from), b.Ints(to), last) }
		halves := b.Op("Mul", part(0, half), part(half, 2*half))
		if size%2 == 1 {
			halves = b.OpWith("Concat", onnx.Attrs{"axis": -1}, halves, part(size-1, size))
		}
		x, size = halves, (size+1)/2
	}
	return x
}

// affine appends x·scale + bias with one value a channel of each; what multiplies
// by 1 or adds 0 throughout, as PyTorch writes GroupNorm, is left out.
func affine(s *simplifier, b *onnx.Builder, x, scale, bias string) string {
	ones := slices.Repeat(onnx.Shape{1}, len(s.g.Shapes[x])-2)
	// [C, 1, …] broadcasts with [N, C, …]. It is made by a node, so that a weight keeps its name.
	channelwise := func(values string) string { return b.Reshape(values, slices.Concat(s.g.Shapes[values], ones)) }
	all := func(name string, v float32) bool {
		t, ok := s.g.Consts[name]
		return ok && !slices.ContainsFunc(t.Floats, func(f float32) bool { return f != v })
	}
	if !all(scale, 1) {
		x = b.Op("Mul", x, channelwise(scale))
	}
	if !all(bias, 0) {
		x = b.Op("Add", x, channelwise(bias))
	}
	return x
}

// standardise appends (x − mean)/√(variance + ε) over the last dimension.
func standardise(b *onnx.Builder, x string, epsilon float32) string {
	shape := b.Shape(x)
	d := shape[len(shape)-1]
	onnx.Require(d <= maxFold, "normalises %d values together, more than %d", d, maxFold)
	ones := b.Const(onnx.Filled(1, d))
	return b.OpWith("LayerNormalization", onnx.Attrs{"axis": -1, "epsilon": epsilon}, x, ones)
}

// imageOf is the shape of a node's input, which must be [N, C, …].
func imageOf(s *simplifier, n *onnx.Node) onnx.Shape {
	x := s.g.Shapes[n.Inputs[0]]
	onnx.Require(len(x) >= 3 && x[0] == onnx.Batch && slices.Min(x[1:]) >= 1, "works on [N, C, …], not on %v", x)
	return x
}

// Groups of channels normalised together, or every channel by itself. A group norm's scale and bias are per group in
// operator sets 18 to 20 and per channel since.
func lowerGroupNorm(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x := imageOf(s, n)
	groups, values, perGroup := x[1], x[1], n.Op == "GroupNormalization" && s.from < 21
	if n.Op == "GroupNormalization" {
		groups = n.Int("num_groups", 0)
		onnx.Require(groups >= 1 && x[1]%groups == 0, "splits %d channels into %d groups", x[1], groups)
	}
	if perGroup {
		values = groups
	}
	for _, in := range n.Inputs[1:3] {
		x := s.g.Shapes[in]
		onnx.Require(len(x) == 1 && x[0] == values, "its input %q has shape %v, not %d values", in, x, values)
	}
	t := b.Reshape(n.Inputs[0], onnx.Shape{onnx.Batch, groups, x[1:].Items() / groups})
	t = standardise(b, t, n.Float("epsilon", 1e-5))
	if perGroup {
		return b.Reshape(affine(s, b, t, n.Inputs[1], n.Inputs[2]), x)
	}
	return affine(s, b, b.Reshape(t, x), n.Inputs[1], n.Inputs[2])
}

// x/√(mean x² + ε)·scale over the axes from axis on
func lowerRMSNorm(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	rank := len(s.g.Shapes[n.Inputs[0]])
	mean := b.Mean(b.Op("Mul", n.Inputs[0], n.Inputs[0]), onnx.Range(n.AxisOf(rank), rank))
	inverse := b.Op("Reciprocal", b.Op("Sqrt", b.Op("Add", mean, b.Float(n.Float("epsilon", 1e-5)))))
	return b.Op("Mul", b.Op("Mul", n.Inputs[0], inverse), n.Inputs[1])
}

// x over its norm along one axis; 0 where that is 0
func lowerLpNorm(_ *simplifier, b *onnx.Builder, n *onnx.Node) string {
	along, p := []int64{n.Axis()}, n.Int("p", 2)
	onnx.Require(p == 1 || p == 2, "has p = %d; 1 and 2 are supported", p)
	if p == 2 {
		return b.Op("Div", n.Inputs[0], norm(b, n.Inputs[0], along))
	}
	return b.Op("Div", n.Inputs[0], b.Op("Clip", reductions["ReduceL1"](b, n.Inputs[0], along), b.Float(tiny)))
}

// x·(bias + α/size·Σ x²)^−β, the sum over size neighbouring channels: an AveragePool
// along the channels, which divides by size.
func lowerLRN(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x, size := imageOf(s, n), n.Int("size", 0)
	onnx.Require(size >= 1 && size <= maxFold, "has size %d", size)
	square := b.Reshape(b.Op("Mul", n.Inputs[0], n.Inputs[0]), onnx.Shape{onnx.Batch, 1, x[1], x[2:].Items()})
	mean := b.OpWith("AveragePool", onnx.Attrs{"kernel_shape": []int64{size, 1}, "strides": []int64{1, 1},
		"pads": []int64{(size - 1) / 2, 0, size / 2, 0}, "count_include_pad": 1}, square)
	base := b.Op("Add", b.Op("Mul", mean, b.Float(n.Float("alpha", 1e-4))), b.Float(n.Float("bias", 1)))
	factor := b.Op("Pow", base, b.Float(-n.Float("beta", 0.75)))
	return b.Op("Mul", n.Inputs[0], b.Reshape(factor, x))
}
