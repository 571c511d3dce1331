package gradtest_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
)

// kernels are the operators whose ONNX Runtime kernels must compute an item the
// same wherever in a batch it stands, as graphs are written for the runtime.
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
		if t := onnx.TraitsOf(op); t.Pointwise && t.Slope != nil {
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

// Items of many sizes, few of which fill vector registers, have the same bits
// alone and in a batch of 9.
func TestKernelsKeepItemsApart(t *testing.T) {
	const items = 9
	alone, together := newPool(t, 1), newPool(t, items)
	for name, op := range kernels() {
		for _, size := range []onnx.Shape{{onnx.Batch, 1, 7}, {onnx.Batch, 3, 37}, {onnx.Batch, 13, 5},
			{onnx.Batch, 4, 48}, {onnx.Batch, 1, 1031}} {
			b := &onnx.Builder{G: onnx.NewGraph(name)}
			b.G.Opset = 20
			b.Output("y", op(b, b.Input("x", size)))
			if b.Err() != nil {
				t.Fatal(name, b.Err())
			}
			one, many := compile(t, alone, b.G), compile(t, together, b.G)
			r := gradtest.Rand(name, size.String())
			x, want, got := [items][]float32{}, [items][]float32{}, [items][]float32{}
			for i := range items {
				x[i] = gradtest.Vector(r, int(size.Items()))
				for j := range x[i] {
					x[i][j] *= 3
				}
				want[i] = one.mustRun(t, x[i])[0]
			}
			errs := [items]error{}
			var wg sync.WaitGroup
			for range items {
				together.Enter()
			}
			for i := range items {
				wg.Go(func() {
					defer together.Leave()
					out, err := many.run(x[i])
					got[i], errs[i] = out[0], err
				})
			}
			wg.Wait()
			for i := range items {
				if errs[i] != nil {
					t.Fatal(name, errs[i])
				}
				differ := 0
				for j, v := range want[i] {
					if math.Float32bits(v) != math.Float32bits(got[i][j]) {
						differ++
					}
				}
				if differ > 0 {
					t.Errorf("%s of %v: item %d has %d values of %d that differ in a batch", name, size, i, differ,
						len(want[i]))
					break
				}
			}
		}
	}
}
