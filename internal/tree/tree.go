// Package tree grows trees of cases: branch and bound, on several cores.
package tree

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// mostParts is after how many parts a tree is given up.
const mostParts = 4_000_000

// Errors of [Tree.Examine] that end a tree without being its own.
var (
	ErrOpen = errors.New("a part can neither be decided nor cut")
	ErrDone = errors.New("more is not to be known") // as where a counterexample was met
)

// Count is of the parts of one or more trees, while they grow.
type Count struct{ Examined, Waiting atomic.Int64 }

// Tree cuts parts of what is asked until all are decided. The parts that wait are a stack, whose memory is small.
type Tree[P any] struct {
	// Examine cuts a part, and gives the parts of it that are not decided. Several goroutines call it.
	Examine func(ctx context.Context, part P) (parts []P, err error)
	Workers int
	Count   *Count // nil: nobody counts

	mu       sync.Mutex
	changed  *sync.Cond
	waiting  []P
	busy     int // parts that are under way
	examined int
	ended    bool
}

// Grow begins with some parts and reports whether all was decided.
func (t *Tree[P]) Grow(ctx context.Context, parts ...P) (decided bool, err error) {
	t.waiting, t.changed = parts, sync.NewCond(&t.mu)
	group, inner := errgroup.WithContext(ctx)
	defer context.AfterFunc(inner, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed.Broadcast()
	})()
	for range max(1, t.Workers) {
		group.Go(func() error {
			for {
				p, ok := t.next(inner)
				if !ok {
					return context.Cause(inner)
				}
				if err := t.add(t.Examine(inner, p)); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	return err == nil && !t.ended, err
}

// next waits for a part; there is none where all is decided, or enough is known.
func (t *Tree[P]) next(ctx context.Context) (p P, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) == 0 && t.busy > 0 && !t.ended && ctx.Err() == nil {
		t.changed.Wait()
	}
	if len(t.waiting) == 0 || t.ended || ctx.Err() != nil {
		return p, false
	}
	last := len(t.waiting) - 1
	p, t.waiting = t.waiting[last], t.waiting[:last]
	t.busy++
	if t.examined++; t.Count != nil {
		t.Count.Examined.Add(1)
		t.Count.Waiting.Store(int64(len(t.waiting) + t.busy))
	}
	return p, true
}

// add takes what came of a part.
func (t *Tree[P]) add(parts []P, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	t.waiting = append(t.waiting, parts...)
	ends := errors.Is(err, ErrOpen) || errors.Is(err, ErrDone)
	if t.ended = t.ended || ends || t.examined >= mostParts; ends {
		err = nil
	}
	t.changed.Broadcast()
	return err
}
