package ort

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// overtaken is how often other batches may overtake a request before its program goes first, full or not.
	overtaken = 16
	// stall is how long a partial batch waits for goroutines that run Go code while a worker is idle. It keeps the pool
	// going if an entered goroutine works long or waits for another one.
	stall = 10 * time.Millisecond
)

// schedule decides which program's items run next, and how many of them.
type schedule struct {
	workers int
	batch   atomic.Int64 // largest number of items in a run; lowered if memory is short
	on      Target       // on a device each run has batch items, padded by repetition

	mu       sync.Mutex
	work     sync.Cond // signals that a batch may be ready
	idle     sync.Cond // signals that a program was freed
	programs map[*Program]struct{}
	active   []*Program // programs with waiting requests, in the order they began to wait
	entered  int        // goroutines between Enter and Leave
	waiting  int        // requests in queues
	served   int        // requests in running batches
	free     int        // idle workers
	tick     int64      // number of batches taken so far
	overdue  bool       // the stall timer has fired
	timer    *time.Timer
	armed    bool
	closed   bool
}

// Workers returns the number of runs side by side.
func (s *schedule) Workers() int { return s.workers }

// Batch returns the largest number of items in a run. With [Within] it may fall while programs are compiled and run.
func (s *schedule) Batch() int { return int(s.batch.Load()) }

// OnDevice reports whether all programs run on a device.
func (s *schedule) OnDevice() bool { return s.on.Row().Device() }

// request is one item waiting for its batch.
type request struct {
	in, out [][]float32
	fill    func(x []float32) // writes the only input; nil: in holds all inputs
	tick    int64             // schedule.tick when it began to wait
	done    chan error
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan error, 1)} }}

func (r *request) release() {
	r.in, r.fill, r.out = nil, nil, nil
	requests.Put(r)
}

// Enter announces a goroutine that makes Run calls one after the other. Call it before the goroutine starts. While
// entered goroutines run Go code, the pool holds partial batches back, for 10 ms at most, so call Leave before long
// waits.
func (s *schedule) Enter() {
	s.mu.Lock()
	s.entered++
	s.mu.Unlock()
}

// Leave ends the effect of Enter.
func (s *schedule) Leave() {
	s.mu.Lock()
	s.entered--
	if s.waiting > 0 {
		s.work.Signal()
	}
	s.mu.Unlock()
}

func (s *schedule) enqueue(prog *Program, r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if prog.closed {
		return errors.New("the program is closed")
	}
	if len(prog.queue) == 0 {
		s.active = append(s.active, prog)
	}
	r.tick = s.tick
	prog.queue = append(prog.queue, r)
	s.waiting++
	if s.free > 0 {
		if s.quiet() || len(prog.queue) >= s.target() {
			s.work.Signal()
		} else {
			s.arm()
		}
	}
	return nil
}

// withdraw takes a waiting request back; it returns false if its batch is running.
func (s *schedule) withdraw(prog *Program, r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(prog.queue, r)
	if i >= 0 {
		s.dequeue(prog, i, i+1)
	}
	return i >= 0
}

// arm starts the stall timer if it does not run.
func (s *schedule) arm() {
	if !s.armed {
		s.armed = true
		s.timer.Reset(stall)
	}
}

// stalled lets one partial batch go although entered goroutines run Go code.
func (s *schedule) stalled() {
	s.mu.Lock()
	s.armed = false
	if s.waiting > 0 && !s.closed {
		s.overdue = true
		s.work.Signal()
	}
	s.mu.Unlock()
}

// quiet reports whether no entered goroutine runs Go code, so that waiting would fill no batch.
func (s *schedule) quiet() bool { return s.waiting+s.served >= s.entered }

// target returns the number of requests that are worth a run while others may still come: a full batch, or each
// worker's share of the entered goroutines if they are too few to fill a batch for each. On a device all share one
// batch.
func (s *schedule) target() int {
	if s.entered == 0 {
		return s.Batch()
	}
	runs := s.workers
	if s.OnDevice() {
		runs = 1
	}
	return max(1, min(s.Batch(), ceilDiv(s.entered, runs)))
}

// pick chooses the program to run next and how many of its requests. A program that was overtaken too often comes
// first, then one with a full batch. The longest queue goes if all queues together hold a batch, or if waiting gains
// nothing; then each idle worker gets its share. pick returns nil if it is better to wait.
func (s *schedule) pick() (*Program, int) {
	if s.waiting == 0 {
		return nil, 0
	}
	target := s.target()
	share := max(target, ceilDiv(s.waiting, s.workers))
	oldest := slices.MinFunc(s.active, func(a, b *Program) int { return cmp.Compare(a.since(), b.since()) })
	longest := slices.MaxFunc(s.active, func(a, b *Program) int { return cmp.Compare(len(a.queue), len(b.queue)) })
	var best *Program // the oldest program with a full batch
	for _, a := range s.active {
		if len(a.queue) >= target && (best == nil || a.since() < best.since()) {
			best = a
		}
	}
	switch {
	case s.tick-oldest.since() > overtaken*int64(s.workers):
		best = oldest
	case best != nil:
	case s.waiting >= target:
		// All queues together hold a batch, as with attacks that alternate forward passes and gradients: an idle core
		// until one queue is full costs more than a smaller batch.
		best = longest
	case s.quiet() || s.overdue:
		best = longest
		share = ceilDiv(s.waiting, s.free)
	default:
		return nil, 0
	}
	if s.OnDevice() {
		share = s.Batch()
	}
	return best, min(len(best.queue), share, s.Batch())
}

// since returns the tick at which the program's first request began to wait.
func (p *Program) since() int64 { return p.queue[0].tick }

// dequeue takes the requests from first up to but not including last out of a queue.
func (s *schedule) dequeue(prog *Program, first, last int) {
	prog.queue = slices.Delete(prog.queue, first, last)
	s.waiting -= last - first
	if len(prog.queue) == 0 {
		s.active = slices.DeleteFunc(s.active, func(a *Program) bool { return a == prog })
	}
}

// next blocks until there is a batch for a worker and moves its requests to buf; it returns nil if the pool is closed.
func (s *schedule) next(buf []*request) (*Program, []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	defer func() { s.free-- }()
	for {
		if s.closed {
			return nil, nil
		}
		prog, n := s.pick()
		if prog == nil {
			if s.waiting > 0 {
				s.arm()
			}
			s.work.Wait()
			continue
		}
		buf = append(buf[:0], prog.queue[:n]...)
		s.dequeue(prog, 0, n)
		prog.inflight++
		s.served += n
		s.tick++
		s.overdue = false
		if s.waiting > 0 {
			s.work.Signal() // another idle worker may run the rest
		}
		return prog, buf
	}
}

// finished counts a batch as run and lets its requests go.
func (s *schedule) finished(prog *Program, batch []*request, err error) {
	if err == nil {
		prog.items.Add(int64(len(batch)))
	}
	s.mu.Lock()
	s.served -= len(batch)
	prog.inflight--
	prog.freeIfDone()
	s.mu.Unlock()
	for _, r := range batch {
		r.done <- err
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
