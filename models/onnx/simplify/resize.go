package simplify

import (
	"maps"
	"slices"

	"selfheal/models/onnx"
)

// openSizes brings a Resize to scales of every dimension or, without those, to the sizes of all but the batch. Sizes
// that name the batch, which they fix, become scales where they are whole: the form that ONNX Runtime runs fastest.
func openSizes(s *simplifier, n *onnx.Node) {
	x := s.g.Shapes[n.Inputs[0]]
	at := onnx.Sure(onnx.Axes(n.Ints("axes", nil), len(x)))
	delete(n.Attrs, "axes")
	if n.Input(3) == "" {
		if len(at) > 0 {
			all := spread("scales", onnx.Sure(s.FloatsOf(n, 2)), at, slices.Repeat([]float32{1}, len(x)))
			n.Inputs[2] = s.g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(all))
		}
		return
	}
	sizes := onnx.Sure(s.IntsOf(n, 3))
	if len(at) > 0 {
		all := slices.Clone(x)
		if i := slices.Index(all, onnx.Batch); i >= 0 {
			all[i] = onnx.BatchSize
		}
		sizes = spread("sizes", sizes, at, all)
	}
	onnx.Require(len(sizes) == len(x) && len(x) >= 2 && x[0] == onnx.Batch, "sizes %v don't fit %v", sizes, x)
	onnx.Require(s.isBatch(sizes[0]), "sizes %v fix the batch size", sizes)
	scales := []float32{1}
	for i, d := range sizes[1:] {
		onnx.Require(d >= 1 && x[i+1] >= 1, "sizes %v are out of range", sizes[1:])
		if d%x[i+1] == 0 {
			scales = append(scales, float32(d/x[i+1]))
		}
	}
	if len(scales) == len(sizes) {
		n.Inputs = []string{n.Inputs[0], "", s.g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(scales))}
		return
	}
	n.Inputs = []string{n.Inputs[0], "", "", s.g.AddConst(n.Outputs[0]+"/sizes", onnx.IntTensor(sizes[1:]...))}
	n.Set("axes", onnx.Range(1, len(sizes)))
}

func spread[T any](what string, values []T, at []int, all []T) []T {
	onnx.Require(len(values) == len(at), "%s %v don't fit %d axes", what, values, len(at))
	for i, a := range at {
		all[a] = values[i]
	}
	return all
}

// resize is openSizes, and turns the interpolation of lines into that of images one pixel high: ONNX Runtime takes a
// batch of lines for a volume, and an item's result would depend on its place in the batch.
func resize(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	openSizes(s, n)
	x := s.g.Shapes[n.Inputs[0]]
	if mode := n.Str("mode", "nearest"); len(x) != 3 || mode != "linear" && mode != "cubic" {
		return ""
	}
	out := onnx.Sure(s.ShapesOf(n, x))[0]
	onnx.Require(x[1] == out[1], "resizes the channels")
	inputs := []string{b.Op("Reshape", n.Inputs[0], b.Ints(0, x[1], 1, x[2])), ""}
	attrs := maps.Clone(n.Attrs)
	if n.Input(3) == "" {
		scale := onnx.Sure(s.FloatsOf(n, 2))[2]
		inputs = append(inputs, b.Const(onnx.FloatVector([]float32{1, 1, 1, scale})))
	} else {
		inputs = append(inputs, "", b.Ints(x[1], 1, out[2]))
		attrs["axes"] = onnx.Range(1, 4)
	}
	return b.Op("Reshape", b.OpWith("Resize", attrs, inputs...), b.Ints(0, x[1], out[2]))
}

// unpool resolves a MaxUnpool's output_shape, which names the batch: it is dropped where it says what follows from the
// window. Elsewhere the indices count in a tensor of that shape, and the node becomes a scatter within each item.
func unpool(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	if n.Input(2) == "" {
		return ""
	}
	x := s.g.Shapes[n.Inputs[0]]
	inferred := onnx.Unpooled(n, x)
	size := onnx.Sure(s.IntsOf(n, 2))
	onnx.Require(len(size) == len(x) && size[1] == x[1] && s.isBatch(size[0]),
		"output_shape %v doesn't fit %v", size, x)
	out := append(onnx.Shape{onnx.Batch, x[1]}, size[2:]...)
	onnx.Sure(out, out.Check())
	if slices.Equal(out, inferred) {
		n.Inputs = n.Inputs[:2]
		return ""
	}
	onnx.Require(slices.Equal(s.g.Shapes[n.Inputs[1]], x), "its indices have another shape than its input")
	items, planes := out.Items(), b.Ints(0, x.Items())
	flat := b.Op("Reshape", n.Inputs[0], planes)
	at := b.Op("Mod", b.Op("Reshape", n.Inputs[1], planes), b.Const(onnx.IntScalar(items)))
	zero := b.Op("Slice", flat, b.Ints(0), b.Ints(1), b.Ints(1))
	zeros := b.Op("Expand", b.Op("Clip", zero, b.Float(0), b.Float(0)), b.Ints(1, items))
	y := b.OpWith("ScatterElements", onnx.Attrs{"axis": 1}, zeros, at, flat)
	return b.Op("Reshape", y, b.Ints(append([]int64{0}, out[1:]...)...))
}
