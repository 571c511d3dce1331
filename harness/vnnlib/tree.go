package vnnlib

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// mostParts is after how many parts a tree is given up.
const mostParts = 4_000_000

// errOpen says that a part can neither be decided nor cut.
var errOpen = errors.New("a part stays open")

// tree cuts parts of what is asked until all are decided: branch and bound. The parts that wait are a stack, whose
// memory is small.
type tree[P any] struct {
	// examine cuts a part, and gives the parts of it that are not decided, or a counterexample.
	examine func(ctx context.Context, part P) (parts []P, found *Result, err error)

	mu       sync.Mutex
	changed  *sync.Cond
	waiting  []P
	busy     int // parts that are under way
	examined int
	found    *Result
	failed   bool
}

// grow begins with some parts and reports whether in none of them a case holds, or a counterexample that was met.
func (t *tree[P]) grow(ctx context.Context, parts ...P) (found *Result, proven bool, err error) {
	t.waiting, t.changed = parts, sync.NewCond(&t.mu)
	group, inner := errgroup.WithContext(ctx)
	defer context.AfterFunc(inner, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed.Broadcast()
	})()
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for {
				p, ok := t.next(inner)
				if !ok {
					return context.Cause(inner)
				}
				if err := t.add(t.examine(inner, p)); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	return t.found, err == nil && t.found == nil && !t.failed, err
}

// next waits for a part; there is none where all is decided, or enough is known.
func (t *tree[P]) next(ctx context.Context) (p P, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) == 0 && t.busy > 0 && t.found == nil && !t.failed && ctx.Err() == nil {
		t.changed.Wait()
	}
	if len(t.waiting) == 0 || t.found != nil || t.failed || ctx.Err() != nil {
		return p, false
	}
	last := len(t.waiting) - 1
	p, t.waiting = t.waiting[last], t.waiting[:last]
	t.busy++
	t.examined++
	return p, true
}

// add takes what came of a part.
func (t *tree[P]) add(parts []P, found *Result, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	t.waiting = append(t.waiting, parts...)
	if found != nil {
		t.found = found
	}
	if t.failed = t.failed || errors.Is(err, errOpen) || t.examined > mostParts; errors.Is(err, errOpen) {
		err = nil
	}
	t.changed.Broadcast()
	return err
}
