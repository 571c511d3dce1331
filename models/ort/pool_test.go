package ort

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"selfheal/internal/must"
)

// image returns a random item, the same for the same id.
func image(id, size int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(id)))
	x := make([]float32, size)
	for i := range x {
		x[i] = r.Float32()
	}
	return x
}

// each runs f for n ids in goroutines that have entered the pool.
func each(p *Pool, n int, f func(id int)) {
	var wg sync.WaitGroup
	for id := range n {
		p.Enter()
		wg.Go(func() {
			defer p.Leave()
			f(id)
		})
	}
	wg.Wait()
}

func sameBits(t *testing.T, want, got [][]float32, what string) {
	t.Helper()
	for i := range want {
		for j := range want[i] {
			if math.Float32bits(want[i][j]) != math.Float32bits(got[i][j]) {
				t.Errorf("%s: output %d value %d is %v, wanted %v", what, i, j, got[i][j], want[i][j])
				return
			}
		}
	}
}

// Several programs of different sizes share the workers and their scratch. NaN passes.
func TestManyPrograms(t *testing.T) {
	t.Parallel()
	p := newPool(t, 2, 16)
	conv, add := compile(t, p, "conv"), compile(t, p, "add")
	each(p, 80, func(id int) {
		for k := range 6 {
			a, b := image(id, 4), image(id+k, 4)
			sum := make([]float32, 4)
			a[0] = float32(math.NaN())
			for i := range sum {
				sum[i] = a[i] + b[i]
			}
			sameBits(t, [][]float32{sum, a}, once(t, p, add, a, b), "of two")
			if id%3 == 0 {
				x, top := image(id, 768), []float32{0}
				if err := p.Run(t.Context(), conv, [][]float32{x}, [][]float32{nil, nil, top}); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// An item written straight into the batch has the same bits as one copied there.
func TestFilled(t *testing.T) {
	t.Parallel()
	const n = 50
	p := newPool(t, 2, 16)
	conv, add := compile(t, p, "conv"), compile(t, p, "add")
	each(p, n, func(id int) {
		x, got := image(id, 768), room(conv.Outputs())
		must.Do(t, p.RunOf(t.Context(), conv, func(to []float32) { copy(to, x) }, got))
		sameBits(t, once(t, p, conv, x), got, "filled")
	})
	if conv.Items() != 2*n {
		t.Errorf("%d items were run", conv.Items())
	}
	fill := func([]float32) { t.Error("an item is written that is not run") }
	err := p.RunOf(t.Context(), add, fill, room(add.Outputs()))
	must.Refuse(t, err, "1 inputs and 2 outputs given, the program has 2")
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := newPool(t, 2, 8)
	add, fails := compile(t, p, "add"), compile(t, p, "fails")
	a, two, none := make([]float32, 4), make([][]float32, 2), make([][]float32, 1)
	two[0], two[1], none[0] = a, a, nil
	for _, c := range []struct {
		in, out [][]float32
		want    string
	}{
		{[][]float32{a}, two, "1 inputs and 2 outputs given"},
		{[][]float32{a, a[:3]}, two, `input "b" has 3 values`},
		{two, [][]float32{nil, a[:2]}, `output "same" has room for 2`},
	} {
		must.Refuse(t, p.Run(ctx, add, c.in, c.out), c.want)
	}
	must.Refuse(t, newPool(t, 1, 1).Run(ctx, add, two, two), "another pool")
	// Every item of a failed batch gets the error; the pool goes on.
	each(p, 20, func(int) { must.Refuse(t, p.Run(ctx, fails, [][]float32{a}, room(fails.Outputs())), "run fails on ") })
	if fails.Items() != 0 {
		t.Errorf("%d failed items counted", fails.Items())
	}
	once(t, p, add, a, a)
	add.Close()
	add.Close()
	must.Refuse(t, p.Run(ctx, add, two, two), "closed")
	p.Close()
	must.Refuse(t, p.Run(ctx, fails, [][]float32{a}, none), "closed")
	if _, err := p.Compile("add", readModel(t, "add")); err == nil {
		t.Error("a closed pool compiled")
	}
}

// A cancelled Run that waits returns at once and takes its request with it.
func TestCancelWhileWaiting(t *testing.T) {
	p := newPool(t, 1, 64)
	add := compile(t, p, "add")
	p.timer.Stop()
	p.mu.Lock()
	p.armed = true // no stall timer: the request must wait
	p.mu.Unlock()
	for range 3 { // two others that never come
		p.Enter()
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, out := make([]float32, 4), [][]float32{make([]float32, 4), nil}
	done := make(chan error)
	go func() { done <- p.Run(ctx, add, [][]float32{a, a}, out) }()
	waitFor(t, p, func() bool { return p.waiting == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if p.waiting != 0 || len(add.queue) != 0 || len(p.active) != 0 {
		t.Errorf("%d requests are left", p.waiting)
	}
	if err := p.Run(ctx, add, [][]float32{a, a}, out); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from a cancelled context", err)
	}
	for range 3 {
		p.Leave()
	}
	once(t, p, add, a, a)
}

// Cancelling in the middle of much work never loses or mixes items.
func TestCancelStorm(t *testing.T) {
	p := newPool(t, 2, 8)
	conv := compile(t, p, "conv")
	each(p, 60, func(id int) {
		x := [][]float32{image(id, 768)}
		want := once(t, p, conv, x...)
		for k := range 8 {
			soon := time.Duration(50*(id+k)%1500) * time.Microsecond
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			got := room(conv.Outputs())
			switch err := p.Run(ctx, conv, x, got); {
			case err == nil:
				sameBits(t, want, got, "after cancelling")
			case !errors.Is(err, context.DeadlineExceeded):
				t.Error(err)
			}
			cancel()
		}
	})
	if p.waiting != 0 || p.served != 0 || p.entered != 0 {
		t.Errorf("left: waiting %d, served %d, entered %d", p.waiting, p.served, p.entered)
	}
}

// An entered goroutine that waits for another one must not stop the pool.
func TestStalledGoroutineDoesNotBlock(t *testing.T) {
	p := newPool(t, 2, 8)
	add := compile(t, p, "add")
	p.Enter()
	p.Enter()
	once(t, p, add, make([]float32, 4), make([]float32, 4))
	p.Leave()
	p.Leave()
}

func TestClosePoolWithWaitingRequests(t *testing.T) {
	p := NewPool(1, 64)
	add := compile(t, p, "add")
	p.mu.Lock()
	p.armed, p.entered = true, 2
	p.mu.Unlock()
	a := make([]float32, 4)
	done := make(chan error)
	go func() { done <- p.Run(context.Background(), add, [][]float32{a, a}, [][]float32{nil, nil}) }()
	waitFor(t, p, func() bool { return p.waiting == 1 })
	p.Close()
	if err := <-done; err == nil {
		t.Error("no error from a closed pool")
	}
	add.Close()
}

func waitFor(t *testing.T, p *Pool, what func() bool) {
	t.Helper()
	for range 2000 {
		p.mu.Lock()
		ok := what()
		p.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it did not happen")
}

// A larger program gets a larger scratch; tensors on the old one are dropped.
func TestScratchGrows(t *testing.T) {
	p := &Pool{schedule: schedule{workers: 1, programs: map[*Program]struct{}{}}}
	p.batch.Store(4)
	p.work.L, p.idle.L = &p.mu, &p.mu
	add, conv := compile(t, p, "add"), compile(t, p, "conv")
	w := &worker{pool: p}
	defer w.pinner.Unpin()
	get := func(prog *Program, n int) *buffers {
		t.Helper()
		return must.Get(w.buffers(prog, n))(t)
	}
	three := get(add, 3)
	if get(add, 3) != three || get(add, 2) == three {
		t.Error("tensors are not kept per batch size")
	}
	small := len(w.scratch)
	get(conv, 4)
	if len(w.scratch) <= small || add.buffers[0] != nil {
		t.Error("tensors point into the old scratch")
	}
	get(add, 1)
	if get(add, 1); w.made != 2 {
		t.Errorf("%d buffers", w.made)
	}
	w.made = maxBuffers
	get(add, 2)
	if w.made != 1 || conv.buffers[0] != nil || add.buffers[0][1] != nil {
		t.Error("the number of tensors is not bounded")
	}
	add.Close()
	conv.Close()
	if len(p.programs) != 0 {
		t.Error("closed programs are still there")
	}
}
