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

// TypeOf returns the element type of a tensor that is a constant, the
// input, or the output of a node visited before; Float where it isn't known.
func (c *Inference) TypeOf(tensor string) DType {
	if t, ok := c.Graph.Consts[tensor]; ok {
		return t.DType
	}
	if _, ok := c.Ints[tensor]; ok {
		return Int64
	}
	if t, ok := c.types[tensor]; ok {
		return t
	}
	return Float
}

// SameTypes refuses arithmetic of floats with integers or truth values: ONNX Runtime
// does, and its message can't name a node that a lowering has written.
func (c *Inference) SameTypes(n *Node) error {
	if !slices.Contains(alike, n.Op) {
		return nil
	}
	for _, in := range n.Inputs[1:] {
		if a, b := c.TypeOf(n.Inputs[0]), c.TypeOf(in); a != b && (a == Float || b == Float) {
			return fmt.Errorf("its inputs %q and %q hold values of different types", n.Inputs[0], in)
		}
	}
	return nil
}

// SetTypes records the element types of a node's outputs. Float is left out.
func (c *Inference) SetTypes(n *Node) {
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
			t = c.TypeOf(n.Input(1))
		case n.Op == "CastLike":
			t = c.TypeOf(n.Input(1))
		case n.Op == "OneHot":
			t = c.TypeOf(n.Input(2))
		case n.Op == "DequantizeLinear":
		default:
			t = c.TypeOf(n.Input(0))
		}
		if t != Float {
			if c.types == nil {
				c.types = map[string]DType{}
			}
			c.types[o] = t
		}
	}
}

// quantizedRange holds the smallest and the largest value of the types that
// QuantizeLinear gives.
var quantizedRange = map[DType][2]int64{Int8: {-128, 127}, Uint8: {0, 255}, Int16: {-32768, 32767}, Uint16: {0, 65535}}

// QuantizedRange returns the smallest and the largest value of a type that
// QuantizeLinear gives; ok is false for any other.
func QuantizedRange(t DType) (lo, hi int64, ok bool) {
	r, ok := quantizedRange[t]
	return r[0], r[1], ok
}
