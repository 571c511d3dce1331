package gradtest_test

import (
	"fmt"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
)

// kernels returns operators that are written in another form for the runtime, so that an item's result does not depend
// on its place in the batch.
func kernels() map[string]func(b *onnx.Builder, x string) string {
	all := map[string]func(b *onnx.Builder, x string) string{
		"Log":  func(b *onnx.Builder, x string) string { return b.Op("Log", b.Op("Mul", x, x)) },
		"Sqrt": func(b *onnx.Builder, x string) string { return b.Op("Sqrt", b.Op("Abs", x)) },
		"Pow":  func(b *onnx.Builder, x string) string { return b.Op("Pow", b.Op("Abs", x), b.Float(1.7)) },
		"Gelu tanh": func(b *onnx.Builder, x string) string {
			return b.OpWith("Gelu", onnx.Attrs{"approximate": "tanh"}, x)
		},
		"LayerNormalization": func(b *onnx.Builder, x string) string {
			d := b.Shape(x)[2]
			ones := make([]float32, d)
			for i := range ones {
				ones[i] = 1 + float32(i%3)
			}
			return b.Op("LayerNormalization", x, b.Const(onnx.FloatTensor(onnx.Shape{d}, ones)))
		},
		"MatMul": func(b *onnx.Builder, x string) string {
			t := b.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 2, 1}}, x)
			return b.Op("MatMul", x, t)
		},
	}
	plain := []string{"Softmax", "LogSoftmax", "GlobalAveragePool"}
	for _, op := range onnx.Operators() {
		if t := onnx.TraitsOf(op); t.Pointwise && (t.Slope != nil || t.Discrete()) {
			plain = append(plain, op)
		}
	}
	for _, op := range plain {
		all[op] = func(b *onnx.Builder, x string) string { return b.Op(op, x) }
	}
	for _, op := range []string{"ReduceMax", "ReduceMin", "ReduceLogSumExp"} {
		for _, axis := range []int64{1, 2} {
			all[fmt.Sprint(op, " ", axis)] = func(b *onnx.Builder, x string) string { return b.Op(op, x, b.Ints(axis)) }
		}
	}
	for _, axis := range []int64{1, 2} {
		all[fmt.Sprint("Sum ", axis)] = func(b *onnx.Builder, x string) string { return b.Sum(x, []int64{axis}) }
	}
	return all
}

// Items of many sizes, few of which fill vector registers, have the same bits alone and in a batch of 9.
func TestKernelsKeepItemsApart(t *testing.T) {
	const items = 9
	alone, together := newPool(t, 1), newPool(t, items)
	for name, op := range kernels() {
		for _, size := range []onnx.Shape{{onnx.Batch, 1, 7}, {onnx.Batch, 3, 37}, {onnx.Batch, 13, 5},
			{onnx.Batch, 4, 48}, {onnx.Batch, 1, 1031}} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				b := &onnx.Builder{G: onnx.NewGraph(name)}
				b.G.Opset = 20
				b.Output("y", op(b, b.Input("x", size)))
				must.Do(t, b.Err())
				r := gradtest.Rand(name, size.String())
				in := make([][][]float32, items)
				for i := range in {
					x := gradtest.Vector(r, int(size.Items()))
					for j := range x {
						x[j] *= 3
					}
					in[i] = [][]float32{x}
				}
				sameInBatch(t, alone, together, b.G, in)
			})
		}
	}
}
