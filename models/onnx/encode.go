package onnx

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// irVersion is what we write: the oldest that covers every opset we emit, so
// that old and new runtimes read it.
const irVersion = 8

// Encode serialises the graph as an ONNX file, the same bytes for the same
// graph. The weights are copied once, into the result. A few operators that ONNX
// Runtime computes badly are written by others, see kernels.
func (g *Graph) Encode() ([]byte, error) {
	if err := g.Verify(); err != nil {
		return nil, err
	}
	g, err := g.forRuntime()
	if err != nil {
		return nil, err
	}
	m := &pb.ModelProto{
		IrVersion:    proto.Int64(max(irVersion, min(g.IR, 10))),
		ProducerName: proto.String("selfheal"),
		OpsetImport:  []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(g.Opset)}},
		Graph:        &pb.GraphProto{Name: proto.String(g.Name)},
	}
	if g.Name == "" {
		m.Graph.Name = proto.String("graph")
	}
	domains, named := map[string]bool{"": true}, map[string]bool{"": true}
	for _, n := range g.Nodes {
		if !domains[n.Domain] {
			domains[n.Domain] = true
			m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIdProto{Domain: proto.String(n.Domain),
				Version: proto.Int64(1)})
		}
		p, err := encodeNode(n)
		if err != nil {
			return nil, err
		}
		if named[n.Name] {
			p.Name = nil // ONNX Runtime refuses two nodes of one name
		}
		named[n.Name] = true
		m.Graph.Node = append(m.Graph.Node, p)
	}
	for _, k := range sortedKeys(g.Meta) {
		m.MetadataProps = append(m.MetadataProps, &pb.StringStringEntryProto{Key: proto.String(k),
			Value: proto.String(g.Meta[k])})
	}
	for _, v := range g.Inputs {
		m.Graph.Input = append(m.Graph.Input, encodeValue(v))
	}
	for _, v := range g.Outputs {
		m.Graph.Output = append(m.Graph.Output, encodeValue(v))
	}
	m.Graph.ValueInfo = g.reshaped()
	names := sortedKeys(g.Consts)
	heads := make([]*pb.TensorProto, len(names))
	for i, name := range names {
		heads[i] = tensorHead(name, g.Consts[name])
	}
	size := func(i int) int64 { return g.Consts[names[i]].bytes() }
	write := func(i int, out []byte) ([]byte, error) { return g.Consts[names[i]].appendRaw(out), nil }
	return assemble(m, heads, size, write)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func encodeNode(n *Node) (*pb.NodeProto, error) {
	out := &pb.NodeProto{OpType: proto.String(n.Op), Input: n.Inputs, Output: n.Outputs}
	if n.Name != "" {
		out.Name = proto.String(n.Name)
	}
	if n.Domain != "" {
		out.Domain = proto.String(n.Domain)
	}
	for _, name := range sortedKeys(n.Attrs) {
		p := &pb.AttributeProto{Name: proto.String(name)}
		switch v := n.Attrs[name].(type) {
		case int:
			p.Type, p.I = pb.AttributeProto_INT.Enum(), proto.Int64(int64(v))
		case int64:
			p.Type, p.I = pb.AttributeProto_INT.Enum(), &v
		case float32:
			p.Type, p.F = pb.AttributeProto_FLOAT.Enum(), &v
		case string:
			p.Type, p.S = pb.AttributeProto_STRING.Enum(), []byte(v)
		case []int64:
			p.Type, p.Ints = pb.AttributeProto_INTS.Enum(), v
		case []float32:
			p.Type, p.Floats = pb.AttributeProto_FLOATS.Enum(), v
		case *Tensor:
			p.Type, p.T = pb.AttributeProto_TENSOR.Enum(), tensorHead("", v)
			p.T.RawData = v.appendRaw([]byte{})
		default:
			return nil, fmt.Errorf("node %s: attribute %q can't be written", n, name)
		}
		out.Attribute = append(out.Attribute, p)
	}
	return out, nil
}

// tensorHead is a tensor without its data.
func tensorHead(name string, t *Tensor) *pb.TensorProto {
	out := &pb.TensorProto{Dims: t.Shape, DataType: proto.Int32(int32(t.DType))}
	if name != "" {
		out.Name = proto.String(name)
	}
	return out
}

// bytes is the size of the tensor's data.
func (t *Tensor) bytes() int64 { return int64(t.Len()) * elementSize[t.DType] }

// appendRaw appends the tensor's data as ONNX files have it.
func (t *Tensor) appendRaw(raw []byte) []byte {
	for _, v := range t.Floats {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	for _, v := range t.Ints {
		switch elementSize[t.DType] {
		case 8:
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		case 4:
			raw = binary.LittleEndian.AppendUint32(raw, uint32(v))
		case 2:
			raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
		default:
			raw = append(raw, byte(v))
		}
	}
	return raw
}

func encodeValue(v Value) *pb.ValueInfoProto {
	shape := &pb.TensorShapeProto{}
	for _, d := range v.Shape {
		dim := &pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimValue{DimValue: d}}
		if d == Batch {
			dim.Value = &pb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}
		}
		shape.Dim = append(shape.Dim, dim)
	}
	return &pb.ValueInfoProto{
		Name: proto.String(v.Name),
		Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{TensorType: &pb.TypeProto_Tensor{
			ElemType: proto.Int32(int32(v.DType)), Shape: shape,
		}}},
	}
}

// reshaped declares the tensors that Reshape makes: the runtime can't tell that a
// dimension which it infers is the batch, and takes its slower elementwise kernels
// for tensors whose batches may differ.
func (g *Graph) reshaped() []*pb.ValueInfoProto {
	var infos []*pb.ValueInfoProto
	c := &Inference{Graph: g}
	for _, n := range g.Nodes {
		c.SetTypes(n)
		if t := n.Outputs[0]; n.Op == "Reshape" && slices.Contains(g.Shapes[t], Batch) && !g.IsOutput(t) {
			infos = append(infos, encodeValue(Value{Name: t, DType: c.TypeOf(t), Shape: g.Shapes[t]}))
		}
	}
	return infos
}
