package simplify_test

import (
	"testing"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// N is the batch in a file's shapes.
const N = onnx.Batch

// A vec holds the values of one item.
type vec = []float32
