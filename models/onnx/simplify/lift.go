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

// item1 gives the nodes of a file the batch of 1 that it was exported with, as a dimension of each item.
func (s *simplifier) item1(in *onnx.Value) {
	file, items := in.Name, s.g.Fresh(in.Name+"/items")
	in.Name, s.g.Shapes[items] = items, in.Shape
	shape := onnx.IntTensor(slices.Insert(onnx.Each(in.Shape, func(d int64) int64 { return max(d, -1) }), 1, 1)...)
	b := &onnx.Builder{G: s.g, Prefix: items + "/"}
	b.Named(file, "Reshape", items, b.Const(shape))
	onnx.Must(b.Err())
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
	"GlobalMaxPool": liftImage, "BatchNormalization": liftImage, "ConvTranspose": liftImage, "LpPool": liftImage,
	"GlobalLpPool": liftImage, "Resize": liftImage, "InstanceNormalization": liftImage, "GroupNormalization": liftImage,
	"LRN": liftImage, "DepthToSpace": liftImage, "SpaceToDepth": liftImage, "ArgMax": liftAxis, "ArgMin": liftAxis,
	"TopK": liftAxis, "LpNormalization": liftAxis, "RMSNormalization": liftAxis, "Trilu": liftTrilu,
	"CumSum": liftSum, "Tile": liftTile, "Expand": liftExpand, "GatherElements": liftElements,
	"ScatterElements": liftElements, "GatherND": liftGatherND, "ScatterND": liftScatterND, "Einsum": liftEinsum,
	"OneHot": liftAxis, "RandomNormalLike": liftNothing, "RandomUniformLike": liftNothing, "Bernoulli": liftNothing,
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
	item, axis := s.item(n.Inputs[0]), int(n.Axis())
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
	axis := n.Axis()
	if s.from < 13 && strings.HasSuffix(n.Op, "Softmax") {
		axis = n.Int("axis", 1)
	}
	n.Set("axis", behind([]int64{axis})[0])
	onnx.Require(n.Op != "Gather" || !s.hasBatch(n.Inputs[1]), "picks by computed indices")
	return ""
}

func liftNothing(*simplifier, *onnx.Builder, *onnx.Node) string { return "" }

func liftTrilu(s *simplifier, _ *onnx.Builder, n *onnx.Node) string {
	onnx.Require(len(s.item(n.Inputs[0])) > 1, "needs matrices")
	return ""
}

func liftSum(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	at := s.g.Consts[n.Inputs[1]]
	onnx.Require(at != nil && len(at.Ints) == 1, "adds up along no axis that is known")
	n.Inputs[1] = b.Const(onnx.IntScalar(behind(at.Ints)[0]))
	return ""
}

func liftTile(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	n.Inputs[1] = b.Ints(slices.Concat([]int64{1}, onnx.Sure(s.IntsOf(n, 1)))...)
	return ""
}

// liftExpand: ONNX Runtime's operator takes 1 for "as it is".
func liftExpand(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	target := onnx.Sure(s.IntsOf(n, 1))
	if x := s.g.Shapes[n.Inputs[0]]; len(x)-1 < len(target) {
		n.Inputs[0] = b.Reshape(n.Inputs[0], append(onnx.Shape{onnx.Batch}, x[1:].Padded(len(target))...))
	}
	target = onnx.Shape(target).Padded(len(s.item(n.Inputs[0])))
	n.Inputs[1] = b.Ints(slices.Concat([]int64{1}, target)...)
	return ""
}

// liftElements gives indices, and what they are for, the batch's 1 in front where all items share them: [openIndices]
// repeats them then.
func liftElements(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	n.Set("axis", behind([]int64{n.Axis()})[0])
	for i, in := range n.Inputs {
		if !s.hasBatch(in) {
			n.Inputs[i] = s.row(b, in)
		}
	}
	return ""
}

// flatPlaces are the places that constant indices pick among the first dimensions of an item, made one; depth is how
// many these are.
func (s *simplifier) flatPlaces(n *onnx.Node, item onnx.Shape) (at *onnx.Tensor, depth int) {
	c, ok := s.g.Consts[n.Inputs[1]]
	onnx.Require(ok && c.DType == onnx.Int64 && len(c.Shape) > 0 && n.Int("batch_dims", 0) == 0,
		"is supported with constant indices and batch_dims of 0 only")
	last := len(c.Shape) - 1
	depth = int(c.Shape[last])
	onnx.Require(depth >= 1 && depth <= len(item), "indices of shape %v don't fit %v", c.Shape, item)
	onnx.Require(!item[:depth].HasBatch(), "picks from the batch")
	at = &onnx.Tensor{DType: onnx.Int64, Shape: slices.Clone(c.Shape[:last])}
	for index := range slices.Chunk(c.Ints, depth) {
		place := int64(0)
		for a, v := range index {
			if v < -item[a] || v >= item[a] {
				onnx.Refuse("index %d is outside %v", v, item)
			}
			place = place*item[a] + (v+item[a])%item[a]
		}
		at.Ints = append(at.Ints, place)
	}
	return at, depth
}

func liftGatherND(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	onnx.Require(s.hasBatch(n.Inputs[0]), "picks by computed indices")
	item := s.item(n.Inputs[0])
	at, depth := s.flatPlaces(n, item)
	t := b.Reshape(n.Inputs[0], slices.Concat(onnx.Shape{onnx.Batch, item[:depth].Items()}, item[depth:]))
	return b.OpWith("Gather", onnx.Attrs{"axis": 1}, t, b.Const(at))
}

// liftScatterND picks, at each place, what was last put there, or else what was there.
func liftScatterND(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	onnx.Require(n.Str("reduction", "none") == "none", "reduces what it puts in")
	item := s.item(n.Inputs[0])
	at, depth := s.flatPlaces(n, item)
	places := item[:depth].Items()
	onnx.Require(places <= maxFold, "has %d places", places)
	from := onnx.Range(0, int(places))
	for i, place := range at.Ints {
		from[place] = places + int64(i)
	}
	updates := int64(len(at.Ints))
	onnx.Require(s.item(n.Inputs[2]).Items() == updates*item[depth:].Items(), "its updates don't fit")
	part := func(in string, rows int64) string {
		if !s.hasBatch(in) {
			in = s.row(b, in)
		}
		shape := slices.Concat(onnx.Shape{onnx.Batch, rows}, item[depth:])
		if !s.hasBatch(in) {
			shape[0] = 1
			return s.repeated(b, b.Reshape(in, shape), n.Inputs[slices.IndexFunc(n.Inputs, s.hasBatch)], 0)
		}
		return b.Reshape(in, shape)
	}
	all := b.OpWith("Concat", onnx.Attrs{"axis": 1}, part(n.Inputs[0], places), part(n.Inputs[2], updates))
	t := b.OpWith("Gather", onnx.Attrs{"axis": 1}, all, b.Ints(from...))
	return b.Reshape(t, slices.Concat(onnx.Shape{onnx.Batch}, item))
}

// liftEinsum gives the items' operands and the result one more index, which stands for the batch.
func liftEinsum(s *simplifier, _ *onnx.Builder, n *onnx.Node) string {
	left, right, explicit := strings.Cut(strings.ReplaceAll(n.Str("equation", ""), " ", ""), "->")
	letter := ""
	for l := 'A'; l <= 'Z' && letter == ""; l++ {
		if !strings.ContainsRune(left+right, l) {
			letter = string(l)
		}
	}
	terms := strings.Split(left, ",")
	onnx.Require(explicit && letter != "" && len(terms) == len(n.Inputs), "its equation %.60q is not supported", left)
	for i, in := range n.Inputs {
		if s.hasBatch(in) {
			terms[i] = letter + terms[i]
		}
	}
	n.Set("equation", strings.Join(terms, ",")+"->"+letter+right)
	return ""
}

// liftConcat gives what is joined to the data the batch in front.
func liftConcat(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	liftAxis(s, b, n)
	data := n.Inputs[slices.IndexFunc(n.Inputs, s.hasBatch)]
	for i, in := range n.Inputs {
		if x := s.g.Shapes[in]; !x.HasBatch() {
			n.Inputs[i] = s.repeated(b, s.row(b, in), data, 0)
		}
	}
	return ""
}

// row is a tensor that all items share with the batch's 1 in front.
func (s *simplifier) row(b *onnx.Builder, shared string) string {
	row := b.Reshape(shared, append(onnx.Shape{1}, s.g.Shapes[shared]...))
	s.SetType(row, s.TypeOf(shared))
	return row
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
