package control

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"selfheal/models/ort"
)

// ForEach calls fn for 0 … n−1 in goroutines that the pool knows of, so that their model passes share batches. It
// runs about two batches for each worker at once, and at most limit calls if limit is above 0. The first error, or
// ctx's, stops the rest.
func ForEach(ctx context.Context, pool *ort.Pool, n, limit int, fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	width := 2 * pool.Workers() * pool.Batch()
	if limit > 0 {
		width = min(width, limit)
	}
	var next atomic.Int64
	for range min(width, n) {
		pool.Enter()
		g.Go(func() error {
			defer pool.Leave()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := pool.Work(ctx, func(ctx context.Context) error { return fn(ctx, i) }); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	return g.Wait()
}
