package onnx

import "slices"

// truth are the operators that give booleans, indices those that give int64.
var (
	truth   = []string{"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf"}
	indices = []string{"ArgMax", "ArgMin", "NonZero", "Shape", "Size"}
)

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
