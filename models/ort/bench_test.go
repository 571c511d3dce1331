package ort

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// perItem runs b.N items through goroutines that call Run one after the other.
func perItem(ctx context.Context, b *testing.B, p *Pool, prog *Program, goroutines int) {
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for g := range goroutines {
		p.Enter()
		wg.Go(func() {
			defer p.Leave()
			in, out := room(prog.Inputs()), room(prog.Outputs())
			for i := g; i < b.N; i += goroutines {
				if err := p.Run(ctx, prog, in, out); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkPoolOverhead is a model that does next to nothing: what is left is
// the pool's own time per item.
func BenchmarkPoolOverhead(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			p := newPool(b, workers, 64)
			perItem(context.Background(), b, p, compile(b, p, "add"), 2*workers*64)
		})
	}
}

// BenchmarkPoolSmallModel compares the pool with the bare session, one batch
// after the other on one thread.
func BenchmarkPoolSmallModel(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			p := newPool(b, workers, 64)
			perItem(context.Background(), b, p, compile(b, p, "conv"), 2*workers*64)
		})
	}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("bare=%d", threads), func(b *testing.B) {
			p := newPool(b, threads, 64)
			prog := compile(b, p, "conv")
			var wg sync.WaitGroup
			for t := range threads {
				wg.Go(func() {
					w := &worker{pool: p, index: t}
					defer w.pinner.Unpin()
					k, err := w.kit(prog, 64)
					if err != nil {
						b.Error(err)
						return
					}
					for i := 0; i < b.N; i += 64 * threads {
						if err := prog.session.RunWithBinding(k.binding); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkPoolCancellable is the overhead under a context that can end.
func BenchmarkPoolCancellable(b *testing.B) {
	p := newPool(b, 2, 64)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	perItem(ctx, b, p, compile(b, p, "add"), 256)
}
