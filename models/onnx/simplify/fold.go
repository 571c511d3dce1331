package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// maxFold bounds how many values constant folding may create in all: a hostile file can't take the memory.
const maxFold = onnx.MaxFold

// fold evaluates a Constant, and shape arithmetic in which the batch size takes part. It reports false for other nodes.
func fold(s *simplifier, n *onnx.Node) bool {
	return n.Op == "Constant" && s.constant(n, constantValue(n)) || foldSizes(s, n)
}

// arithmetic are the operators of shape arithmetic, and how many of their inputs may hold the batch size.
var arithmetic = map[string]int{"Add": 2, "Cast": 1, "Concat": maxFold, "Div": 2, "Equal": 2, "Gather": 1, "Mul": 2,
	"ReduceProd": 1, "Reshape": 1, "Slice": 1, "Squeeze": 1, "Sub": 2, "Transpose": 1, "Unsqueeze": 1, "Where": 3}

// foldSizes has the runtime do shape arithmetic for batches of two sizes. A value that is the same for both is a
// number, and one that grows with them so many times the batch size.
func foldSizes(s *simplifier, n *onnx.Node) bool {
	total := 0
	for i, in := range n.Inputs {
		v, open := s.Ints[in]
		if total += len(v); in != "" && !open && s.g.Consts[in] == nil || open && i >= arithmetic[n.Op] {
			return false
		}
		// A graph asks whether the size is -1 or 0, to find what an Expand leaves alone; a batch may have any other.
		if c := s.g.Consts[in]; n.Op == "Equal" && c != nil && len(c.Ints) > 0 && slices.Max(c.Ints) > 0 {
			return false
		}
	}
	if total == 0 || n.Domain != "" {
		return false
	}
	onnx.Require(s.folded+total <= maxFold, "its shape arithmetic needs more than %d values", maxFold)
	s.folded += total
	const many = 100_003 // a prime, so that it leaves a rest wherever a size can
	t, other := s.ofBatch(n, 1), s.ofBatch(n, many)
	if t == nil || other == nil || len(t.Ints) != len(other.Ints) {
		return false
	}
	v := slices.Clone(t.Ints)
	for i, one := range t.Ints {
		switch {
		case other.Ints[i] == one:
		case one >= 1 && one <= onnx.MaxDimension && other.Ints[i] == many*one:
			v[i] = onnx.BatchSizes(one)
		default:
			return false
		}
	}
	if t.Ints = v; onnx.BatchIndex(v) < 0 {
		return s.constant(n, t)
	}
	s.Ints[n.Outputs[0]], s.g.Shapes[n.Outputs[0]] = v, t.Shape
	s.SetType(n.Outputs[0], t.DType)
	for _, in := range n.Inputs {
		if from, ok := s.source[in]; ok {
			s.source[n.Outputs[0]] = from
			break
		}
	}
	return true
}

// ofBatch returns the result of a node of shape arithmetic for a batch of a size; nil if it is no list of integers.
func (s *simplifier) ofBatch(n *onnx.Node, batch int64) *onnx.Tensor {
	g := onnx.NewGraph("")
	g.Opset = s.from
	size := func(d int64) int64 {
		if k := onnx.BatchFactor(d); k > 0 {
			return k * batch
		}
		return d
	}
	for _, in := range n.Inputs {
		if v, open := s.Ints[in]; open {
			g.Consts[in] = &onnx.Tensor{DType: s.TypeOf(in), Shape: s.g.Shapes[in], Ints: onnx.Each(v, size)}
		} else if in != "" {
			g.Consts[in] = s.g.Consts[in]
		}
	}
	if err := g.Compute(n); err != nil {
		return nil
	}
	t := g.Consts[n.Outputs[0]]
	if t.DType == onnx.Float || len(t.Shape) > 1 {
		return nil
	}
	return t
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

func constantValue(n *onnx.Node) *onnx.Tensor {
	for _, name := range []string{"value", "value_float", "value_floats", "value_int", "value_ints"} {
		if t := tensorOf(n.Attrs[name]); t != nil {
			return t
		}
	}
	onnx.Refuse("holds no value that is supported")
	return nil
}

// floats makes a float constant of integers.
func floats(shape onnx.Shape, v []int64) *onnx.Tensor {
	return onnx.FloatTensor(shape, onnx.Each(v, func(v int64) float32 { return float32(v) }))
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
