package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// maxFold bounds how many values constant folding may create in all, so that a
// hostile ConstantOfShape, or a vector that is joined with itself again and again,
// can't take the memory.
const maxFold = 1 << 24

// setInts records the value of a folded integer tensor of rank 1, or 0 if scalar.
func (s *simplifier) setInts(name string, v []int64, scalar bool) {
	shape := onnx.Shape{int64(len(v))}
	if scalar {
		shape = onnx.Shape{}
	}
	s.folded += len(v)
	s.g.Shapes[name] = shape
	if onnx.BatchIndex(v) >= 0 {
		s.Ints[name] = v
		return
	}
	s.g.Consts[name] = &onnx.Tensor{DType: onnx.Int64, Shape: shape, Ints: v}
}

// fold evaluates a node whose inputs are all known. It reports false when it
// has no rule; the node then stays and the runtime evaluates it.
func (s *simplifier) fold(n *onnx.Node) (bool, error) {
	g := s.g
	switch n.Op {
	case "Constant":
		t, err := constantValue(n)
		if err != nil {
			return false, err
		}
		g.Consts[n.Outputs[0]], g.Shapes[n.Outputs[0]] = t, t.Shape
		return true, nil
	case "Identity":
		if g.IsOutput(n.Outputs[0]) {
			return false, nil
		}
		s.alias[n.Outputs[0]] = n.Inputs[0]
		return true, nil
	case "Shape":
		return false, nil // shapeOf does it
	case "ConstantOfShape":
		dims, err := s.IntsOf(n, 0)
		if err != nil || onnx.BatchIndex(dims) >= 0 {
			return false, err // fillBatch does it
		}
		t := onnx.Scalar(0)
		if value, ok := n.Attrs["value"].(*onnx.Tensor); ok {
			t = &onnx.Tensor{DType: value.DType, Floats: value.Floats, Ints: value.Ints}
		}
		t.Shape = slices.Clone(dims)
		count := int64(1)
		for _, d := range dims {
			if d < 0 || (d > 0 && count > int64(maxFold-s.folded)/d) {
				return false, fmt.Errorf("fills a tensor of shape %v", dims)
			}
			count *= d
		}
		s.folded += int(count)
		if t.Len() != 1 {
			return false, errors.New("its value is not one number")
		}
		t.Floats, t.Ints = slices.Repeat(t.Floats, int(count)), slices.Repeat(t.Ints, int(count))
		g.Consts[n.Outputs[0]], g.Shapes[n.Outputs[0]] = t, t.Shape
		return true, nil
	}
	if done, err := s.foldInts(n); done || err != nil {
		return done, err
	}
	if done, err := s.foldTable(n); done || err != nil {
		return done, err
	}
	return s.foldFloats(n)
}

func constantValue(n *onnx.Node) (*onnx.Tensor, error) {
	for _, name := range []string{"value", "value_float", "value_floats", "value_int", "value_ints"} {
		switch v := n.Attrs[name].(type) {
		case *onnx.Tensor:
			return v, nil
		case float32:
			return onnx.Scalar(v), nil
		case []float32:
			return onnx.FloatVector(v), nil
		case int64:
			return onnx.IntScalar(v), nil
		case []int64:
			return onnx.IntTensor(v...), nil
		}
	}
	return nil, errors.New("holds no value that is supported")
}

// relabel folds an operator that gives a constant another shape, and reports
// whether n was one: exporters leave such chains before axes and weights.
func (s *simplifier) relabel(n *onnx.Node) (bool, error) {
	c, ok := s.g.Consts[n.Input(0)]
	if !ok || s.g.IsOutput(n.Outputs[0]) || !onnx.TraitsOf(n.Op).Relabels {
		return false, nil
	}
	for _, in := range n.Inputs[1:] {
		if _, ok := s.g.Consts[in]; !ok && in != "" {
			return false, nil
		}
	}
	if err := s.Node(n); err != nil {
		return false, err
	}
	s.g.Consts[n.Outputs[0]] = &onnx.Tensor{DType: c.DType, Shape: s.g.Shapes[n.Outputs[0]], Floats: c.Floats,
		Ints: c.Ints}
	return true, nil
}

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
		axes, _ := s.IntsOr(n, 3, onnx.Range(0, len(starts)))
		at, err := onnx.Axes(axes, len(x.Shape))
		if err != nil {
			return false, err
		}
		by, _ := s.IntsOr(n, 4, slices.Repeat([]int64{1}, len(starts)))
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
