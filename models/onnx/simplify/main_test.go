package simplify_test

import (
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// N is the batch in a file's shapes.
const N = onnx.Batch

// file begins a model's file.
var file = onnxtest.New

type (
	File  = onnxtest.File
	Shape = onnx.Shape
)

// quantized holds integers of one of QuantizeLinear's types.
func quantized(name string, kind int32, dims []int64, v ...int32) *pb.TensorProto {
	return &pb.TensorProto{Name: &name, DataType: &kind, Dims: dims, Int32Data: v}
}

// A vec holds the values of one item.
type vec = []float32

// original opens a file as it lies.
func original(t *testing.T, data []byte) *ort.Original {
	t.Helper()
	o := must.Get(ort.OpenOriginal("file", &onnx.File{Data: data}, ""))(t)
	t.Cleanup(o.Close)
	return o
}

// together runs a network on several items at once.
func together(t *testing.T, g *onnx.Graph, items int64, x vec) ort.Tensor {
	t.Helper()
	s := must.Get(ort.OpenGraph(g))(t)
	defer s.Close()
	shape := slices.Clone(g.Inputs[0].Shape)
	shape[0] = items
	return must.Get(s.Run([]ort.Tensor{{Shape: shape, Data: x}}))(t)[0]
}
