package control

import (
	"context"
	"sync"

	"selfheal/models/ort"
)

// ForEach calls fn for 0 … n−1, each in a goroutine of its own that the pool
// knows of, so that their model passes share batches. About two batches a
// worker are under way at once, and no more than limit where that is above 0. The
// first error, or ctx's, ends the rest.
func ForEach(ctx context.Context, pool *ort.Pool, n, limit int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	width := 2 * pool.Workers() * pool.Batch()
	if limit > 0 {
		width = min(width, limit)
	}
	slots := make(chan struct{}, width)
	var wg sync.WaitGroup
loop:
	for i := range n {
		select {
		case <-ctx.Done():
			break loop
		case slots <- struct{}{}:
		}
		pool.Enter()
		wg.Go(func() {
			defer func() {
				pool.Leave()
				<-slots
			}()
			if err := pool.Work(ctx, func(ctx context.Context) error { return fn(ctx, i) }); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
