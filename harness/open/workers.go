package open

import (
	"context"
	"runtime"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/folder"
	"selfheal/models/ort"

	"golang.org/x/sync/errgroup"
)

// Workers compute on a pool. They bound how many images are under way at once by the memory that each takes. A merge's
// workers have no pool and no work.
type Workers struct{ Pool *ort.Pool }

// ForEach is [control.ForEach] with fewer concurrent images if the state of each, in bytes, would take too much
// memory.
func (w Workers) ForEach(ctx context.Context, n int, state int64, fn func(ctx context.Context, i int) error) error {
	if n == 0 {
		return nil
	}
	return control.ForEach(ctx, w.Pool, n, inFlight(w.Pool, state), fn)
}

// Over returns a runner that calls [Workers.ForEach] for some of the images.
func (w Workers) Over(state int64) folder.Runner {
	return func(ctx context.Context, images []int, do func(ctx context.Context, i int) error) error {
		return w.ForEach(ctx, len(images), state, func(ctx context.Context, k int) error { return do(ctx, images[k]) })
	}
}

// SideBySide returns a runner that works on up to width images at once, without the pool.
func SideBySide(width int) folder.Runner {
	return func(ctx context.Context, images []int, do func(ctx context.Context, i int) error) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(width)
		for _, i := range images {
			g.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return do(ctx, i)
			})
		}
		return g.Wait()
	}
}

// Cores returns how many cores a run computes on.
func (w Workers) Cores() int {
	if w.Pool.OnDevice() {
		return runtime.GOMAXPROCS(0)
	}
	return max(1, min(runtime.GOMAXPROCS(0), w.Pool.Workers()*w.Pool.Threads()))
}

// Width returns how many images a run works on at once, if each keeps so many bytes.
func (w Workers) Width(state int64) int {
	return min(2*w.Pool.Workers()*w.Pool.Batch(), inFlight(w.Pool, state))
}

// stateBudget bounds the memory, in bytes, that attacks and closed loops keep in Go for all images under way, besides
// the batches of the pool's workers. At 32×32 pixels it limits nothing. At 224×224 it does: two batches of 64 images
// a worker at 10 MB an image would be gigabytes.
const stateBudget = 256 << 20

// attackVectors bounds the vectors of an image's size that an attack keeps: APGD in ℓ1 keeps most, two of them in
// float64.
const attackVectors = 16

func attackState(s attacks.Shape) int64 { return 4 * attackVectors * int64(s.Size()) }

// loopState returns the memory that a closed loop keeps for an image, in bytes: for each segment its input, the
// controlled input and the control and, for the widest place, an adjoint, the one before it and the momentum.
func loopState(chain *control.Chain) int64 {
	var sum, widest int64
	for t := range chain.Segments {
		n := chain.StateShape(t).Items()
		sum, widest = sum+n, max(widest, n)
	}
	return 4 * (3*sum + 3*widest)
}

// inFlight returns how many images, each with so many bytes of state, may be under way. It allows at least two a
// worker, or workers would wait for each other. A device computes whole batches: its budget is a quarter of the free
// memory, if that is more.
func inFlight(pool *ort.Pool, state int64) int {
	budget := int64(stateBudget)
	if free, known := freeMemory(); known && pool.OnDevice() {
		budget = max(budget, free/4)
	}
	return int(max(2*int64(pool.Workers()), budget/max(1, state)))
}
