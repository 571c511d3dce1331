package onnx

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

var errNotProtobuf = errors.New("not an ONNX model, or one that is cut short (its protobuf can't be read)")

// Field numbers of onnx.proto that parse and Encode treat by hand.
const (
	modelGraph       = 7 // ModelProto.graph
	graphInitializer = 5 // GraphProto.initializer
	tensorRawData    = 9 // TensorProto.raw_data
)

// parse reads the protobuf of a model. The initializers' raw data stays where it
// is in data, which must not change: a WRN-76-10 has 440 MB of it, and
// proto.Unmarshal would copy them.
func parse(data []byte) (*pb.ModelProto, error) {
	var rest, graph []byte
	var initializers []*pb.TensorProto
	found := false
	err := eachField(data, func(num protowire.Number, field, value []byte) error {
		if num != modelGraph || value == nil {
			rest = append(rest, field...)
			return nil
		}
		found = true
		return eachField(value, func(num protowire.Number, field, value []byte) error {
			if num != graphInitializer || value == nil {
				graph = append(graph, field...)
				return nil
			}
			t, err := parseTensor(value)
			initializers = append(initializers, t)
			return err
		})
	})
	if err != nil {
		return nil, errNotProtobuf
	}
	m := &pb.ModelProto{}
	if err := proto.Unmarshal(rest, m); err != nil {
		return nil, errNotProtobuf
	}
	if !found {
		return nil, errors.New("not an ONNX model (it holds no graph)")
	}
	m.Graph = &pb.GraphProto{}
	if err := proto.Unmarshal(graph, m.Graph); err != nil {
		return nil, errNotProtobuf
	}
	m.Graph.Initializer = initializers
	return m, nil
}

func parseTensor(data []byte) (*pb.TensorProto, error) {
	var rest, raw []byte
	err := eachField(data, func(num protowire.Number, field, value []byte) error {
		if num == tensorRawData && value != nil {
			raw = value
		} else {
			rest = append(rest, field...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := &pb.TensorProto{}
	err = proto.Unmarshal(rest, t)
	t.RawData = raw
	return t, err
}

// eachField visits the fields of a message: field is the whole of it, and value its
// content where it is length-delimited, nil otherwise.
func eachField(data []byte, visit func(num protowire.Number, field, value []byte) error) error {
	for len(data) > 0 {
		num, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(num, kind, data[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(data[tag:])
		}
		if err := visit(num, data[:tag+size], value); err != nil {
			return err
		}
		data = data[tag+size:]
	}
	return nil
}

// assemble is the inverse of parse: it marshals m with the given initializers in
// place of its own, whose data write appends. Nothing is held twice: the result
// is allocated once, at its size. Fields come in the order of their numbers,
// as proto.Marshal writes them.
func assemble(m *pb.ModelProto, initializers []*pb.TensorProto, size func(i int) int64,
	write func(i int, out []byte) ([]byte, error)) ([]byte, error) {
	graph := m.Graph
	first := &pb.GraphProto{Node: graph.Node, Name: graph.Name}
	last := &pb.GraphProto{
		SparseInitializer: graph.SparseInitializer, DocString: graph.DocString, Input: graph.Input,
		Output: graph.Output, ValueInfo: graph.ValueInfo, QuantizationAnnotation: graph.QuantizationAnnotation,
		MetadataProps: graph.MetadataProps,
	}
	before := &pb.ModelProto{IrVersion: m.IrVersion, ProducerName: m.ProducerName, ProducerVersion: m.ProducerVersion,
		Domain: m.Domain, ModelVersion: m.ModelVersion, DocString: m.DocString}
	after := &pb.ModelProto{OpsetImport: m.OpsetImport, MetadataProps: m.MetadataProps, TrainingInfo: m.TrainingInfo,
		Functions: m.Functions}
	parts := make([][]byte, 4)
	for i, p := range []proto.Message{before, first, last, after} {
		var err error
		if parts[i], err = (proto.MarshalOptions{Deterministic: true}).Marshal(p); err != nil {
			return nil, fmt.Errorf("model can't be written: %w", err)
		}
	}
	heads := make([][]byte, len(initializers))
	sizes := make([]int, len(initializers))
	inner := len(parts[1]) + len(parts[2])
	for i, t := range initializers {
		head, err := (proto.MarshalOptions{Deterministic: true}).Marshal(t)
		if err != nil {
			return nil, fmt.Errorf("model can't be written: %w", err)
		}
		heads[i] = head
		n := size(i)
		if n > MaxFileSize || int64(inner)+n > MaxFileSize {
			return nil, fmt.Errorf("needs more than the 2 GiB that an ONNX file can hold")
		}
		sizes[i] = len(head)
		if n >= 0 {
			sizes[i] += protowire.SizeTag(tensorRawData) + protowire.SizeBytes(int(n))
		}
		inner += protowire.SizeTag(graphInitializer) + protowire.SizeBytes(sizes[i])
	}
	out := make([]byte, 0, len(parts[0])+protowire.SizeTag(modelGraph)+protowire.SizeBytes(inner)+len(parts[3]))
	out = append(out, parts[0]...)
	out = protowire.AppendVarint(protowire.AppendTag(out, modelGraph, protowire.BytesType), uint64(inner))
	out = append(out, parts[1]...)
	for i := range initializers {
		out = protowire.AppendVarint(protowire.AppendTag(out, graphInitializer, protowire.BytesType), uint64(sizes[i]))
		out = append(out, heads[i]...)
		if n := size(i); n >= 0 {
			out = protowire.AppendVarint(protowire.AppendTag(out, tensorRawData, protowire.BytesType), uint64(n))
			end := len(out) + int(n)
			var err error
			if out, err = write(i, out); err != nil {
				return nil, err
			}
			if len(out) != end {
				panic(fmt.Sprintf("onnx: %q wrote %d bytes, not %d", initializers[i].GetName(), len(out)-end+int(n), n))
			}
		}
	}
	out = append(out, parts[2]...)
	return append(out, parts[3]...), nil
}
