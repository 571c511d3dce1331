package pca

import (
	"context"
	"runtime"
	"sync"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// product is a matrix product as a graph, on one session a worker. ONNX Runtime's
// kernels multiply some twenty times as fast as gonum's, and give the same bits
// whatever the number of workers: each run has one thread, and what runs give is
// added in the order of the tasks.
type product struct{ sessions []*ort.Session }

// openProduct makes the sessions of a graph.
func openProduct(name string, workers int, build func(b *onnx.Builder)) (*product, error) {
	b := &onnx.Builder{G: onnx.NewGraph(name)}
	build(b)
	if err := b.Err(); err != nil {
		return nil, err
	}
	data, err := b.G.Encode()
	if err != nil {
		return nil, err
	}
	p := &product{}
	for range max(workers, 1) {
		s, err := ort.Open(name, data)
		if err != nil {
			p.close()
			return nil, err
		}
		p.sessions = append(p.sessions, s)
	}
	return p, nil
}

func (p *product) close() {
	for _, s := range p.sessions {
		s.Close()
	}
}

// each runs the tasks 0 … tasks−1: compute side by side, add one at a time in order.
// The first error, or ctx's, ends the rest.
func (p *product) each(ctx context.Context, tasks int, inputs func(task int) []ort.Tensor,
	add func(task int, out []ort.Tensor)) error {
	var (
		mu     sync.Mutex
		turned = sync.NewCond(&mu)
		next   int // task to be computed
		turn   int // task to be added
		failed error
		wg     sync.WaitGroup
	)
	for _, s := range p.sessions[:min(len(p.sessions), tasks)] {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < tasks && failed == nil {
				i := next
				next++
				mu.Unlock()
				err := ctx.Err()
				var out []ort.Tensor
				if err == nil {
					out, err = s.Run(inputs(i))
				}
				mu.Lock()
				for turn < i && failed == nil {
					turned.Wait()
				}
				if failed == nil {
					failed = err
				}
				if failed == nil {
					add(i, out)
					turn++
				}
				turned.Broadcast()
			}
		})
	}
	wg.Wait()
	return failed
}

// sketchProduct multiplies rows of b by the outer products of states:
// x [rows dim], b [tile dim] → (x·bᵀ)ᵀ·x [tile dim], in float32.
func sketchProduct(workers, rows, dim, tile int) (*product, error) {
	return openProduct("pca/sketch", workers, func(b *onnx.Builder) {
		x := b.Input("x", shape2(rows, dim))
		weights := b.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, b.Input("b", shape2(tile, dim)))
		b.Output("p", b.OpWith("Gemm", onnx.Attrs{"transA": 1}, weights, x))
	})
}

// outerProduct adds up outer products of states: a [rows tile], which is columns of x,
// and x [rows dim] → aᵀ·x [tile dim].
func outerProduct(workers, rows, dim, tile int) (*product, error) {
	return openProduct("pca/outer", workers, func(b *onnx.Builder) {
		x := b.Input("x", shape2(rows, dim))
		a := b.Input("a", shape2(rows, tile))
		narrow(b, b.OpWith("Gemm", onnx.Attrs{"transA": 1}, double(b, a), double(b, x)))
	})
}

// crossProduct is a·bᵀ of a panel of columns: a [tile width], b [k width] → [tile k].
func crossProduct(workers, tile, k, width int) (*product, error) {
	return openProduct("pca/cross", workers, func(b *onnx.Builder) {
		left, right := wide(b, "a", shape2(tile, width)), wide(b, "b", shape2(k, width))
		narrow(b, b.OpWith("Gemm", onnx.Attrs{"transB": 1}, left, right))
	})
}

// mixProduct is m·y of a panel of columns: m [tile k], y [k width] → [tile width].
func mixProduct(workers, tile, k, width int) (*product, error) {
	return openProduct("pca/mix", workers, func(b *onnx.Builder) {
		narrow(b, b.Op("Gemm", wide(b, "m", shape2(tile, k)), wide(b, "y", shape2(k, width))))
	})
}

func shape2(rows, columns int) onnx.Shape { return onnx.Shape{int64(rows), int64(columns)} }

func double(b *onnx.Builder, x string) string {
	return b.OpWith("Cast", onnx.Attrs{"to": int(onnx.Double)}, x)
}

// wide is a float64 matrix that comes as the sum of two float32 ones: sessions take and
// give float32, and the sum keeps 48 bits.
func wide(b *onnx.Builder, name string, shape onnx.Shape) string {
	high, low := b.Input(name, shape), b.Input(name+"/low", shape)
	return b.Op("Add", double(b, high), double(b, low))
}

// narrow outputs a float64 matrix as such a sum.
func narrow(b *onnx.Builder, x string) {
	float := func(x string) string { return b.OpWith("Cast", onnx.Attrs{"to": int(onnx.Float)}, x) }
	high := float(x)
	b.Output("high", high)
	b.Output("low", float(b.Op("Sub", x, double(b, high))))
}

// matrix is a float32 tensor of two dimensions.
func matrix(rows, columns int, data []float32) ort.Tensor {
	return ort.Tensor{Shape: []int64{int64(rows), int64(columns)}, Data: data[:rows*columns]}
}

// collect frees what sessions returned. Their results are as large as half of what a fit
// keeps; left to itself the collector lets as much garbage pile up as there is in use,
// the images included. It has next to nothing to scan, so this costs a millisecond.
func collect() { runtime.GC() }
