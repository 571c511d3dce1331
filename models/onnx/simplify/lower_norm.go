package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

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
	first := onnx.Sure(onnx.Axis(n, "axis", -1, rank))
	mean := b.Mean(b.Op("Mul", n.Inputs[0], n.Inputs[0]), onnx.Range(first, rank))
	inverse := b.Op("Reciprocal", b.Op("Sqrt", b.Op("Add", mean, b.Float(n.Float("epsilon", 1e-5)))))
	return b.Op("Mul", b.Op("Mul", n.Inputs[0], inverse), n.Inputs[1])
}

// x over its norm along one axis; 0 where that is 0
func lowerLpNorm(_ *simplifier, b *onnx.Builder, n *onnx.Node) string {
	along, p := []int64{n.Int("axis", -1)}, n.Int("p", 2)
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
