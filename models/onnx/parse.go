package onnx

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

var errNotProtobuf = errors.New("not an ONNX model, or one that is cut short (its protobuf can't be read)")

// Numbers of the onnx.proto fields that parse and assemble handle themselves.
const (
	modelGraph       = 7 // ModelProto.graph
	graphInitializer = 5 // GraphProto.initializer
	tensorRawData    = 9 // TensorProto.raw_data
)

// parse reads the protobuf of a model. The initializers' raw data stays in data, which must not change: a WRN-76-10 has
// 440 MB of it, and proto.Unmarshal would copy them.
func parse(data []byte) (*pb.ModelProto, error) {
	m, graph := &pb.ModelProto{}, &pb.GraphProto{}
	graphs, err := unmarshal(data, m, modelGraph)
	if err != nil {
		return nil, errNotProtobuf
	}
	if len(graphs) == 0 {
		return nil, errors.New("not an ONNX model (it holds no graph)")
	}
	data = graphs[0]
	if len(graphs) > 1 { // they are parts of one message
		data = slices.Concat(graphs...)
	}
	tensors, err := unmarshal(data, graph, graphInitializer)
	if err != nil {
		return nil, errNotProtobuf
	}
	for _, data := range tensors {
		t := &pb.TensorProto{}
		raw, err := unmarshal(data, t, tensorRawData)
		if err != nil {
			return nil, errNotProtobuf
		}
		if len(raw) > 0 {
			t.RawData = raw[len(raw)-1]
		}
		graph.Initializer = append(graph.Initializer, t)
	}
	m.Graph = graph
	return m, nil
}

// unmarshal reads a message without one length-delimited field; it returns that field's values as slices of data.
func unmarshal(data []byte, m proto.Message, without protowire.Number) (values [][]byte, err error) {
	var rest []byte
	err = eachField(data, func(num protowire.Number, field, value []byte) {
		if num == without && value != nil {
			values = append(values, value)
		} else {
			rest = append(rest, field...)
		}
	})
	return values, errors.Join(err, proto.Unmarshal(rest, m))
}

func marshal(m proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		Refuse("model can't be written: %w", err)
	}
	return data
}

// halves writes a message in two parts: first the fields with lower numbers, then the rest.
func halves(m proto.Message, number protowire.Number) (before, after []byte) {
	data, at, cut := marshal(m), 0, 0
	Must(eachField(data, func(num protowire.Number, field, _ []byte) {
		if at == cut && num < number {
			cut += len(field)
		}
		at += len(field)
	}))
	return data[:cut], data[cut:]
}

// eachField visits the fields of a message: field is the whole field, and value is its content if it is
// length-delimited, otherwise nil.
func eachField(data []byte, visit func(num protowire.Number, field, value []byte)) error {
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
		visit(num, data[:tag+size], value)
		data = data[tag+size:]
	}
	return nil
}

// assemble is the inverse of parse: it marshals m, which it takes apart, with the given initializers in place of its
// own. sizes are the lengths of their data, or -1 for data within the initializer; write appends the data. Nothing is
// held twice: the result is allocated once, at its final size. Fields come in the order of their numbers, as
// proto.Marshal writes them.
func assemble(m *pb.ModelProto, initializers []*pb.TensorProto, sizes []int64,
	write func(i int, out []byte) []byte) []byte {
	graph := m.Graph
	m.Graph, graph.Initializer = nil, nil
	before, after := halves(m, modelGraph)
	first, last := halves(graph, graphInitializer)
	heads, inner := make([][]byte, len(initializers)), int64(len(first)+len(last))
	for i, t := range initializers {
		head, data := marshal(t), max(0, sizes[i])
		Require(inner+data <= maxFileSize, "needs more than the 2 GiB that an ONNX file can hold")
		if sizes[i] >= 0 {
			head = appendLength(head, tensorRawData, data)
		}
		heads[i] = append(appendLength(nil, graphInitializer, int64(len(head))+data), head...)
		inner += int64(len(heads[i])) + data
	}
	before = appendLength(before[:len(before):len(before)], modelGraph, inner)
	out := append(make([]byte, 0, int64(len(before)+len(after))+inner), before...)
	out = append(out, first...)
	for i, head := range heads {
		out = append(out, head...)
		end := len(out) + int(max(0, sizes[i]))
		if sizes[i] >= 0 {
			out = write(i, out)
		}
		if len(out) != end {
			panic(fmt.Sprintf("onnx: %q wrote %d bytes too many", initializers[i].GetName(), len(out)-end))
		}
	}
	return append(append(out, last...), after...)
}

func appendLength(out []byte, num protowire.Number, size int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(out, num, protowire.BytesType), uint64(size))
}
