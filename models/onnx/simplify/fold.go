package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// maxFold bounds how many values constant folding may create in all, so that a hostile ConstantOfShape, or a vector
// that is joined with itself again and again, can't take the memory.
const maxFold = 1 << 24

// setInts records the value of a node's output: integers of rank 1, or 0 if scalar. It reports true.
func (s *simplifier) setInts(n *onnx.Node, v []int64, scalar bool) bool {
	t := &onnx.Tensor{DType: onnx.Int64, Shape: onnx.Shape{int64(len(v))}, Ints: v}
	if scalar {
		t.Shape = onnx.Shape{}
	}
	s.folded += len(v)
	if onnx.BatchIndex(v) < 0 {
		return s.constant(n, t)
	}
	s.Ints[n.Outputs[0]], s.g.Shapes[n.Outputs[0]] = v, t.Shape
	for _, in := range n.Inputs {
		if from, ok := s.source[in]; ok {
			s.source[n.Outputs[0]] = from
			break
		}
	}
	return true
}

// fold evaluates a node whose inputs are all constants or known integers. It reports false when it
// has no rule; the node then stays and the runtime evaluates it.
func fold(s *simplifier, n *onnx.Node) bool {
	unknown := func(in string) bool { return in != "" && s.g.Consts[in] == nil && s.Ints[in] == nil }
	if n.Op != "Constant" && (len(n.Inputs) == 0 || slices.ContainsFunc(n.Inputs, unknown)) {
		return false
	}
	switch n.Op {
	case "Constant":
		return s.constant(n, constantValue(n))
	case "ConstantOfShape":
		dims, t := onnx.Sure(s.IntsOf(n, 0)), filler(n)
		if onnx.BatchIndex(dims) >= 0 {
			return false // fillBatch does it
		}
		count := int64(1)
		for _, d := range dims {
			onnx.Require(d == 0 || d > 0 && count <= int64(maxFold-s.folded)/d, "fills a tensor of shape %v", dims)
			count *= d
		}
		s.folded += int(count)
		onnx.Require(t.Len() == 1, "its value is not one number")
		return s.constant(n, &onnx.Tensor{DType: t.DType, Shape: slices.Clone(dims),
			Floats: slices.Repeat(t.Floats, int(count)), Ints: slices.Repeat(t.Ints, int(count))})
	}
	return foldTable(s, n) || foldInts(s, n) || foldFloats(s, n)
}

func filler(n *onnx.Node) *onnx.Tensor {
	if t, ok := n.Attrs["value"].(*onnx.Tensor); ok {
		return t
	}
	return onnx.Scalar(0)
}

func constantValue(n *onnx.Node) *onnx.Tensor {
	for _, name := range []string{"value", "value_float", "value_floats", "value_int", "value_ints"} {
		if t := tensorOf(n.Attrs[name]); t != nil {
			return t
		}
	}
	onnx.Refuse("holds no value that is supported")
	return nil
}

// tensorOf makes a constant of an attribute's value; nil where it is none.
func tensorOf(value any) *onnx.Tensor {
	switch v := value.(type) {
	case *onnx.Tensor:
		return v
	case float32:
		return onnx.Scalar(v)
	case []float32:
		return onnx.FloatVector(v)
	case int64:
		return onnx.IntScalar(v)
	case []int64:
		return onnx.IntTensor(v...)
	}
	return nil
}

// relabel folds an operator that gives a constant another shape, and reports
// whether n was one: exporters leave such chains before axes and weights.
func relabel(s *simplifier, n *onnx.Node) bool {
	c := s.g.Consts[n.Input(0)]
	computed := func(in string) bool { return in != "" && s.g.Consts[in] == nil }
	if c == nil || s.g.IsOutput(n.Outputs[0]) || !onnx.TraitsOf(n.Op).Relabels ||
		slices.ContainsFunc(n.Inputs, computed) || s.Node(n) != nil { // what is wrong with it is said there
		return false
	}
	return s.constant(n, &onnx.Tensor{DType: c.DType, Shape: s.g.Shapes[n.Outputs[0]], Floats: c.Floats, Ints: c.Ints})
}

// foldTable evaluates a Transpose or Slice of known integers: sizes are cut out of shapes, and
// the pads that PyTorch lists by axis from the last are put in order by these.
func foldTable(s *simplifier, n *onnx.Node) bool {
	shape := s.g.Shapes[n.Input(0)]
	x, err := s.IntsOf(n, 0)
	if err != nil || len(shape) == 0 || len(x) > maxFold-s.folded || n.Op != "Transpose" && n.Op != "Slice" {
		return false
	}
	first, stride := make([]int64, len(shape)), shape.Strides()
	step := slices.Clone(stride) // of each output axis, in x's values
	if n.Op == "Transpose" {
		for i, a := range onnx.Sure(onnx.Perm(n, len(shape))) {
			step[i] = stride[a]
		}
	} else {
		for i := range n.Inputs[1:] {
			v, _ := s.IntsOf(n, i+1)
			onnx.Require(onnx.BatchIndex(v) < 0, "cuts by the batch size")
		}
	}
	out := onnx.Sure(s.ShapesOf(n, shape))[0]
	if n.Op == "Slice" { // the shape rule has checked the inputs
		starts, _ := s.IntsOf(n, 1)
		axes, _ := s.IntsOr(n, 3, onnx.Range(0, len(starts)))
		by, _ := s.IntsOr(n, 4, slices.Repeat([]int64{1}, len(starts)))
		for i, a := range onnx.Sure(onnx.Axes(axes, len(shape))) {
			begin, _, _ := onnx.SliceRange(starts[i], 0, by[i], shape[a])
			first[a], step[a] = begin*stride[a], by[i]*stride[a]
		}
	}
	v := out.Places(step)
	for i, at := range v {
		for _, from := range first {
			at += from
		}
		v[i] = x[at]
	}
	if len(out) == 1 {
		return s.setInts(n, v, false)
	}
	s.folded += len(v)
	return s.constant(n, &onnx.Tensor{DType: s.TypeOf(n.Inputs[0]), Shape: out, Ints: v})
}
