package pca

import (
	"context"
	"runtime"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// open makes a session of a matrix product. ONNX Runtime's kernels multiply some twenty times as fast as gonum's.
// Each run has one thread, so the number of workers changes no bit.
func open(name string, build func(b *onnx.Builder)) (*ort.Session, error) {
	b := &onnx.Builder{G: onnx.NewGraph(name)}
	build(b)
	g, err := b.Done()
	if err != nil {
		return nil, err
	}
	return ort.OpenGraph(g)
}

// each runs tasks concurrently and adds their outputs in the order of the tasks.
func each(ctx context.Context, p *ort.Session, workers, tasks int, inputs func(task int) []ort.Tensor,
	add func(task int, out []ort.Tensor)) error {
	return ort.InOrder(ctx, max(workers, 1), tasks,
		func(task int) ([]ort.Tensor, error) { return p.Run(inputs(task)) }, add)
}

func shape2(rows, columns int) onnx.Shape { return onnx.Shape{int64(rows), int64(columns)} }

func cast(b *onnx.Builder, to onnx.DType, x string) string {
	return b.OpWith("Cast", onnx.Attrs{"to": int(to)}, x)
}

// wide returns a float64 matrix that is given as the sum of two float32 inputs, the type that sessions take. The sum
// keeps 48 bits.
func wide(b *onnx.Builder, name string, shape onnx.Shape) string {
	high, low := b.Input(name, shape), b.Input(name+"/low", shape)
	return b.Op("Add", cast(b, onnx.Double, high), cast(b, onnx.Double, low))
}

// narrow outputs a float64 matrix as the sum of two float32 ones.
func narrow(b *onnx.Builder, x string) {
	high := cast(b, onnx.Float, x)
	b.Output("high", high)
	b.Output("low", cast(b, onnx.Float, b.Op("Sub", x, cast(b, onnx.Double, high))))
}

func matrix(rows, columns int, data []float32) ort.Tensor {
	return ort.Tensor{Shape: shape2(rows, columns), Data: data[:rows*columns]}
}

// collect frees the outputs of sessions, half of the memory that a fit takes. Without it the collector lets as much
// garbage pile up as there is memory in use, the images included. It has little to scan and takes a millisecond.
func collect() { runtime.GC() }
