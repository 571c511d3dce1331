package harness_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// tiny writes a network that opens in no time, with a convolution and a last layer as the bundled ones: it compares
// an image's means over blocks of 8 × 8 pixels with those of the classes, each from so many bundled images.
func tiny(t *testing.T, images int) string {
	t.Helper()
	const size, block, classes = 32, 8, 10
	const pixels, side = size * size, size / block
	const features = 3 * side * side
	records := must.Get(os.ReadFile("../models/zoo/shapes10/train.bin"))(t)
	var count [classes]float32
	means := make([]float32, classes*features)
	for record := range slices.Chunk(records[:images*(1+3*pixels)], 1+3*pixels) {
		k := int(record[0])
		count[k]++
		for i, v := range record[1:] {
			channel, row, column := i/pixels, i%pixels/size/block, i%size/block
			means[k*features+(channel*side+row)*side+column] += float32(v) / 255 / (block * block)
		}
	}
	halves := make([]float32, classes) // of each mean's squared norm: the largest logit is the nearest mean's
	for i := range means {
		means[i] /= max(count[i/features], 1)
		halves[i/features] -= means[i] * means[i] / 2
	}
	average := make([]float32, 3*3*block*block)
	for i := range average {
		if of := i / (block * block); of/3 == of%3 { // each channel on its own
			average[i] = 1. / (block * block)
		}
	}
	b := &onnx.Builder{G: onnx.NewGraph("tiny")}
	x := b.Input("x", onnx.Shape{-1, 3, 32, 32})
	h := b.OpWith("Conv", onnx.Attrs{"strides": []int64{block, block}}, x,
		b.Const(onnx.FloatTensor(onnx.Shape{3, 3, block, block}, average)))
	h = b.OpWith("Flatten", onnx.Attrs{"axis": int64(1)}, b.Op("Relu", h))
	z := b.OpWith("Gemm", onnx.Attrs{"transB": int64(1)}, h,
		b.Const(onnx.FloatTensor(onnx.Shape{classes, features}, means)), b.Const(onnx.FloatVector(halves)))
	b.Output("z", z)
	must.Do(t, b.Err())
	path := filepath.Join(t.TempDir(), "tiny.onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	return path
}
