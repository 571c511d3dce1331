package optimize

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// BenchmarkLayer times a 3×3 convolution between two others in every form, on one core, in nanoseconds per image. The
// costs in conv.go were fitted to these times.
//
//	go test ./models/optimize -run '^$' -bench Layer -benchtime 2s
func BenchmarkLayer(b *testing.B) {
	const items = 32
	for _, c := range []struct{ channels, size int64 }{
		{64, 32}, {128, 32}, {128, 16}, {256, 16}, {256, 8}, {512, 8}, {512, 4},
	} {
		n := network{&onnx.Builder{G: onnx.NewGraph("layer")}, rand.New(rand.NewPCG(1, 1))}
		x := n.Input("x", onnx.Shape{onnx.Batch, c.channels, c.size, c.size})
		n.Output("y", n.Op("GlobalAveragePool", n.conv(x, c.channels, 3, 1)))
		for _, form := range []struct {
			name  string
			sizes []int
		}{{"direct", nil}, {"F(2)", []int{2}}, {"F(4)", []int{4}}} {
			t := must.Get(rewrite(n.G.Clone(), form.sizes))(b)
			if form.sizes != nil && t.weights == 0 {
				continue // not worth its transforms, or too few tiles
			}
			b.Run(fmt.Sprintf("%d/%d×%d/%s", c.channels, c.size, c.size, form.name), func(b *testing.B) {
				pool := ort.NewPool(1, items)
				defer pool.Close()
				p := must.Get(pool.Compile("layer", must.Get(t.G.Encode())(b)))(b)
				in := random(2, items, n.G.Inputs[0].Shape)
				b.ResetTimer()
				var wg sync.WaitGroup
				for i := range items {
					pool.Enter()
					wg.Go(func() {
						defer pool.Leave()
						out := [][]float32{make([]float32, p.Outputs()[0].Size)}
						for k := i; k < b.N; k += items {
							if err := pool.Run(context.Background(), p, in[i:i+1], out); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
