package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// maxFoldedTable bounds the integer tables that foldTable evaluates.
const maxFoldedTable = 1 << 12

// foldTable evaluates a Transpose or Slice of a small constant of integers: the
// pads that PyTorch lists by axis from the last are put in order by these.
func (s *simplifier) foldTable(n *onnx.Node) (bool, error) {
	x, ok := s.g.Consts[n.Input(0)]
	if !ok || x.DType == onnx.Float || len(x.Shape) < 2 || len(x.Ints) > maxFoldedTable ||
		n.Op != "Transpose" && n.Op != "Slice" {
		return false, nil
	}
	out, err := s.ShapesOf(n, x.Shape)
	if err != nil {
		return false, err
	}
	first, step := make([]int64, len(x.Shape)), make([]int64, len(x.Shape)) // of each output axis, in x's values
	stride := make([]int64, len(x.Shape))
	for i, size := len(x.Shape)-1, int64(1); i >= 0; i-- {
		stride[i] = size
		size *= x.Shape[i]
	}
	if n.Op == "Transpose" {
		perm, err := onnx.Perm(n, len(x.Shape))
		if err != nil {
			return false, err
		}
		for i, a := range perm {
			step[i] = stride[a]
		}
	} else {
		copy(step, stride)
		starts, _ := s.IntsOf(n, 1)
		axes := make([]int64, len(starts))
		for i := range axes {
			axes[i] = int64(i)
		}
		if n.Input(3) != "" {
			axes, _ = s.IntsOf(n, 3)
		}
		at, err := onnx.Axes(axes, len(x.Shape))
		if err != nil {
			return false, err
		}
		by := slices.Repeat([]int64{1}, len(starts))
		if n.Input(4) != "" {
			by, _ = s.IntsOf(n, 4)
		}
		for i, a := range at {
			begin, _, _ := onnx.SliceRange(starts[i], 0, by[i], x.Shape[a]) // the shape rule has checked the step
			first[a] = begin * stride[a]
			step[a] = by[i] * stride[a]
		}
	}
	t := &onnx.Tensor{DType: x.DType, Shape: out[0], Ints: make([]int64, out[0].Items())}
	for i := range t.Ints {
		at, rest := int64(0), int64(i)
		for a := len(out[0]) - 1; a >= 0; a-- {
			at += first[a] + rest%out[0][a]*step[a]
			rest /= out[0][a]
		}
		t.Ints[i] = x.Ints[at]
	}
	s.g.Consts[n.Outputs[0]], s.g.Shapes[n.Outputs[0]] = t, t.Shape
	return true, nil
}
