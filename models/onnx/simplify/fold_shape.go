package simplify

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// foldInts evaluates shape arithmetic: integer scalars and vectors.
func (s *simplifier) foldInts(n *onnx.Node) (bool, error) {
	vals, scalars := make([][]int64, len(n.Inputs)), make([]bool, len(n.Inputs))
	for i, in := range n.Inputs {
		v, err := s.IntsOf(n, i)
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
		for _, in := range n.Inputs {
			if t, ok := s.source[in]; ok && onnx.BatchIndex(v) >= 0 {
				s.source[n.Outputs[0]] = t
				break
			}
		}
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
	case "Reshape": // a vector stays one
		if len(vals) == 2 && len(vals[1]) <= 1 {
			return set(vals[0], len(vals[1]) == 0 && len(vals[0]) == 1)
		}
	case "Concat":
		return set(slices.Concat(vals...), false)
	case "Cast":
		if to := onnx.DType(n.Int("to", 0)); to == onnx.Int64 || to == onnx.Int32 {
			return set(vals[0], scalars[0])
		}
	case "Slice":
		if len(vals) < 3 {
			return false, nil
		}
		if slices.ContainsFunc(vals[1:], func(v []int64) bool { return onnx.BatchIndex(v) >= 0 }) {
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
		first, count, err := onnx.SliceRange(vals[1][0], vals[2][0], step, d)
		if err != nil {
			return false, err
		}
		out := []int64{}
		for k := range count {
			out = append(out, vals[0][first+k*step])
		}
		return set(out, false)
	case "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max":
		if len(vals) != 2 {
			return false, nil
		}
		out, ok := intArithmetic(n, vals[0], vals[1])
		if !ok {
			return false, nil
		}
		return set(out, scalars[0] && scalars[1])
	case "Equal", "Greater", "Less":
		out, ok := intComparison(n.Op, vals[0], vals[1])
		if !ok {
			return false, nil
		}
		s.setBools(n.Outputs[0], out, scalars[0] && scalars[1])
		return true, nil
	case "Where":
		length := max(len(vals[0]), len(vals[1]), len(vals[2]))
		if min(len(vals[0]), len(vals[1]), len(vals[2])) == 0 ||
			slices.ContainsFunc(vals, func(v []int64) bool { return len(v) != 1 && len(v) != length }) {
			return false, nil
		}
		out := make([]int64, length)
		for i := range out {
			from := vals[2]
			if vals[0][i%len(vals[0])] != 0 {
				from = vals[1]
			}
			out[i] = from[i%len(from)]
		}
		return set(out, scalars[0] && scalars[1] && scalars[2])
	case "ReduceProd":
		product := []int64{1}
		for i := range vals[0] {
			var ok bool
			if product, ok = intArithmetic(&onnx.Node{Op: "Mul"}, product, vals[0][i:i+1]); !ok {
				return false, nil
			}
		}
		return set(product, n.Int("keepdims", 1) == 0)
	case "Range":
		if onnx.BatchIndex(slices.Concat(vals...)) >= 0 {
			return false, nil // strided may know what it is for
		}
		if len(vals[0]) != 1 || len(vals[1]) != 1 || len(vals[2]) != 1 {
			return false, errors.New("counts between other than single numbers")
		}
		out, err := countUp(vals[0][0], vals[1][0], vals[2][0], int64(maxFold-s.folded))
		if err != nil {
			return false, err
		}
		return set(out, false)
	}
	return false, nil
}

// countUp lists start, start + step, … before limit: at most most numbers, all of
// them and the step between ±MaxDimension, so that none wraps round.
func countUp(start, limit, step, most int64) ([]int64, error) {
	far := func(v int64) bool { return v > onnx.MaxDimension || v < -onnx.MaxDimension }
	count, err := int64(0), fmt.Errorf("counts from %d to %d in steps of %d", start, limit, step)
	switch {
	case step == 0 || far(start) || far(limit) || far(step):
		return nil, err
	case step > 0 && limit > start:
		count = (limit - start + step - 1) / step
	case step < 0 && limit < start:
		count = (start - limit - step - 1) / -step
	}
	if count > most {
		return nil, err
	}
	out := make([]int64, count)
	for i := range out {
		out[i] = start + int64(i)*step
	}
	return out, nil
}

// setBools records the truth values of a folded comparison.
func (s *simplifier) setBools(name string, v []int64, scalar bool) {
	s.setInts(name, v, scalar)
	s.g.Consts[name].DType = onnx.Bool
}

// intArithmetic evaluates an operator of integer vectors, one of which may be a
// single number. It multiplies and divides multiples of the batch size.
func intArithmetic(n *onnx.Node, a, b []int64) ([]int64, bool) {
	if len(a) == 0 || len(b) == 0 || len(a) != len(b) && len(a) != 1 && len(b) != 1 {
		return nil, false
	}
	out := make([]int64, max(len(a), len(b)))
	for i := range out {
		x, y := a[i%len(a)], b[i%len(b)]
		if k, m := onnx.BatchFactor(x), onnx.BatchFactor(y); k > 0 || m > 0 {
			switch {
			case n.Op == "Mul" && m == 0 && y > 0 && k <= onnx.MaxDimension/y:
				out[i] = onnx.BatchSizes(k * y)
			case n.Op == "Mul" && k == 0 && x > 0 && m <= onnx.MaxDimension/x:
				out[i] = onnx.BatchSizes(m * x)
			case n.Op == "Div" && m == 0 && y > 0 && k%y == 0:
				out[i] = onnx.BatchSizes(k / y)
			case n.Op == "Div" && m > 0 && k > 0 && k%m == 0:
				out[i] = k / m
			default:
				return nil, false
			}
			continue
		}
		if y == 0 && (n.Op == "Div" || n.Op == "Mod") {
			return nil, false
		}
		switch f := arithmetic[int64](n.Op); {
		case f != nil:
			out[i] = f(x, y)
		case n.Op == "Mod": // the sign of the divisor, or of the dividend with fmod
			if out[i] = x % y; out[i] != 0 && (out[i] < 0) != (y < 0) && n.Int("fmod", 0) == 0 {
				out[i] += y
			}
		case n.Op == "Min":
			out[i] = min(x, y)
		case n.Op == "Max":
			out[i] = max(x, y)
		}
		if onnx.BatchFactor(out[i]) > 0 { // a number, which would pass for the batch size
			return nil, false
		}
	}
	return out, true
}

// arithmetic is what an operator does to two numbers; nil for one that shapes and
// their scales do not need alike.
func arithmetic[T int64 | float32](op string) func(a, b T) T {
	switch op {
	case "Add":
		return func(a, b T) T { return a + b }
	case "Sub":
		return func(a, b T) T { return a - b }
	case "Mul":
		return func(a, b T) T { return a * b }
	case "Div":
		return func(a, b T) T { return a / b }
	}
	return nil
}

// intComparison compares integer vectors, 1 for true. The batch size differs
// from every number that a graph compares it with for equality (-1 and 0, to
// find what an Expand leaves alone); which of two is larger is not known.
func intComparison(op string, a, b []int64) ([]int64, bool) {
	if len(a) == 0 || len(b) == 0 || len(a) != len(b) && len(a) != 1 && len(b) != 1 {
		return nil, false
	}
	out := make([]int64, max(len(a), len(b)))
	for i := range out {
		x, y := a[i%len(a)], b[i%len(b)]
		if (onnx.BatchFactor(x) > 0 || onnx.BatchFactor(y) > 0) && (op != "Equal" || x > 0 || y > 0) {
			return nil, false
		}
		if op == "Equal" && x == y || op == "Greater" && x > y || op == "Less" && x < y {
			out[i] = 1
		}
	}
	return out, true
}

// maxFoldedFloats bounds the float vectors that are folded: the scales and sizes
// of shape arithmetic. Larger constants are left to the runtime.
const maxFoldedFloats = 64

// foldFloats evaluates shape arithmetic that goes through floats: sizes times a
// scale, rounded.
func (s *simplifier) foldFloats(n *onnx.Node) (bool, error) {
	g := s.g
	vals, scalar := make([][]float32, len(n.Inputs)), true
	for i, in := range n.Inputs {
		t, ok := g.Consts[in]
		if !ok || len(t.Shape) > 1 || t.Len() == 0 || t.Len() > maxFoldedFloats {
			return false, nil
		}
		vals[i] = t.Floats
		if t.DType != onnx.Float {
			if n.Op != "Cast" {
				return false, nil
			}
			for _, v := range t.Ints {
				vals[i] = append(vals[i], float32(v))
			}
		}
		scalar = scalar && len(t.Shape) == 0
	}
	set := func(v []float32) (bool, error) {
		shape := onnx.Shape{int64(len(v))}
		if scalar {
			shape = onnx.Shape{}
		}
		g.Consts[n.Outputs[0]], g.Shapes[n.Outputs[0]] = onnx.FloatTensor(shape, v), shape
		return true, nil
	}
	each := func(f func(a, b float32) float32, b []float32) (bool, error) {
		a := vals[0]
		if len(a) != len(b) && len(a) != 1 && len(b) != 1 {
			return false, nil
		}
		out := make([]float32, max(len(a), len(b)))
		for i := range out {
			if out[i] = f(a[i%len(a)], b[i%len(b)]); out[i]-out[i] != 0 {
				return false, nil // infinite or not a number: none of ours
			}
		}
		return set(out)
	}
	one := []float32{1}
	switch n.Op {
	case "Cast":
		switch to := onnx.DType(n.Int("to", 0)); to {
		case onnx.Float:
			return set(vals[0])
		case onnx.Int32, onnx.Int64:
			out := []int64{}
			for _, v := range vals[0] {
				out = append(out, int64(v))
			}
			if onnx.BatchIndex(out) >= 0 {
				return false, nil
			}
			s.setInts(n.Outputs[0], out, scalar)
			return true, nil
		}
	case "Concat":
		scalar = false
		return set(slices.Concat(vals...))
	case "Floor":
		return each(func(a, _ float32) float32 { return float32(math.Floor(float64(a))) }, one)
	case "Ceil":
		return each(func(a, _ float32) float32 { return float32(math.Ceil(float64(a))) }, one)
	}
	if f := arithmetic[float32](n.Op); f != nil && len(vals) == 2 {
		return each(f, vals[1])
	}
	return false, nil
}
