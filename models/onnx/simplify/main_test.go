package simplify_test

import (
	"testing"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
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
