package onnx

import (
	"fmt"
	"slices"
)

// truth are the operators that give booleans, indices those that give int64.
var (
	truth   = []string{"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf"}
	indices = []string{"ArgMax", "ArgMin", "NonZero", "Shape", "Size"}
)

// alike are the operators whose inputs are all of one element type.
var alike = []string{"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Sum", "Mean", "PRelu", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}

// elementType returns the element type of a tensor that is a constant, the
// input, or the output of a node visited before; Float where it isn't known.
func (s *simplifier) elementType(tensor string) DType {
	if t, ok := s.g.Consts[tensor]; ok {
		return t.DType
	}
	if _, ok := s.ints[tensor]; ok {
		return Int64
	}
	if t, ok := s.types[tensor]; ok {
		return t
	}
	return Float
}

// sameTypes refuses arithmetic of floats with integers or truth values: ONNX Runtime
// does, and its message can't name a node that a lowering has written.
func (s *simplifier) sameTypes(n *Node) error {
	if !slices.Contains(alike, n.Op) {
		return nil
	}
	for _, in := range n.Inputs[1:] {
		if a, b := s.elementType(n.Inputs[0]), s.elementType(in); a != b && (a == Float || b == Float) {
			return fmt.Errorf("its inputs %q and %q hold values of different types", n.Inputs[0], in)
		}
	}
	return nil
}

// setTypes records the element types of a node's outputs. Float is left out.
func (s *simplifier) setTypes(n *Node) {
	for i, o := range n.Outputs {
		t := Float
		switch {
		case slices.Contains(truth, n.Op):
			t = Bool
		case slices.Contains(indices, n.Op), (n.Op == "TopK" || n.Op == "MaxPool") && i == 1:
			t = Int64
		case n.Op == "Cast":
			t = DType(n.Int("to", int64(Float)))
		case n.Op == "Where":
			t = s.elementType(n.Input(1))
		case n.Op == "OneHot":
			t = s.elementType(n.Input(2))
		case n.Op == "DequantizeLinear":
		default:
			t = s.elementType(n.Input(0))
		}
		if t != Float {
			s.types[o] = t
		}
	}
}
