package simplify

import (
	"slices"
	"strings"

	"selfheal/models/onnx"
)

// A network without a batch, such as one whose input is a vector, computes one item. Its graph is lifted: every tensor
// that depends on the input gets the batch in front, and what its operators say of axes and shapes is said of those
// behind it.

// liftInput takes the whole input, also its first dimension, for one item.
func liftInput(g *onnx.Graph) {
	in := &g.Inputs[0]
	in.Shape = append(onnx.Shape{onnx.Batch}, in.Shape.Single()...)
}

// lifted brings a node of such a network to the items of a batch. It reports true where it has been written by others.
func (s *simplifier) lifted(n *onnx.Node) bool {
	if !s.whole || !slices.ContainsFunc(n.Inputs, s.hasBatch) {
		return false
	}
	if n.Op == "Shape" {
		return s.constant(n, onnx.IntTensor(sizesOf(n, s.item(n.Inputs[0]))...))
	}
	rule := lifts[n.Op]
	switch {
	case rule != nil:
	case strings.HasPrefix(n.Op, "Reduce"):
		rule = liftAxes
	default:
		onnx.Require(onnx.TraitsOf(n.Op).Pointwise || slices.Contains(broadcast, n.Op),
			"works on tensors without a batch, which is not supported for this operator")
		rule = align
	}
	return s.write(n, rule)
}

func (s *simplifier) hasBatch(tensor string) bool { return s.g.Shapes[tensor].HasBatch() }

// lifts change nodes in place and return "", or write them by others.
var lifts = map[string]lowering{
	"MatMul": liftMatMul, "Gemm": liftGemm, "Reshape": liftReshape, "Flatten": liftFlatten, "Transpose": liftTranspose,
	"Squeeze": liftAxes, "Unsqueeze": liftAxes, "Slice": liftSlice, "Pad": liftPad, "Softmax": liftAxis,
	"LogSoftmax": liftAxis, "LayerNormalization": liftAxis, "Concat": liftConcat, "Split": liftAxis, "Gather": liftAxis,
	"Conv": liftImage, "MaxPool": liftImage, "AveragePool": liftImage, "GlobalAveragePool": liftImage,
	"GlobalMaxPool": liftImage, "BatchNormalization": liftImage,
}

// broadcast are operators that broadcast their inputs, beside the pointwise ones.
var broadcast = []string{"Sum", "Mean", "Where", "Swish", "Cast", "CastLike", "Dropout", "Equal", "Greater",
	"GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Not"}

func (s *simplifier) item(tensor string) onnx.Shape {
	x := s.g.Shapes[tensor]
	if x.HasBatch() {
		return x[1:]
	}
	return x
}

func behind(axes []int64) []int64 {
	return onnx.Each(axes, func(a int64) int64 {
		if a < 0 {
			return a
		}
		return a + 1
	})
}

func liftReshape(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	n.Inputs[1] = b.Ints(slices.Concat([]int64{0}, onnx.Sure(s.IntsOf(n, 1)))...)
	onnx.Require(n.Int("allowzero", 0) == 0, "allows sizes of 0")
	return ""
}

func liftFlatten(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	item, axis := s.item(n.Inputs[0]), int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(item)
	}
	onnx.Require(axis >= 0 && axis <= len(item), "has no axis %d", axis)
	return b.Reshape(n.Inputs[0], onnx.Shape{onnx.Batch, item[:axis].Items(), item[axis:].Items()})
}

func liftTranspose(s *simplifier, _ *onnx.Builder, n *onnx.Node) string {
	perm := onnx.Range(0, len(s.item(n.Inputs[0])))
	slices.Reverse(perm)
	n.Set("perm", append([]int64{0}, behind(n.Ints("perm", perm))...))
	return ""
}

// liftAxes is for operators whose second input lists axes: where it is absent, a reduction takes all, and a Squeeze
// those of size 1.
func liftAxes(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	item, axes := s.item(n.Inputs[0]), onnx.Sure(s.IntsOr(n, 1, nil))
	switch {
	case n.Op == "Squeeze" && n.Input(1) == "":
		axes = item.Ones()
	case len(axes) == 0 && strings.HasPrefix(n.Op, "Reduce") && n.Int("noop_with_empty_axes", 0) == 0:
		axes = onnx.Range(0, len(item))
	}
	n.SetInput(1, b.Ints(behind(axes)...))
	return ""
}

func liftSlice(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	if n.Input(3) == "" {
		n.SetInput(3, b.Ints(onnx.Range(0, len(onnx.Sure(s.IntsOf(n, 1))))...))
	}
	n.Inputs[3] = b.Ints(behind(onnx.Sure(s.IntsOf(n, 3)))...)
	return ""
}

func liftPad(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	item, pads := s.item(n.Inputs[0]), onnx.Sure(s.IntsOf(n, 1))
	onnx.Require(len(pads) == 2*len(item), "pads %v don't fit the shape %v", pads, item)
	n.Inputs[1] = b.Ints(slices.Concat([]int64{0}, pads[:len(item)], []int64{0}, pads[len(item):])...)
	return ""
}

func liftAxis(s *simplifier, _ *onnx.Builder, n *onnx.Node) string {
	def := map[string]int64{"Softmax": -1, "LogSoftmax": -1, "LayerNormalization": -1}[n.Op]
	if s.from < 13 && strings.HasSuffix(n.Op, "Softmax") {
		def = 1
	}
	n.Set("axis", behind([]int64{n.Int("axis", def)})[0])
	onnx.Require(n.Op != "Gather" || !s.hasBatch(n.Inputs[1]), "picks by computed indices")
	return ""
}

// liftConcat gives what is joined to the data the batch in front.
func liftConcat(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	liftAxis(s, b, n)
	data := n.Inputs[slices.IndexFunc(n.Inputs, s.hasBatch)]
	for i, in := range n.Inputs {
		if x := s.g.Shapes[in]; !x.HasBatch() {
			onnx.Require(s.isFloat(in), "joins integers to the data")
			row := b.Reshape(in, append(onnx.Shape{1}, x...))
			n.Inputs[i] = b.Op("Add", row, s.batchZeros(b, data, len(x)+1, 0))
		}
	}
	return ""
}

// align gives the operands of a broadcast as many dimensions behind the batch as the largest has.
func align(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	most := 0
	for _, in := range n.Inputs {
		most = max(most, len(s.item(in)))
	}
	for i, in := range n.Inputs {
		if x := s.g.Shapes[in]; x.HasBatch() && len(x)-1 < most {
			n.Inputs[i] = b.Reshape(in, append(onnx.Shape{onnx.Batch}, x[1:].Padded(most)...))
		}
	}
	return ""
}

// liftMatMul: a vector on the right is a row of the batch times the transposed matrix.
func liftMatMul(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	left, right := s.hasBatch(n.Inputs[0]), s.hasBatch(n.Inputs[1])
	l, r := s.item(n.Inputs[0]), s.item(n.Inputs[1])
	switch {
	case left && !right && len(r) == 2, right && !left && len(r) >= 2 && len(l) == 2:
	case right && !left && len(r) == 1 && len(l) == 2:
		return b.Op("MatMul", n.Inputs[1], b.Transpose(n.Inputs[0], 1, 0))
	default:
		onnx.Require(left && right && len(l) == len(r) && len(l) >= 2, "multiplies %v and %v without a batch", l, r)
	}
	return ""
}

func liftGemm(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	factor := func(i int, attr string) string {
		onnx.Require(len(s.item(n.Inputs[i])) == 2, "multiplies no matrices")
		perm := []int64{1, 0}
		if s.hasBatch(n.Inputs[i]) {
			perm = []int64{0, 2, 1}
		}
		if n.Int(attr, 0) == 0 {
			return n.Inputs[i]
		}
		return b.Transpose(n.Inputs[i], perm...)
	}
	t := scaled(b, n, "alpha", b.Op("MatMul", factor(0, "transA"), factor(1, "transB")))
	if c := n.Input(2); c != "" {
		sum := &onnx.Node{Inputs: []string{t, scaled(b, n, "beta", c)}}
		align(s, b, sum)
		t = b.Op("Add", sum.Inputs...)
	}
	return t
}

func scaled(b *onnx.Builder, n *onnx.Node, factor, t string) string {
	if v := n.Float(factor, 1); v != 1 {
		t = b.Op("Mul", t, b.Float(v))
	}
	return t
}

// liftImage has an operator that wants a batch of its own take the item's first dimension, which is 1, for it.
func liftImage(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x := s.g.Shapes[n.Inputs[0]]
	onnx.Require(len(x) > 2 && x[1] == 1, "works on a batch of %d in a network without one", append(x, 1)[1])
	onnx.Require(len(n.Outputs) == 1 && !slices.ContainsFunc(n.Inputs[1:], s.hasBatch),
		"has computed weights, which is not supported in a network without a batch")
	inner := n.Clone()
	inner.Inputs[0] = b.Reshape(n.Inputs[0], slices.Concat(onnx.Shape{onnx.Batch}, x[2:]))
	inner.Outputs = []string{s.g.Fresh(n.Outputs[0] + "/items")}
	b.Append(inner)
	y := b.Shape(inner.Outputs[0])
	onnx.Require(b.Err() == nil, "%v", b.Err())
	return b.Reshape(inner.Outputs[0], slices.Concat(onnx.Shape{onnx.Batch, 1}, y[1:]))
}
