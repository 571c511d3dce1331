package ort

import (
	"slices"
	"sync"
)

// request is one item that waits for its batch.
type request struct {
	in, out [][]float32
	fill    func(x []float32) // writes the only input; nil: in has all of them
	tick    int64             // Pool.tick when it began to wait
	done    chan error
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan error, 1)} }}

func (r *request) release() {
	r.in, r.fill, r.out = nil, nil, nil
	requests.Put(r)
}

// quiet reports that no entered goroutine runs Go code, so no batch gets fuller by waiting.
func (p *Pool) quiet() bool { return p.waiting+p.served >= p.entered }

// target is the number of requests worth a run of their own while others may still come: a full batch, or each worker's
// share of the entered goroutines if they are too few to fill a batch for each. On a device, where each run has a whole
// batch whatever waits, they share one.
func (p *Pool) target() int {
	if p.entered == 0 {
		return p.Batch()
	}
	runs := p.workers
	if p.OnDevice() {
		runs = 1
	}
	return max(1, min(p.Batch(), ceilDiv(p.entered, runs)))
}

// pick chooses the program to run next and how many of its requests. A program that was overtaken too often comes
// first, then one with a full batch. The longest queue goes when all queues together hold a batch, or when there is
// nothing to gain by waiting; then each idle worker gets its share. pick returns nil if it is better to wait.
func (p *Pool) pick() (*Program, int) {
	if p.waiting == 0 {
		return nil, 0
	}
	target := p.target()
	share := max(target, ceilDiv(p.waiting, p.workers))
	var oldest, full, longest *Program
	for _, a := range p.active {
		if oldest == nil || a.since() < oldest.since() {
			oldest = a
		}
		if len(a.queue) >= target && (full == nil || a.since() < full.since()) {
			full = a
		}
		if longest == nil || len(a.queue) > len(longest.queue) {
			longest = a
		}
	}
	best := full
	switch {
	case p.tick-oldest.since() > overtaken*int64(p.workers):
		best = oldest
	case best != nil:
	case p.waiting >= target:
		// Enough for a batch, but of several programs (attacks that take forward passes and gradients in turn): a core
		// that idles until one queue is full costs more than a smaller batch.
		best = longest
	case p.quiet() || p.overdue:
		best = longest
		share = ceilDiv(p.waiting, p.free)
	default:
		return nil, 0
	}
	if p.OnDevice() {
		share = p.Batch()
	}
	return best, min(len(best.queue), share, p.Batch())
}

// since is when the program's first request began to wait.
func (p *Program) since() int64 { return p.queue[0].tick }

// dequeue takes the requests from first to last, which is not among them, out of a queue.
func (p *Pool) dequeue(prog *Program, first, last int) {
	prog.queue = slices.Delete(prog.queue, first, last)
	p.waiting -= last - first
	if len(prog.queue) == 0 {
		p.active = slices.DeleteFunc(p.active, func(a *Program) bool { return a == prog })
	}
}

// next blocks until there is a batch for a worker and moves its requests to buf; nil: the pool is closed.
func (p *Pool) next(buf []*request) (*Program, []*request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	defer func() { p.free-- }()
	for {
		if p.closed {
			return nil, nil
		}
		prog, n := p.pick()
		if prog == nil {
			if p.waiting > 0 {
				p.arm()
			}
			p.work.Wait()
			continue
		}
		buf = append(buf[:0], prog.queue[:n]...)
		p.dequeue(prog, 0, n)
		prog.inflight++
		p.served += n
		p.tick++
		p.overdue = false
		if p.waiting > 0 {
			p.work.Signal() // the rest may be another idle worker's
		}
		return prog, buf
	}
}

// finished counts a batch as run and lets its requests go.
func (p *Pool) finished(prog *Program, batch []*request, err error) {
	if err == nil {
		prog.items.Add(int64(len(batch)))
	}
	p.mu.Lock()
	p.served -= len(batch)
	prog.inflight--
	prog.freeIfDone()
	p.mu.Unlock()
	for _, r := range batch {
		r.done <- err
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
