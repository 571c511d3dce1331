// Package tree runs branch and bound on several cores. A [Tree] is set up with a function that examines and splits
// parts; [Tree.Grow] runs until all parts are decided, an error comes or the tree is given up.
package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// mostParts is the number of parts after which a tree is given up.
const mostParts = 4_000_000

// Errors of [Tree.Examine] that end a tree without being returned.
var (
	ErrOpen = errors.New("a part can neither be decided nor cut")
	ErrDone = errors.New("more is not to be known") // more can't be learned, for example after a counterexample
)

// Count counts the parts of one or more trees while they grow.
type Count struct{ Examined, Waiting atomic.Int64 }

// Tree splits parts of a question until all are decided. The waiting parts form a stack, which keeps memory small.
type Tree[P any] struct {
	// Examine splits some parts and returns the new parts that are not decided. Several goroutines call it.
	Examine  func(ctx context.Context, parts []P) (open []P, err error)
	Most     int // number of parts examined at once; 0 means one
	Patience int // parts after which the tree is given up; 0: some millions
	Workers  int
	Count    *Count // nil: no count

	mu       sync.Mutex
	changed  *sync.Cond
	waiting  []P
	busy     int // number of parts being examined
	examined int
	ended    bool
}

// Grow begins with some parts and reports whether all were decided.
func (t *Tree[P]) Grow(ctx context.Context, parts ...P) (decided bool, err error) {
	t.waiting, t.changed, t.Workers = parts, sync.NewCond(&t.mu), max(1, t.Workers)
	group, inner := errgroup.WithContext(ctx)
	defer context.AfterFunc(inner, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed.Broadcast()
	})()
	for range t.Workers {
		group.Go(func() error {
			for {
				parts := t.next(inner)
				if len(parts) == 0 {
					return context.Cause(inner)
				}
				open, err := t.Examine(inner, parts)
				if err := t.add(len(parts), open, err); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	return err == nil && !t.ended, err
}

// next waits for parts and returns the last ones; it returns none if all are decided, or enough is known.
func (t *Tree[P]) next(ctx context.Context) (parts []P) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) == 0 && t.busy > 0 && !t.ended && ctx.Err() == nil {
		t.changed.Wait()
	}
	if len(t.waiting) == 0 || t.ended || ctx.Err() != nil {
		return nil
	}
	share := (len(t.waiting) + t.Workers - 1) / t.Workers // leaves some to the other workers
	left := len(t.waiting) - min(max(1, t.Most), share)
	parts, t.waiting = slices.Clone(t.waiting[left:]), t.waiting[:left]
	t.busy += len(parts)
	if t.examined += len(parts); t.Count != nil {
		t.Count.Examined.Add(int64(len(parts)))
		t.Count.Waiting.Store(int64(len(t.waiting) + t.busy))
	}
	return parts
}

// add stores the result of examining some parts.
func (t *Tree[P]) add(parts int, open []P, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy -= parts
	t.waiting = append(t.waiting, open...)
	ends := errors.Is(err, ErrOpen) || errors.Is(err, ErrDone)
	if t.ended = t.ended || ends || t.examined >= cmp.Or(t.Patience, mostParts); ends {
		err = nil
	}
	t.changed.Broadcast()
	return err
}
