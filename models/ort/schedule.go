package ort

import "sync"

// request is one item that waits for its batch.
type request struct {
	in, out [][]float32
	tick    int64 // Pool.tick when it began to wait
	done    chan error
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan error, 1)} }}

func (r *request) finish(err error) { r.done <- err }

func (r *request) release() {
	r.in, r.out = nil, nil
	requests.Put(r)
}

// queue is a first-in, first-out list of requests.
type queue struct {
	list []*request
	head int
}

func (q *queue) len() int          { return len(q.list) - q.head }
func (q *queue) first() *request   { return q.list[q.head] }
func (q *queue) waits() []*request { return q.list[q.head:] }

func (q *queue) push(r *request) {
	if q.head > 256 && q.head > q.len() {
		q.list, q.head = q.list[:copy(q.list, q.waits())], 0
	}
	q.list = append(q.list, r)
}

// take removes the first n requests. The slice is good until the next push.
func (q *queue) take(n int) []*request {
	taken := q.list[q.head : q.head+n]
	q.head += n
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return taken
}

func (q *queue) remove(r *request) bool {
	for i, other := range q.waits() {
		if other == r {
			q.list = append(q.list[:q.head+i], q.list[q.head+i+1:]...)
			return true
		}
	}
	return false
}

// quiet: no entered goroutine runs Go code, so no batch gets fuller by waiting.
func (p *Pool) quiet() bool { return p.waiting+p.served >= p.entered }

// target is the number of requests worth a run of their own while others may
// still come: a full batch, or every worker's share of the entered goroutines
// when these are too few to fill a batch for each.
func (p *Pool) target() int {
	if p.entered == 0 {
		return p.batch
	}
	return max(1, min(p.batch, ceilDiv(p.entered, p.workers)))
}

// pick chooses the program to run next and how many of its requests: one that
// was overtaken too often, else one with a full batch, else the longest queue:
// when all queues together hold a batch, or when nothing is to be gained by
// waiting, and then every idle worker gets its share. It returns nil if it is better to wait.
func (p *Pool) pick() (*Program, int) {
	if p.waiting == 0 {
		return nil, 0
	}
	target := p.target()
	share := max(target, ceilDiv(p.waiting, p.workers))
	var oldest, full, longest *Program
	for _, a := range p.active {
		if oldest == nil || a.queue.first().tick < oldest.queue.first().tick {
			oldest = a
		}
		if a.queue.len() >= target && (full == nil || a.queue.first().tick < full.queue.first().tick) {
			full = a
		}
		if longest == nil || a.queue.len() > longest.queue.len() {
			longest = a
		}
	}
	best := full
	switch {
	case p.tick-oldest.queue.first().tick > patience*int64(p.workers):
		best = oldest
	case best != nil:
	case p.waiting >= target:
		// Enough for a batch, but of several programs (attacks that take forward
		// passes and gradients in turn): a core that idles until one queue is full
		// costs more than a smaller batch.
		best = longest
	case p.quiet() || p.overdue:
		best = longest
		share = ceilDiv(p.waiting, p.free)
	default:
		return nil, 0
	}
	return best, min(best.queue.len(), share, p.batch)
}

// next blocks until there is a batch for a worker and moves its requests to
// buf; nil: the pool is closed.
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
		buf = append(buf[:0], prog.queue.take(n)...)
		if prog.queue.len() == 0 {
			p.deactivate(prog)
		}
		prog.inflight++
		p.waiting -= n
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
		r.finish(err)
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
