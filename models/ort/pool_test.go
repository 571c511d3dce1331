package ort

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// image is a random item, the same for the same id.
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

func bits(t *testing.T, want, got [][]float32, what string) {
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

// An item's bits do not depend on workers, batch size or neighbours.
func TestResultsDoNotDependOnBatches(t *testing.T) {
	const n, rounds = 150, 4
	ctx := context.Background()
	alone := newPool(t, 1, 1)
	for _, opts := range [][]CompileOption{nil, {Unoptimized()}} {
		single := compile(t, alone, "conv", opts...)
		want := make([][][]float32, n)
		for id := range want {
			want[id] = room(single.Outputs())
			if err := alone.Run(ctx, single, [][]float32{image(id, 768)}, want[id]); err != nil {
				t.Fatal(err)
			}
		}
		for _, cfg := range [][2]int{{1, 64}, {2, 64}, {3, 7}, {2, 1}, {4, 33}} {
			p := newPool(t, cfg[0], cfg[1])
			prog := compile(t, p, "conv", opts...)
			each(p, n, func(id int) {
				for range rounds {
					got := room(prog.Outputs())
					if err := p.Run(ctx, prog, [][]float32{image(id, 768)}, got); err != nil {
						t.Error(err)
						return
					}
					bits(t, want[id], got, "batched")
				}
			})
			if prog.Items() != n*rounds {
				t.Errorf("%d items counted, %d run", prog.Items(), n*rounds)
			}
		}
	}
}

// Several programs of different sizes share the workers and their scratch.
func TestManyPrograms(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, 2, 16)
	conv, add := compile(t, p, "conv"), compile(t, p, "add")
	each(p, 80, func(id int) {
		for k := range 6 {
			a, b := image(id, 4), image(id+k, 4)
			got := room(add.Outputs())
			if err := p.Run(ctx, add, [][]float32{a, b}, got); err != nil {
				t.Error(err)
				return
			}
			for i := range a {
				if got[0][i] != a[i]+b[i] || got[1][i] != a[i] {
					t.Errorf("%v + %v gave %v and %v", a, b, got[0], got[1])
					return
				}
			}
			if id%3 != 0 {
				continue
			}
			top := []float32{0}
			if err := p.Run(ctx, conv, [][]float32{image(id, 768)}, [][]float32{nil, nil, top}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestNaNPasses(t *testing.T) {
	p := newPool(t, 1, 4)
	add := compile(t, p, "add")
	nan := float32(math.NaN())
	got := room(add.Outputs())
	if err := p.Run(context.Background(), add, [][]float32{{nan, 1, 2, 3}, {0, 0, 0, 0}}, got); err != nil {
		t.Fatal(err)
	}
	if got[0][0] == got[0][0] || got[0][3] != 3 {
		t.Errorf("got %v", got[0])
	}
}

func TestRunErrors(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, 2, 8)
	add, fails := compile(t, p, "add"), compile(t, p, "fails")
	a := make([]float32, 4)
	for _, c := range []struct {
		in, out [][]float32
		want    string
	}{
		{[][]float32{a}, [][]float32{a, a}, "1 inputs and 2 outputs given"},
		{[][]float32{a, a[:3]}, [][]float32{a, a}, `input "b" has 3 values`},
		{[][]float32{a, a}, [][]float32{nil, a[:2]}, `output "same" has room for 2`},
	} {
		if err := p.Run(ctx, add, c.in, c.out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, wanted %q", err, c.want)
		}
	}
	if err := newPool(t, 1, 1).Run(ctx, add, [][]float32{a, a}, [][]float32{nil, nil}); err == nil {
		t.Error("ran another pool's program")
	}
	// Every item of a failed batch is told; the pool goes on.
	each(p, 20, func(int) {
		err := p.Run(ctx, fails, [][]float32{a}, room(fails.Outputs()))
		if err == nil || !strings.HasPrefix(err.Error(), "run fails on ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v", err)
		}
	})
	if fails.Items() != 0 {
		t.Errorf("%d failed items counted", fails.Items())
	}
	if err := p.Run(ctx, add, [][]float32{a, a}, [][]float32{nil, nil}); err != nil {
		t.Error(err)
	}
	add.Close()
	add.Close()
	if err := p.Run(ctx, add, [][]float32{a, a}, [][]float32{nil, nil}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("got %v from a closed program", err)
	}
	p.Close()
	if err := p.Run(ctx, fails, [][]float32{a}, [][]float32{nil}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("got %v from a closed pool", err)
	}
	if _, err := p.Compile("add", readModel(t, "add"), nil, nil); err == nil {
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
	if p.waiting != 0 || add.queue.len() != 0 || len(p.active) != 0 {
		t.Errorf("%d requests are left", p.waiting)
	}
	if err := p.Run(ctx, add, [][]float32{a, a}, out); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from a cancelled context", err)
	}
	for range 3 {
		p.Leave()
	}
	if err := p.Run(context.Background(), add, [][]float32{a, a}, out); err != nil {
		t.Error(err)
	}
}

// Cancelling in the middle of much work never loses or mixes items.
func TestCancelStorm(t *testing.T) {
	p := newPool(t, 2, 8)
	conv := compile(t, p, "conv")
	each(p, 60, func(id int) {
		x, want := [][]float32{image(id, 768)}, room(conv.Outputs())
		if err := p.Run(context.Background(), conv, x, want); err != nil {
			t.Error(err)
		}
		for k := range 8 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50*(id+k)%1500)*time.Microsecond)
			got := room(conv.Outputs())
			switch err := p.Run(ctx, conv, x, got); {
			case err == nil:
				bits(t, want, got, "after cancelling")
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
	a := make([]float32, 4)
	if err := p.Run(context.Background(), add, [][]float32{a, a}, [][]float32{nil, nil}); err != nil {
		t.Fatal(err)
	}
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
