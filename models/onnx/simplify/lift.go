package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// A network without a batch, such as one whose input is a vector, computes one item. Its graph is lifted: every tensor
// that depends on the input gets the batch in front, and what its operators say of axes and shapes is said of those
// behind it.

// liftInput takes the whole input, also its first dimension, for one item.
func liftInput(g *onnx.Graph) {
	in := &g.Inputs[0]
	shape := onnx.Shape{onnx.Batch}
	for _, d := range in.Shape {
		shape = append(shape, max(d, 1)) // an open dimension is 1
	}
	in.Shape = shape
}

// lifted brings a node of such a network to the items of a batch. It reports true where it has been written by others.
func (s *simplifier) lifted(n *onnx.Node) bool {
	if !s.whole || !slices.ContainsFunc(n.Inputs, func(in string) bool { return s.g.Shapes[in].HasBatch() }) {
		return false
	}
	if n.Op == "Shape" {
		item := s.g.Shapes[n.Inputs[0]][1:]
		start, count, _ := onnx.SliceRange(n.Int("start", 0), n.Int("end", int64(len(item))), 1, int64(len(item)))
		return s.constant(n, onnx.IntTensor(item[start:start+count]...))
	}
	return s.write(n, lift)
}

// broadcast are operators that broadcast their inputs, beside the pointwise ones.
var broadcast = []string{"Sum", "Mean", "Where", "Swish", "Cast", "CastLike", "Dropout", "Equal", "Greater",
	"GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Not"}

// lift changes a node in place and returns "", or writes it by others.
func lift(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	item := s.item(n.Inputs[0])
	switch n.Op {
	case "MatMul":
		return s.liftMatMul(b, n)
	case "Gemm":
		return s.liftGemm(b, n)
	case "Reshape":
		n.Inputs[1] = b.Ints(slices.Concat([]int64{0}, onnx.Sure(s.IntsOf(n, 1)))...)
		onnx.Require(n.Int("allowzero", 0) == 0, "allows sizes of 0")
	case "Flatten":
		axis := int(n.Int("axis", 1))
		if axis < 0 {
			axis += len(item)
		}
		onnx.Require(axis >= 0 && axis <= len(item), "has no axis %d", axis)
		return b.Reshape(n.Inputs[0], onnx.Shape{onnx.Batch, item[:axis].Items(), item[axis:].Items()})
	case "Transpose":
		perm := n.Ints("perm", nil)
		if perm == nil {
			for i := range item {
				perm = append(perm, int64(len(item)-1-i))
			}
		}
		n.Set("perm", append([]int64{0}, behind(perm)...))
	case "Squeeze", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceProd",
		"ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp":
		var axes []int64
		if n.Input(1) != "" {
			axes = onnx.Sure(s.IntsOf(n, 1))
		} else if n.Op == "Squeeze" {
			axes = item.Ones()
		}
		if len(axes) == 0 && n.Op != "Squeeze" && n.Int("noop_with_empty_axes", 0) == 0 {
			for i := range item {
				axes = append(axes, int64(i))
			}
		}
		n.SetInput(1, b.Ints(behind(axes)...))
	case "Unsqueeze":
		n.Inputs[1] = b.Ints(behind(onnx.Sure(s.IntsOf(n, 1)))...)
	case "Slice":
		if n.Input(3) == "" {
			var axes []int64
			for i := range onnx.Sure(s.IntsOf(n, 1)) {
				axes = append(axes, int64(i))
			}
			n.SetInput(3, b.Ints(axes...))
		}
		n.Inputs[3] = b.Ints(behind(onnx.Sure(s.IntsOf(n, 3)))...)
	case "Pad":
		pads := onnx.Sure(s.IntsOf(n, 1))
		onnx.Require(len(pads) == 2*len(item), "pads %v don't fit the shape %v", pads, item)
		n.Inputs[1] = b.Ints(slices.Concat([]int64{0}, pads[:len(item)], []int64{0}, pads[len(item):])...)
	case "Softmax", "LogSoftmax", "Concat", "Split", "Gather", "LayerNormalization":
		def := map[string]int64{"Softmax": -1, "LogSoftmax": -1, "LayerNormalization": -1}[n.Op]
		if s.from < 13 && def < 0 && n.Op != "LayerNormalization" {
			def = 1
		}
		n.Set("axis", behind([]int64{n.Int("axis", def)})[0])
		if n.Op == "Concat" {
			s.repeatConstants(b, n)
		}
		onnx.Require(n.Op != "Gather" || !s.g.Shapes[n.Inputs[1]].HasBatch(), "picks by computed indices")
	case "Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization":
		return s.liftImage(b, n)
	default:
		onnx.Require(onnx.TraitsOf(n.Op).Pointwise || slices.Contains(broadcast, n.Op),
			"works on tensors without a batch, which is not supported for this operator")
		s.align(b, n)
	}
	return ""
}

// item is a tensor's shape without the batch in front.
func (s *simplifier) item(tensor string) onnx.Shape {
	x := s.g.Shapes[tensor]
	if x.HasBatch() {
		return x[1:]
	}
	return x
}

// behind are axes behind the batch.
func behind(axes []int64) []int64 {
	out := slices.Clone(axes)
	for i, a := range out {
		if a >= 0 {
			out[i] = a + 1
		}
	}
	return out
}

// align gives the operands of a broadcast as many dimensions behind the batch as the largest has.
func (s *simplifier) align(b *onnx.Builder, n *onnx.Node) {
	most := 0
	for _, in := range n.Inputs {
		most = max(most, len(s.item(in)))
	}
	for i, in := range n.Inputs {
		if x := s.g.Shapes[in]; x.HasBatch() && len(x)-1 < most {
			n.Inputs[i] = b.Reshape(in, slices.Concat(onnx.Shape{onnx.Batch},
				slices.Repeat(onnx.Shape{1}, most-(len(x)-1)), x[1:]))
		}
	}
}

// repeatConstants gives what a Concat joins to the data the batch in front.
func (s *simplifier) repeatConstants(b *onnx.Builder, n *onnx.Node) {
	data := n.Inputs[slices.IndexFunc(n.Inputs, func(in string) bool { return s.g.Shapes[in].HasBatch() })]
	for i, in := range n.Inputs {
		if x := s.g.Shapes[in]; !x.HasBatch() {
			onnx.Require(s.isFloat(in), "joins integers to the data")
			row := b.Reshape(in, append(onnx.Shape{1}, x...))
			n.Inputs[i] = b.Op("Add", row, s.batchZeros(b, data, len(x)+1, 0))
		}
	}
}

// liftMatMul: a vector on the right is a row of the batch times the transposed matrix.
func (s *simplifier) liftMatMul(b *onnx.Builder, n *onnx.Node) string {
	left, right := s.g.Shapes[n.Inputs[0]], s.g.Shapes[n.Inputs[1]]
	l, r := s.item(n.Inputs[0]), s.item(n.Inputs[1])
	switch both := left.HasBatch() && right.HasBatch(); {
	case !both && left.HasBatch() && len(r) == 2, !both && right.HasBatch() && len(r) >= 2 && len(l) == 2:
		return ""
	case !both && right.HasBatch() && len(r) == 1 && len(l) == 2:
		return b.Op("MatMul", n.Inputs[1], b.OpWith("Transpose", onnx.Attrs{"perm": []int64{1, 0}}, n.Inputs[0]))
	default:
		onnx.Require(both && len(l) == len(r) && len(l) >= 2, "multiplies %v and %v without a batch", l, r)
	}
	return ""
}

// liftGemm writes a Gemm as MatMul and Add.
func (s *simplifier) liftGemm(b *onnx.Builder, n *onnx.Node) string {
	factor := func(i int, attr string) string {
		x := s.g.Shapes[n.Inputs[i]]
		onnx.Require(len(s.item(n.Inputs[i])) == 2, "multiplies no matrices")
		switch {
		case n.Int(attr, 0) == 0:
			return n.Inputs[i]
		case x.HasBatch():
			return b.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 2, 1}}, n.Inputs[i])
		}
		return b.OpWith("Transpose", onnx.Attrs{"perm": []int64{1, 0}}, n.Inputs[i])
	}
	scaled := func(t, attr string) string {
		if v := n.Float(attr, 1); v != 1 {
			return b.Op("Mul", t, b.Float(v))
		}
		return t
	}
	t := scaled(b.Op("MatMul", factor(0, "transA"), factor(1, "transB")), "alpha")
	if c := n.Input(2); c != "" {
		sum := &onnx.Node{Inputs: []string{t, scaled(c, "beta")}}
		s.align(b, sum)
		t = b.Op("Add", sum.Inputs...)
	}
	return t
}

// liftImage has an operator that wants a batch of its own take the item's first dimension, which is 1, for it.
func (s *simplifier) liftImage(b *onnx.Builder, n *onnx.Node) string {
	x := s.g.Shapes[n.Inputs[0]]
	onnx.Require(len(x) > 2 && x[1] == 1, "works on a batch of %d in a network without one", append(x, 1)[1])
	onnx.Require(len(n.Outputs) == 1 && !slices.ContainsFunc(n.Inputs[1:], func(in string) bool {
		return s.g.Shapes[in].HasBatch()
	}), "has computed weights, which is not supported in a network without a batch")
	inner := n.Clone()
	inner.Inputs[0] = b.Reshape(n.Inputs[0], slices.Concat(onnx.Shape{onnx.Batch}, x[2:]))
	inner.Outputs = []string{s.g.Fresh(n.Outputs[0] + "/items")}
	b.Append(inner)
	y := b.Shape(inner.Outputs[0])
	onnx.Require(b.Err() == nil, "%v", b.Err())
	return b.Reshape(inner.Outputs[0], slices.Concat(onnx.Shape{onnx.Batch, 1}, y[1:]))
}
