package simplify

import (
	"fmt"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// foldInts evaluates shape arithmetic: integer scalars and vectors.
func (s *simplifier) foldInts(n *onnx.Node) bool {
	vals, total, scalar := make([][]int64, len(n.Inputs)), 0, true
	for i, in := range n.Inputs {
		v, err := s.IntsOf(n, i)
		if in == "" || err != nil || len(s.g.Shapes[in]) > 1 {
			return false
		}
		vals[i], total, scalar = v, total+len(v), scalar && s.isScalar(in)
	}
	onnx.Require(s.folded+total <= maxFold, "its shape arithmetic needs more than %d values", maxFold)
	switch n.Op {
	case "Gather":
		out := []int64{}
		for _, i := range vals[1] {
			if i < 0 {
				i += int64(len(vals[0]))
			}
			onnx.Require(i >= 0 && i < int64(len(vals[0])), "index %d is out of range", i)
			out = append(out, vals[0][i])
		}
		return s.setInts(n, out, s.isScalar(n.Inputs[1]))
	case "Unsqueeze":
		return s.isScalar(n.Inputs[0]) && s.setInts(n, vals[0], false)
	case "Squeeze":
		return s.setInts(n, vals[0], len(vals[0]) == 1)
	case "Reshape": // a vector stays one
		return len(vals) == 2 && len(vals[1]) <= 1 && s.setInts(n, vals[0], len(vals[1]) == 0 && len(vals[0]) == 1)
	case "Concat":
		return s.setInts(n, slices.Concat(vals...), false)
	case "Cast":
		to := onnx.DType(n.Int("to", 0))
		return (to == onnx.Int64 || to == onnx.Int32) && s.setInts(n, vals[0], scalar)
	case "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max":
		if len(vals) != 2 {
			return false
		}
		out, ok := pairwise(vals[0], vals[1], intArithmetic(n))
		return ok && s.setInts(n, out, scalar)
	case "Equal", "Greater", "Less":
		out, ok := pairwise(vals[0], vals[1], intComparison(n.Op))
		if !ok {
			return false
		}
		s.setInts(n, out, scalar)
		s.g.Consts[n.Outputs[0]].DType = onnx.Bool
		return true
	case "Where":
		length := max(len(vals[0]), len(vals[1]), len(vals[2]))
		if slices.ContainsFunc(vals, func(v []int64) bool { return len(v) == 0 || len(v) != 1 && len(v) != length }) {
			return false
		}
		out := make([]int64, length)
		for i := range out {
			from := vals[2]
			if vals[0][i%len(vals[0])] != 0 {
				from = vals[1]
			}
			out[i] = from[i%len(from)]
		}
		return s.setInts(n, out, scalar)
	case "ReduceProd":
		product := int64(1)
		for _, v := range vals[0] {
			var ok bool
			if product, ok = intArithmetic(&onnx.Node{Op: "Mul"})(product, v); !ok {
				return false
			}
		}
		return s.setInts(n, []int64{product}, n.Int("keepdims", 1) == 0)
	case "Range":
		if onnx.BatchIndex(slices.Concat(vals...)) >= 0 {
			return false // strided may know what it is for
		}
		onnx.Require(len(vals[0]) == 1 && len(vals[1]) == 1 && len(vals[2]) == 1,
			"counts between other than single numbers")
		return s.setInts(n, onnx.Sure(countUp(vals[0][0], vals[1][0], vals[2][0], int64(maxFold-s.folded))), false)
	}
	return false
}

func (s *simplifier) isScalar(tensor string) bool { return len(s.g.Shapes[tensor]) == 0 }

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

// pairwise applies f to two vectors, one of which may be a single number. It reports false
// where they do not fit each other or f does.
func pairwise[T int64 | float32](a, b []T, f func(x, y T) (T, bool)) (out []T, ok bool) {
	if len(a) == 0 || len(b) == 0 || len(a) != len(b) && len(a) != 1 && len(b) != 1 {
		return nil, false
	}
	out = make([]T, max(len(a), len(b)))
	for i := range out {
		if out[i], ok = f(a[i%len(a)], b[i%len(b)]); !ok {
			return nil, false
		}
	}
	return out, true
}

// intArithmetic is what an operator does to two integers. It multiplies and divides
// multiples of the batch size.
func intArithmetic(n *onnx.Node) func(x, y int64) (int64, bool) {
	return func(x, y int64) (v int64, ok bool) {
		if k, m := onnx.BatchFactor(x), onnx.BatchFactor(y); k > 0 || m > 0 {
			switch {
			case n.Op == "Mul" && m == 0 && y > 0 && k <= onnx.MaxDimension/y:
				return onnx.BatchSizes(k * y), true
			case n.Op == "Mul" && k == 0 && x > 0 && m <= onnx.MaxDimension/x:
				return onnx.BatchSizes(m * x), true
			case n.Op == "Div" && m == 0 && y > 0 && k%y == 0:
				return onnx.BatchSizes(k / y), true
			case n.Op == "Div" && m > 0 && k > 0 && k%m == 0:
				return k / m, true
			}
			return 0, false
		}
		switch f := arithmetic[int64](n.Op); {
		case y == 0 && (n.Op == "Div" || n.Op == "Mod"):
			return 0, false
		case f != nil:
			v = f(x, y)
		case n.Op == "Mod": // the sign of the divisor, or of the dividend with fmod
			if v = x % y; v != 0 && (v < 0) != (y < 0) && n.Int("fmod", 0) == 0 {
				v += y
			}
		case n.Op == "Min":
			v = min(x, y)
		case n.Op == "Max":
			v = max(x, y)
		}
		return v, onnx.BatchFactor(v) == 0 // a number must not pass for the batch size
	}
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

// intComparison compares two integers, 1 for true. The batch size differs
// from every number that a graph compares it with for equality (-1 and 0, to
// find what an Expand leaves alone); which of two is larger is not known.
func intComparison(op string) func(x, y int64) (int64, bool) {
	return func(x, y int64) (v int64, ok bool) {
		if op == "Equal" && x == y || op == "Greater" && x > y || op == "Less" && x < y {
			v = 1
		}
		return v, onnx.BatchFactor(x) == 0 && onnx.BatchFactor(y) == 0 || op == "Equal" && x <= 0 && y <= 0
	}
}

// maxFoldedFloats bounds the float vectors that are folded: the scales and sizes
// of shape arithmetic. Larger constants are left to the runtime.
const maxFoldedFloats = 64

// foldFloats evaluates shape arithmetic that goes through floats: sizes times a
// scale, rounded.
func (s *simplifier) foldFloats(n *onnx.Node) bool {
	vals, scalar := make([][]float32, len(n.Inputs)), true
	for i, in := range n.Inputs {
		t, ok := s.g.Consts[in]
		if !ok || len(t.Shape) > 1 || t.Len() == 0 || t.Len() > maxFoldedFloats ||
			t.DType != onnx.Float && n.Op != "Cast" {
			return false
		}
		vals[i] = t.Floats
		for _, v := range t.Ints {
			vals[i] = append(vals[i], float32(v))
		}
		scalar = scalar && len(t.Shape) == 0
	}
	set := func(v []float32) bool {
		t := onnx.FloatVector(v)
		if scalar {
			t.Shape = onnx.Shape{}
		}
		return s.constant(n, t)
	}
	each := func(f func(a, b float32) float32, b []float32) bool {
		out, ok := pairwise(vals[0], b, func(x, y float32) (float32, bool) {
			v := f(x, y)
			return v, v-v == 0 // infinite or not a number: none of ours
		})
		return ok && set(out)
	}
	one := []float32{1}
	switch f := arithmetic[float32](n.Op); {
	case n.Op == "Cast" && n.Int("to", 0) == int64(onnx.Float):
		return set(vals[0])
	case n.Op == "Cast" && (n.Int("to", 0) == int64(onnx.Int32) || n.Int("to", 0) == int64(onnx.Int64)):
		out := []int64{}
		for _, v := range vals[0] {
			out = append(out, int64(v))
		}
		return onnx.BatchIndex(out) < 0 && s.setInts(n, out, scalar)
	case n.Op == "Concat":
		scalar = false
		return set(slices.Concat(vals...))
	case n.Op == "Floor":
		return each(func(a, _ float32) float32 { return float32(math.Floor(float64(a))) }, one)
	case n.Op == "Ceil":
		return each(func(a, _ float32) float32 { return float32(math.Ceil(float64(a))) }, one)
	case f != nil && len(vals) == 2:
		return each(f, vals[1])
	}
	return false
}
