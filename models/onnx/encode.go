package onnx

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// irVersion is the IR version of written files: the oldest that covers every opset we emit, so that old and new
// runtimes read them.
const irVersion = 8

// Encode serialises the graph as an ONNX file, the same bytes for the same graph. It copies the weights once, into the
// result. It writes a few operators that ONNX Runtime computes badly in other forms, see kernels.
func (g *Graph) Encode() (data []byte, err error) {
	defer Refused(&err)
	Must(g.Verify())
	g = Sure(forRuntime(g))
	m := &pb.ModelProto{
		IrVersion:    proto.Int64(max(irVersion, min(g.IR, 10))),
		ProducerName: proto.String("selfheal"),
		OpsetImport:  []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(g.Opset)}},
		Graph:        &pb.GraphProto{Name: proto.String(cmp.Or(g.Name, "graph"))},
	}
	domains, named := map[string]bool{"": true}, map[string]bool{"": true}
	for _, n := range g.Nodes {
		if !domains[n.Domain] {
			domains[n.Domain] = true
			m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIdProto{Domain: proto.String(n.Domain),
				Version: proto.Int64(1)})
		}
		p := encodeNode(n)
		if named[n.Name] {
			p.Name = nil // ONNX Runtime refuses two nodes with one name
		}
		named[n.Name] = true
		m.Graph.Node = append(m.Graph.Node, p)
	}
	for _, k := range sortedKeys(g.Meta) {
		m.MetadataProps = append(m.MetadataProps, &pb.StringStringEntryProto{Key: proto.String(k),
			Value: proto.String(g.Meta[k])})
	}
	m.Graph.Input, m.Graph.Output = Each(g.Inputs, encodeValue), Each(g.Outputs, encodeValue)
	m.Graph.ValueInfo = reshaped(g)
	names := sortedKeys(g.Consts)
	heads, sizes := make([]*pb.TensorProto, len(names)), make([]int64, len(names))
	for i, name := range names {
		t := g.Consts[name]
		heads[i], sizes[i] = tensorHead(t), int64(t.Len())*elementSize[t.DType]
		heads[i].Name = &name
	}
	write := func(i int, out []byte) []byte { return appendRaw(out, g.Consts[names[i]]) }
	return assemble(m, heads, sizes, write), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func encodeNode(n *Node) *pb.NodeProto {
	out := &pb.NodeProto{OpType: proto.String(n.Op), Input: n.Inputs, Output: n.Outputs}
	if n.Name != "" {
		out.Name = proto.String(n.Name)
	}
	if n.Domain != "" {
		out.Domain = proto.String(n.Domain)
	}
	for _, name := range sortedKeys(n.Attrs) {
		v := n.Attrs[name]
		if t, ok := v.(*Tensor); ok {
			p := tensorHead(t)
			p.RawData = appendRaw([]byte{}, t)
			v = p
		}
		if s, ok := v.(*Subgraph); ok {
			v = s.graph
		}
		a := pb.Attribute(name, v)
		Require(a != nil, "node %s: attribute %q can't be written", n, name)
		out.Attribute = append(out.Attribute, a)
	}
	return out
}

func tensorHead(t *Tensor) *pb.TensorProto {
	return &pb.TensorProto{Dims: t.Shape, DataType: proto.Int32(int32(t.DType))}
}

func appendRaw(raw []byte, t *Tensor) []byte {
	for _, v := range t.Floats { // faster than binary.Append
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	var ints any = t.Ints
	switch elementSize[t.DType] {
	case 4:
		ints = converted[int32](t.Ints)
	case 2:
		ints = converted[int16](t.Ints)
	case 1:
		ints = converted[int8](t.Ints)
	}
	return Sure(binary.Append(raw, binary.LittleEndian, ints))
}

func encodeValue(v Value) *pb.ValueInfoProto {
	return pb.Value(v.Name, int32(v.DType), "N", v.Shape...)
}

// reshaped declares the tensors that Reshape makes: the runtime can't tell that a dimension which it infers is the
// batch, and uses slower elementwise kernels for tensors whose batches may differ.
func reshaped(g *Graph) []*pb.ValueInfoProto {
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
