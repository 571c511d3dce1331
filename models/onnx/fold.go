package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// maxFold bounds how many values constant folding may create in all, so that a
// hostile ConstantOfShape, or a vector that is joined with itself again and again,
// can't take the memory.
const maxFold = 1 << 24

// setInts records the value of a folded integer tensor of rank 1, or 0 if scalar.
func (s *simplifier) setInts(name string, v []int64, scalar bool) {
	shape := Shape{int64(len(v))}
	if scalar {
		shape = Shape{}
	}
	s.folded += len(v)
	s.g.Shapes[name] = shape
	if slices.Contains(v, symBatch) {
		s.ints[name] = v
		return
	}
	s.g.Consts[name] = &Tensor{DType: Int64, Shape: shape, Ints: v}
}

// fold evaluates a node whose inputs are all known. It reports false when it
// has no rule; the node then stays and the runtime evaluates it.
func (s *simplifier) fold(n *Node) (bool, error) {
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
		if g.isOutput(n.Outputs[0]) {
			return false, nil
		}
		s.alias[n.Outputs[0]] = n.Inputs[0]
		return true, nil
	case "Shape":
		return false, nil // shapeOf does it
	case "ConstantOfShape":
		dims, err := s.intsOf(n, 0)
		if err != nil || slices.Contains(dims, symBatch) {
			return false, errors.New("fills a tensor whose size depends on the batch")
		}
		t := &Tensor{DType: Float, Shape: slices.Clone(dims)}
		if a, ok := n.Attrs["value"]; ok && a.Tensor != nil {
			t.DType = a.Tensor.DType
			t.Floats, t.Ints = a.Tensor.Floats, a.Tensor.Ints
		} else {
			t.Floats = []float32{0}
		}
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
	return s.foldInts(n)
}

// foldInts evaluates shape arithmetic: integer scalars and vectors.
func (s *simplifier) foldInts(n *Node) (bool, error) {
	vals, scalars := make([][]int64, len(n.Inputs)), make([]bool, len(n.Inputs))
	for i, in := range n.Inputs {
		v, err := s.intsOf(n, i)
		if in == "" || err != nil || len(s.g.Shapes[in]) > 1 {
			return false, nil
		}
		vals[i], scalars[i] = v, len(s.g.Shapes[in]) == 0
	}
	total := 0
	for _, v := range vals {
		total += len(v)
	}
	if s.folded+total > maxFold {
		return false, fmt.Errorf("its shape arithmetic needs more than %d values", maxFold)
	}
	set := func(v []int64, scalar bool) (bool, error) {
		s.setInts(n.Outputs[0], v, scalar)
		return true, nil
	}
	switch n.Op {
	case "Gather":
		out := []int64{}
		for _, i := range vals[1] {
			if i < 0 {
				i += int64(len(vals[0]))
			}
			if i < 0 || i >= int64(len(vals[0])) {
				return false, fmt.Errorf("index %d is out of range", i)
			}
			out = append(out, vals[0][i])
		}
		return set(out, scalars[1])
	case "Unsqueeze":
		if scalars[0] {
			return set(vals[0], false)
		}
	case "Squeeze":
		return set(vals[0], len(vals[0]) == 1)
	case "Concat":
		return set(slices.Concat(vals...), false)
	case "Cast":
		if to := DType(n.Int("to", 0)); to == Int64 || to == Int32 {
			return set(vals[0], scalars[0])
		}
	case "Slice":
		if slices.ContainsFunc(vals[1:], func(v []int64) bool { return slices.Contains(v, symBatch) }) {
			return false, errors.New("cuts by the batch size")
		}
		d := int64(len(vals[0]))
		step := int64(1)
		if len(vals) > 4 && len(vals[4]) == 1 {
			step = vals[4][0]
		}
		if len(vals[1]) != 1 || len(vals[2]) != 1 {
			return false, nil
		}
		first, count, err := sliceRange(vals[1][0], vals[2][0], step, d)
		if err != nil {
			return false, err
		}
		out := []int64{}
		for k := range count {
			out = append(out, vals[0][first+k*step])
		}
		return set(out, false)
	case "Add", "Sub", "Mul", "Div":
		out, ok := intArithmetic(n.Op, vals[0], vals[1])
		if !ok {
			return false, nil
		}
		return set(out, scalars[0] && scalars[1])
	}
	return false, nil
}

func intArithmetic(op string, a, b []int64) ([]int64, bool) {
	if len(a) != len(b) && len(a) != 1 && len(b) != 1 {
		return nil, false
	}
	out := make([]int64, max(len(a), len(b)))
	for i := range out {
		x, y := a[i%len(a)], b[i%len(b)]
		if x == symBatch || y == symBatch {
			return nil, false
		}
		switch op {
		case "Add":
			out[i] = x + y
		case "Sub":
			out[i] = x - y
		case "Mul":
			out[i] = x * y
		case "Div":
			if y == 0 {
				return nil, false
			}
			out[i] = x / y
		}
	}
	return out, true
}

func constantValue(n *Node) (*Tensor, error) {
	for name, a := range n.Attrs {
		switch name {
		case "value":
			if a.Tensor != nil {
				return a.Tensor, nil
			}
		case "value_float":
			if a.Float != nil {
				return Scalar(*a.Float), nil
			}
		case "value_floats":
			return FloatTensor(Shape{int64(len(a.Floats))}, a.Floats), nil
		case "value_int":
			if a.Int != nil {
				return &Tensor{DType: Int64, Shape: Shape{}, Ints: []int64{*a.Int}}, nil
			}
		case "value_ints":
			return IntTensor(a.Ints...), nil
		}
	}
	return nil, errors.New("holds no value that is supported")
}
