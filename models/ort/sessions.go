package ort

import (
	"context"
	"sync"
	"sync/atomic"
)

// Sessions are one model opened several times, for runs side by side.
type Sessions []*Session

// OpenAll opens a graph n times. Close the sessions when done.
func OpenAll(name string, graph interface{ Encode() ([]byte, error) }, n int) (Sessions, error) {
	model, err := graph.Encode()
	if err != nil {
		return nil, err
	}
	var all Sessions
	for range n {
		s, err := Open(name, model)
		if err != nil {
			all.Close()
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Close frees the sessions.
func (all Sessions) Close() {
	for _, s := range all {
		s.Close()
	}
}

// InOrder runs the tasks 0 … tasks−1: workers compute side by side, and what they compute is
// added one at a time in the order of the tasks, so that sums do not depend on the workers.
// The first error, or ctx's, ends the rest.
func InOrder[T any](ctx context.Context, workers, tasks int, compute func(worker, task int) (T, error),
	add func(task int, v T)) error {
	type result struct {
		value T
		err   error
	}
	results := make([]chan result, tasks)
	for i := range results {
		results[i] = make(chan result) // a worker waits until it is its task's turn
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	for w := range min(workers, tasks) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < tasks && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				v, err := compute(w, i)
				select {
				case results[i] <- result{v, err}:
				case <-ctx.Done():
				}
			}
		})
	}
	for i, r := range results {
		select {
		case one := <-r:
			if one.err != nil {
				return one.err
			}
			add(i, one.value)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
