package onnxpb

import "google.golang.org/protobuf/proto"

// Attribute returns an attribute of a node; nil if no attribute can hold such a value.
func Attribute(name string, value any) *AttributeProto {
	a := &AttributeProto{Name: &name}
	kind := AttributeProto_UNDEFINED
	switch v := value.(type) {
	case int:
		kind, a.I = AttributeProto_INT, proto.Int64(int64(v))
	case int64:
		kind, a.I = AttributeProto_INT, &v
	case float32:
		kind, a.F = AttributeProto_FLOAT, &v
	case float64:
		kind, a.F = AttributeProto_FLOAT, proto.Float32(float32(v))
	case string:
		kind, a.S = AttributeProto_STRING, []byte(v)
	case []int64:
		kind, a.Ints = AttributeProto_INTS, v
	case []float32:
		kind, a.Floats = AttributeProto_FLOATS, v
	case *TensorProto:
		kind, a.T = AttributeProto_TENSOR, v
	case *TypeProto:
		kind, a.Tp = AttributeProto_TYPE_PROTO, v
	case *GraphProto:
		kind, a.G = AttributeProto_GRAPH, v
	default:
		return nil
	}
	a.Type = &kind
	return a
}

// Value returns an input, output or other tensor of a graph, with an element type by its number. A dimension of -1 is
// symbolic, with the name symbol.
func Value(name string, elem int32, symbol string, shape ...int64) *ValueInfoProto {
	s := &TensorShapeProto{}
	for _, d := range shape {
		dim := &TensorShapeProto_Dimension{Value: &TensorShapeProto_Dimension_DimValue{DimValue: d}}
		if d == -1 {
			dim.Value = &TensorShapeProto_Dimension_DimParam{DimParam: symbol}
		}
		s.Dim = append(s.Dim, dim)
	}
	return &ValueInfoProto{Name: &name, Type: &TypeProto{Value: &TypeProto_TensorType{
		TensorType: &TypeProto_Tensor{ElemType: &elem, Shape: s},
	}}}
}
