package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// Some networks lay the batch behind another dimension, as PyTorch's attention
// does with [tokens, N, features], and join the two into the rows of a matrix
// for a linear layer. An item's rows are then spread over the matrix, which no
// [Shape] can say. Simplify leaves such a tensor apart: rows maps it to the tensor
// that still has the dimensions, and the layer works on that.

// toRows takes a Reshape to a matrix whose rows join the batch with dimensions
// before it, and reports true; sizes is its target with every number known.
func (s *simplifier) toRows(n *onnx.Node, sizes []int64) (bool, error) {
	x := s.g.Shapes[n.Inputs[0]]
	at := x.BatchAxis()
	if len(sizes) != 2 || at < 1 || x.Items() != sizes[0]*sizes[1] {
		return false, nil
	}
	if x[at] != onnx.Batch { // a multiple: the batch, and apart from it the rest
		x = slices.Concat(x[:at], onnx.Shape{onnx.Batch, -x[at]}, x[at+1:])
	}
	cut := at + 1 // where the columns begin
	for cut < len(x) && x[cut:].Items() > sizes[1] {
		cut++
	}
	if x[cut:].Items() != sizes[1] || s.g.IsOutput(n.Outputs[0]) {
		return false, nil
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	apart := b.Reshape(n.Inputs[0], append(slices.Clone(x[:cut]), sizes[1]))
	s.setRows(n.Outputs[0], apart)
	return true, b.Err()
}

// setRows notes that matrix stands for the tensor apart, its last axis for columns.
func (s *simplifier) setRows(matrix, apart string) {
	x := s.g.Shapes[apart]
	last := len(x) - 1
	s.rows[matrix], s.g.Shapes[matrix] = apart, onnx.Shape{-x[:last].Items(), x[last]}
}

// onRows writes a node that reads a matrix of rows for the tensor that it stands
// for. It reports false where the node reads none, or has been given that tensor.
func (s *simplifier) onRows(n *onnx.Node) (bool, error) {
	which := slices.IndexFunc(n.Inputs, func(in string) bool { return s.rows[in] != "" })
	if which < 0 {
		return false, nil
	}
	mixes := fmt.Errorf("works on %v, where the batch lies within the rows", s.g.Shapes[n.Inputs[which]])
	if n.Op == "Reshape" && which == 0 {
		n.Inputs[0] = s.rows[n.Inputs[0]]
		return false, nil
	}
	if len(n.Outputs) != 1 || s.g.IsOutput(n.Outputs[0]) {
		return false, mixes
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t := ""
	switch columns := s.g.Shapes[n.Inputs[which]][1]; {
	case n.Op == "Gemm" && which == 0 && n.Int("transA", 0) == 0 && s.rows[n.Input(1)] == "" &&
		s.rows[n.Input(2)] == "":
		w := n.Inputs[1]
		if n.Int("transB", 0) == 1 {
			w = b.OpWith("Transpose", onnx.Attrs{"perm": []int64{1, 0}}, w)
		}
		if alpha := n.Float("alpha", 1); alpha != 1 {
			w = b.Op("Mul", w, b.Float(alpha))
		}
		t = b.Op("MatMul", s.rows[n.Inputs[0]], w)
		if c := n.Input(2); c != "" {
			if shape := b.Shape(c); len(shape) == 2 && shape[0] != 1 || shape.HasBatch() {
				return false, mixes
			}
			if beta := n.Float("beta", 1); beta != 1 {
				c = b.Op("Mul", c, b.Float(beta))
			}
			t = b.Op("Add", t, c)
		}
	case n.Op == "MatMul" && which == 0 && len(s.g.Shapes[n.Inputs[1]]) == 2 && s.rows[n.Inputs[1]] == "":
		t = b.Op("MatMul", s.rows[n.Inputs[0]], n.Inputs[1])
	case onnx.TraitsOf(n.Op).Pointwise && lowerings[n.Op] == nil:
		c := n.Clone()
		for i, in := range n.Inputs {
			if apart := s.rows[in]; apart != "" {
				c.Inputs[i] = apart
			} else if shape := s.g.Shapes[in]; in != "" && (len(shape) > 2 || shape.Items() != 1 &&
				(shape.Items() != columns || shape[len(shape)-1] != columns) || shape.HasBatch()) {
				return false, mixes // neither a number nor one a column
			}
		}
		c.Outputs[0] = s.g.Fresh(b.Prefix + n.Op)
		b.Append(c)
		t = c.Outputs[0]
	default:
		return false, mixes
	}
	if b.Err() != nil {
		return false, b.Err()
	}
	if !slices.Equal(b.Shape(t)[:len(b.Shape(t))-1], s.g.Shapes[s.rows[n.Inputs[which]]][:len(b.Shape(t))-1]) {
		return false, errors.New("changes the rows of a matrix that holds the batch")
	}
	s.setRows(n.Outputs[0], t)
	return true, nil
}
