package simplify

import (
	"cmp"
	"math"
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
	t, _ := n.Attrs["value"].(*onnx.Tensor)
	return cmp.Or(t, onnx.Scalar(0))
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

// foldInts evaluates shape arithmetic: integer scalars and vectors.
func foldInts(s *simplifier, n *onnx.Node) bool {
	vals, total, scalar := make([][]int64, len(n.Inputs)), 0, true
	single := func(i int) bool { return len(s.g.Shapes[n.Inputs[i]]) == 0 }
	for i, in := range n.Inputs {
		v, err := s.IntsOf(n, i)
		if in == "" || err != nil || len(s.g.Shapes[in]) > 1 {
			return false
		}
		vals[i], total, scalar = v, total+len(v), scalar && single(i)
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
		return s.setInts(n, out, single(1))
	case "Unsqueeze":
		return single(0) && s.setInts(n, vals[0], false)
	case "Squeeze":
		return s.setInts(n, vals[0], len(vals[0]) == 1)
	case "Reshape": // a vector stays one
		return len(vals) == 2 && len(vals[1]) <= 1 && s.setInts(n, vals[0], len(vals[1]) == 0 && len(vals[0]) == 1)
	case "Concat":
		return s.setInts(n, slices.Concat(vals...), false)
	case "Cast":
		return isInt(n.Int("to", 0)) && s.setInts(n, vals[0], scalar)
	case "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max":
		if len(vals) != 2 {
			return false
		}
		out, ok := pairwise(vals[0], vals[1], intArithmetic(n))
		return ok && s.setInts(n, out, scalar)
	case "Equal", "Greater", "Less":
		out, ok := pairwise(vals[0], vals[1], intComparison(n.Op))
		if ok {
			s.setInts(n, out, scalar)
			s.g.Consts[n.Outputs[0]].DType = onnx.Bool
		}
		return ok
	case "Where":
		out, ok := choose(vals[0], vals[1], vals[2])
		return ok && s.setInts(n, out, scalar)
	case "ReduceProd":
		product, ok := int64(1), true
		for _, v := range vals[0] {
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
		return s.setInts(n, countUp(vals[0][0], vals[1][0], vals[2][0], int64(maxFold-s.folded)), false)
	}
	return false
}

func isInt(t int64) bool { return t == int64(onnx.Int64) || t == int64(onnx.Int32) }

// choose takes each value from a where which is not 0 and from b elsewhere. Any of them may be a single number.
func choose(which, a, b []int64) (out []int64, ok bool) {
	length := max(len(which), len(a), len(b))
	for _, v := range [][]int64{which, a, b} {
		if len(v) == 0 || len(v) != 1 && len(v) != length {
			return nil, false
		}
	}
	for i := range length {
		from := b
		if which[i%len(which)] != 0 {
			from = a
		}
		out = append(out, from[i%len(from)])
	}
	return out, true
}

// countUp lists start, start + step, … before limit: at most most numbers, all of
// them and the step between ±MaxDimension, so that none wraps round.
func countUp(start, limit, step, most int64) []int64 {
	count, far := int64(0), max(start, limit, step) > onnx.MaxDimension || min(start, limit, step) < -onnx.MaxDimension
	switch {
	case step == 0 || far:
		count = most + 1
	case step > 0 && limit > start:
		count = (limit - start + step - 1) / step
	case step < 0 && limit < start:
		count = (start - limit - step - 1) / -step
	}
	onnx.Require(count <= most, "counts from %d to %d in steps of %d", start, limit, step)
	out := make([]int64, count)
	for i := range out {
		out[i] = start + int64(i)*step
	}
	return out
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

// intArithmetic is what an operator does to two integers. It multiplies and divides multiples of the batch size.
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
		if y == 0 && (n.Op == "Div" || n.Op == "Mod") {
			return 0, false
		}
		v = ofInts[n.Op](x, y)
		if n.Op == "Mod" && v != 0 && (v < 0) != (y < 0) && n.Int("fmod", 0) == 0 {
			v += y // the sign of the divisor; with fmod that of the dividend
		}
		return v, onnx.BatchFactor(v) == 0 // a number must not pass for the batch size
	}
}

func arithmetic[T int64 | float32](more map[string]func(a, b T) T) map[string]func(a, b T) T {
	more["Add"] = func(a, b T) T { return a + b }
	more["Sub"] = func(a, b T) T { return a - b }
	more["Mul"] = func(a, b T) T { return a * b }
	more["Div"] = func(a, b T) T { return a / b }
	return more
}

var ofInts = arithmetic(map[string]func(a, b int64) int64{
	"Mod": func(a, b int64) int64 { return a % b },
	"Min": func(a, b int64) int64 { return min(a, b) },
	"Max": func(a, b int64) int64 { return max(a, b) },
})

var ofFloats = arithmetic(map[string]func(a, _ float32) float32{
	"Floor": func(a, _ float32) float32 { return float32(math.Floor(float64(a))) },
	"Ceil":  func(a, _ float32) float32 { return float32(math.Ceil(float64(a))) },
})

// intComparison compares two integers, 1 for true. The batch size differs from every number that a graph compares it
// with for equality (-1 and 0, to find what an Expand leaves alone); which of two is larger is not known.
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

// foldFloats evaluates shape arithmetic that goes through floats: sizes times a scale, rounded.
func foldFloats(s *simplifier, n *onnx.Node) bool {
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
	out, ok := vals[0], true
	switch to, f := n.Int("to", 0), ofFloats[n.Op]; {
	case n.Op == "Cast" && isInt(to):
		ints := onnx.Each(out, func(v float32) int64 { return int64(v) })
		return onnx.BatchIndex(ints) < 0 && s.setInts(n, ints, scalar)
	case n.Op == "Cast":
		ok = to == int64(onnx.Float)
	case n.Op == "Concat":
		out, scalar = slices.Concat(vals...), false
	case f == nil || len(vals) > 2:
		return false
	default:
		other := []float32{1} // which rounding leaves alone
		if len(vals) == 2 {
			other = vals[1]
		}
		out, ok = pairwise(out, other, func(x, y float32) (float32, bool) {
			v := f(x, y)
			return v, v-v == 0 // infinite or not a number: none of ours
		})
	}
	t := onnx.FloatVector(out)
	if scalar {
		t.Shape = onnx.Shape{}
	}
	return ok && s.constant(n, t)
}
