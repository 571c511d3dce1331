package simplify_test

import (
	"testing"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
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

// A vec holds the values of one item.
type vec = []float32
