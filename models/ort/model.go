package ort

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// Port is one input or output of a program, seen for a single item.
type Port struct {
	Name  string
	Shape []int64 // of one item, without the batch dimension; empty for one number an item
	Size  int     // number of values of one item, the product of Shape
}

var errNoModel = errors.New("not an ONNX model")

// declared reads the graph's inputs and outputs from the protobuf, without its weights.
// The runtime would need a second session to tell them.
func declared(model []byte) (inputs, outputs []*pb.ValueInfoProto, err error) {
	graph, err := fields(model, 7) // ModelProto.graph
	if err != nil || len(graph) != 1 {
		return nil, nil, errNoModel
	}
	for number, values := range map[protowire.Number]*[]*pb.ValueInfoProto{11: &inputs, 12: &outputs} {
		messages, err := fields(graph[0], number) // GraphProto.input, output
		if err != nil {
			return nil, nil, err
		}
		for _, m := range messages {
			v := &pb.ValueInfoProto{}
			if proto.Unmarshal(m, v) != nil {
				return nil, nil, errNoModel
			}
			if kind := v.GetType().GetTensorType().GetElemType(); kind != int32(pb.TensorProto_FLOAT) {
				return nil, nil, fmt.Errorf("%q is not float32 (ONNX element type %d)", v.GetName(), kind)
			}
			*values = append(*values, v)
		}
	}
	if len(outputs) == 0 {
		return nil, nil, errNoModel
	}
	return inputs, outputs, nil
}

// fields returns the contents of a message's fields of that number.
func fields(message []byte, number protowire.Number) (contents [][]byte, err error) {
	for len(message) > 0 {
		num, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, errNoModel
		}
		size := protowire.ConsumeFieldValue(num, kind, message[tag:])
		if size < 0 {
			return nil, errNoModel
		}
		if num == number && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message[tag:])
			contents = append(contents, content)
		}
		message = message[tag+size:]
	}
	return contents, nil
}

// ports are the declared values as a single item has them. The batch must be their
// first dimension and the only open one.
func ports(values []*pb.ValueInfoProto) (all []Port, err error) {
	for _, v := range values {
		p := Port{Name: v.GetName(), Size: 1}
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		if len(dims) == 0 || dims[0].GetDimValue() != 0 {
			return nil, fmt.Errorf("%q has no symbolic batch dimension in front", p.Name)
		}
		for _, d := range dims[1:] {
			n := d.GetDimValue()
			if n <= 0 {
				return nil, fmt.Errorf("%q has an item whose shape is not known and positive", p.Name)
			}
			p.Shape, p.Size = append(p.Shape, n), p.Size*int(n)
		}
		all = append(all, p)
	}
	return all, nil
}

// names are the declared names.
func names(values []*pb.ValueInfoProto) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = v.GetName()
	}
	return all
}
