package simplify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// maxFold bounds how many values constant folding may create in all, so that a hostile ConstantOfShape, or a vector
// that is joined with itself again and again, can't take the memory.
const maxFold = onnx.MaxFold

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

// fold evaluates a node whose inputs are all constants or known integers, where these may hold the batch size, which
// the runtime does not know, and where a run would cost more than the rule. It reports false when it has no rule.
func fold(s *simplifier, n *onnx.Node) bool {
	unknown := func(in string) bool { return in != "" && s.g.Consts[in] == nil && s.Ints[in] == nil }
	switch {
	case n.Op == "Constant":
		return s.constant(n, constantValue(n))
	case len(n.Inputs) == 0 || slices.ContainsFunc(n.Inputs, unknown):
		return false
	}
	return foldTable(s, n) || foldInts(s, n)
}

// computed has the runtime compute a node whose inputs are all constants. It reports false where one is not, and where
// the runtime cannot, which why tells: a node that has other rules then stays.
func (s *simplifier) computed(n *onnx.Node) (done bool, why error) {
	unknown := func(in string) bool { return in != "" && s.g.Consts[in] == nil }
	if n.Op == "Identity" || !n.Computable() || slices.ContainsFunc(n.Inputs, unknown) {
		return false, nil
	}
	if err := s.g.Compute(n); err != nil {
		why = fmt.Errorf("its inputs are constants, and the runtime does not compute it: %w", err)
		onnx.Require(!errors.Is(err, onnx.ErrBound), "%w", why)
		return false, why
	}
	for _, o := range n.Outputs {
		s.folded += int(s.g.Shapes[o].Items())
	}
	for _, in := range n.Inputs {
		s.folded -= int(s.g.Shapes[in].Items())
	}
	onnx.Require(s.folded <= maxFold, "gives with those before it more than %d values of constants", maxFold)
	return true, nil
}

// branched visits, in the place of an If, the nodes of the branch that its constant condition takes.
func (s *simplifier) branched(n *onnx.Node) bool {
	condition := s.g.Consts[n.Input(0)]
	if n.Op != "If" || n.Domain != "" || condition == nil || len(condition.Ints) != 1 {
		return false
	}
	branch := "else_branch"
	if condition.Ints[0] != 0 {
		branch = "then_branch"
	}
	nodes, results, err := s.g.Branch(n, branch)
	onnx.Must(err)
	onnx.Require(len(results) == len(n.Outputs), "its %s gives %d results, not %d", branch, len(results),
		len(n.Outputs))
	for i, out := range n.Outputs {
		nodes = append(nodes,
			&onnx.Node{Op: "Identity", Inputs: results[i : i+1], Outputs: []string{out}, Origin: n.Origin})
	}
	for _, inner := range nodes {
		for _, in := range inner.Inputs {
			s.reads[in] = append(s.reads[in], inner)
		}
	}
	for _, inner := range nodes {
		s.visit(inner)
	}
	return true
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
	case "Add", "Sub", "Mul", "Div":
		if len(vals) != 2 {
			return false
		}
		out, ok := pairwise(vals[0], vals[1], intArithmetic(n))
		return ok && s.setInts(n, out, scalar)
	case "Equal":
		out, ok := pairwise(vals[0], vals[1], equal)
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

// pairwise applies f to two vectors, one of which may be a single number. It reports false
// where they do not fit each other or f does.
func pairwise(a, b []int64, f func(x, y int64) (int64, bool)) (out []int64, ok bool) {
	if len(a) == 0 || len(b) == 0 || len(a) != len(b) && len(a) != 1 && len(b) != 1 {
		return nil, false
	}
	out = make([]int64, max(len(a), len(b)))
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
		if n.Op == "Div" && y == 0 {
			return 0, false
		}
		v = ofInts[n.Op](x, y)
		return v, onnx.BatchFactor(v) == 0 // a number must not pass for the batch size
	}
}

var ofInts = map[string]func(a, b int64) int64{
	"Add": func(a, b int64) int64 { return a + b },
	"Sub": func(a, b int64) int64 { return a - b },
	"Mul": func(a, b int64) int64 { return a * b },
	"Div": func(a, b int64) int64 { return a / b },
}

// equal compares two integers, 1 for true. The batch size differs from every number that a graph compares it with (-1
// and 0, to find what an Expand leaves alone).
func equal(x, y int64) (v int64, ok bool) {
	if x == y {
		v = 1
	}
	return v, onnx.BatchFactor(x) == 0 && onnx.BatchFactor(y) == 0 || x <= 0 && y <= 0
}
