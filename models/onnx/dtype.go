package onnx

import "fmt"

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
	if !TraitsOf(n.Op).alike {
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
	traits := TraitsOf(n.Op)
	for i, o := range n.Outputs {
		t := traits.result
		switch {
		case (n.Op == "TopK" || n.Op == "MaxPool") && i == 1:
			t = Int64
		case n.Op == "Cast":
			t = DType(n.Int("to", int64(Float)))
		case t == 0:
			t = c.TypeOf(n.Input(traits.typedBy))
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
