package ort

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	defaultBatch = 64
	deviceBatch  = 256 // on a device, if its memory allows
)

var errClosed = errors.New("the pool is closed")

// Pool runs programs in batches, several runs side by side, each on one thread unless [Threads] says otherwise. On the
// CPU an item's result does not depend on the batch it was put in, on the workers or on the threads, to the last bit.
type Pool struct {
	schedule
	threads int    // threads of one run
	attack  Target // target of programs for attacks: on, unless a provider runs only those
	done    sync.WaitGroup
	// cores limits the goroutines of [Pool.Work] that run Go code to the threads of all runs; nil: any number, on a
	// device and if the machine has no more cores than that.
	cores  chan struct{}
	memory Memory

	estimated  bool         // the batch is chosen by a device's free memory
	deviceFree int64        // that memory before the first program, in bytes
	exclusive  sync.RWMutex // held for reading by each run, and for writing by one that repeats a pass without memory
}

// NewPool makes a pool. workers is the number of runs side by side: 0 means as many as keep all cores busy with the
// pool's threads per run, and two on a device (see [On]); the maximum is four per core. batch is the largest number of
// items in a run: 0 means 64, and on a device 256 or fewer, depending on its memory.
func NewPool(workers, batch int, opts ...PoolOption) *Pool {
	p := &Pool{threads: 1, schedule: schedule{on: Target{ProviderCPU, 0, Float32}, programs: map[*Program]struct{}{}}}
	for _, o := range opts {
		o(p)
	}
	if p.attack.Provider == "" {
		p.attack = p.on
	}
	p.threads = AtMost(p.threads)
	cores := runtime.GOMAXPROCS(0)
	allWorkers, allBatch := max(1, cores/p.threads), defaultBatch
	if p.OnDevice() {
		allWorkers, allBatch, p.estimated = 2, deviceBatch, batch <= 0
	}
	if p.workers = AtMost(workers); workers <= 0 {
		p.workers = allWorkers
	}
	if batch <= 0 {
		batch = allBatch
	}
	p.batch.Store(int64(batch))
	if n := p.workers * p.threads; !p.OnDevice() && n < cores {
		p.cores = make(chan struct{}, n)
	}
	p.work.L, p.idle.L = &p.mu, &p.mu
	p.timer = time.AfterFunc(time.Hour, p.stalled)
	p.timer.Stop()
	for w := range p.workers {
		p.done.Go((&worker{pool: p, index: w}).loop)
	}
	return p
}

// AtMost bounds a number of threads or workers by four per core: more gain nothing, and each takes memory.
func AtMost(n int) int { return min(n, 4*runtime.GOMAXPROCS(0)) }

// Threads returns the number of threads that work on one run.
func (p *Pool) Threads() int { return p.threads }

// Target returns the target of programs [ForAttacks], or of the others.
func (p *Pool) Target(attacks bool) Target {
	if attacks {
		return p.attack
	}
	return p.on
}

// Close ends the pool: waiting requests get an error, running batches finish, and all programs and memory are freed.
func (p *Pool) Close() {
	p.mu.Lock()
	used := len(p.programs) > 0
	p.closed = true
	p.timer.Stop()
	for prog := range p.programs {
		prog.closeLocked()
	}
	p.work.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
	if used {
		renewArena(p.arenaLimit())
	}
}

// Run evaluates one item. in[i] and out[i] are its flat values for port i; a nil out[i] is skipped. Run blocks until
// the item's batch has run, or until ctx ends while it waits. When Run returns, in and out belong to the caller again.
func (p *Pool) Run(ctx context.Context, prog *Program, in, out [][]float32) error {
	err := p.run(ctx, prog, in, nil, out)
	if err != nil || prog.exactly == nil || !slices.ContainsFunc(out, anyNaN) {
		return err
	}
	exact, err := prog.exactly()
	if err != nil {
		return err
	}
	return p.run(ctx, exact, in, nil, out)
}

func anyNaN(values []float32) bool {
	return slices.ContainsFunc(values, func(v float32) bool { return v != v })
}

// RunOf is Run for a program with one input, which fill writes straight into the batch. Another goroutine calls fill,
// more than once if a run needs more items than there are.
func (p *Pool) RunOf(ctx context.Context, prog *Program, fill func(x []float32), out [][]float32) error {
	return p.run(ctx, prog, nil, fill, out)
}

func (p *Pool) run(ctx context.Context, prog *Program, in [][]float32, fill func(x []float32), out [][]float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := requests.Get().(*request)
	r.in, r.fill, r.out = in, fill, out
	err := prog.check(p, r)
	if err == nil {
		err = p.enqueue(prog, r)
	}
	if err != nil {
		r.release()
		return fmt.Errorf("run %s: %w", prog.name, err)
	}
	if p.cores != nil && ctx.Value(p) != nil { // the caller holds a core in Work
		<-p.cores
		defer func() { p.cores <- struct{}{} }()
	}
	select {
	case err = <-r.done:
	case <-ctx.Done():
		if p.withdraw(prog, r) {
			err = ctx.Err()
		} else {
			err = <-r.done
		}
	}
	r.release()
	return err
}

// check compares an item's slices with the ports.
func (p *Program) check(pool *Pool, r *request) error {
	if p.pool != pool {
		return errors.New("the program belongs to another pool")
	}
	given, out := len(r.in), r.out
	if r.fill != nil {
		given++
	}
	if given != len(p.inputs) || len(out) != len(p.outputs) {
		return fmt.Errorf("%d inputs and %d outputs given, the program has %d and %d",
			given, len(out), len(p.inputs), len(p.outputs))
	}
	for i, x := range r.in {
		if port := p.inputs[i]; len(x) != port.Size {
			return fmt.Errorf("input %q has %d values, an item has %d", port.Name, len(x), port.Size)
		}
	}
	for i, port := range p.outputs {
		if out[i] != nil && len(out[i]) != port.Size {
			return fmt.Errorf("output %q has room for %d values, an item has %d", port.Name, len(out[i]), port.Size)
		}
	}
	return nil
}

// Work runs fn in the calling goroutine once a core is free for it. It gives up the core while fn waits in [Pool.Run]
// under the context passed to fn. fn must not wait for another goroutine's Work in any other way.
func (p *Pool) Work(ctx context.Context, fn func(ctx context.Context) error) error {
	if p.cores == nil {
		return fn(ctx)
	}
	p.cores <- struct{}{}
	defer func() { <-p.cores }()
	return fn(context.WithValue(ctx, p, true))
}
