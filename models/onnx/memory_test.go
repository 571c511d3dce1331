package onnx_test

import (
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

// Weights count once, or the result computed from them instead; values count as long as they are needed.
func TestMemory(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("m")}
	x := b.Input("x", onnx.Shape{N, 10})
	square := b.Const(onnx.FloatTensor(onnx.Shape{10, 10}, onnxtest.Ramp(100)))
	folded := b.Op("Neg", square) // before the first pass
	y := b.Op("MatMul", x, folded)
	z := b.Op("Relu", b.Op("MatMul", y, folded))
	z = b.Op("Add", b.OpWith("Concat", onnx.Attrs{"axis": int64(1)}, y, z), b.Const(onnx.Scalar(1)))
	b.Output("z", b.Op("Relu", z))
	weights, item := must.Get(b.Done())(t).Memory()
	// The values of y, Relu and Concat at once are the most; the caller holds the last Relu's.
	if weights != 4*101 || item != 4*40 {
		t.Errorf("%d bytes of weights, %d of an item", weights, item)
	}
}
