package ort_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"

	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// programs are the bundled network's forward pass and its gradient of the cross
// entropy, both as bytes.
func programs(t *testing.T) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile("../zoo/preact_standard.onnx")
	if err != nil {
		t.Fatal(err)
	}
	forward, err := simplify.Open(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	backward, err := grad.Loss(forward, "ce")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for name, g := range map[string]*onnx.Graph{"forward": forward, "gradient": backward} {
		if out[name], err = g.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// item is the same random input for the same id: pixels, and 0 or 1 elsewhere,
// where a loss takes its labels.
func item(ports []ort.Port, id int) [][]float32 {
	r := rand.New(rand.NewPCG(7, uint64(id)))
	in := make([][]float32, len(ports))
	for i, p := range ports {
		in[i] = make([]float32, p.Size)
		if i > 0 {
			in[i][id%p.Size] = 1
			continue
		}
		for j := range in[i] {
			in[i][j] = r.Float32()
		}
	}
	return in
}

// The bundled network's logits and gradients are the same, bit for bit, with any
// number of threads, batch and workers.
func TestResultsDoNotDependOnThreads(t *testing.T) {
	const n = 19
	ctx := context.Background()
	for name, model := range programs(t) {
		var want [n][][]float32
		for _, c := range []struct{ workers, batch, threads int }{{1, 1, 1}, {1, 1, 2}, {1, 8, 2}, {2, 8, 3}, {1, 19, 4}} {
			p := ort.NewPool(c.workers, c.batch, ort.Threads(c.threads))
			prog, err := p.Compile(name, model, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got [n][][]float32
			var wg sync.WaitGroup
			for id := range n {
				p.Enter()
				wg.Go(func() {
					defer p.Leave()
					for _, port := range prog.Outputs() {
						got[id] = append(got[id], make([]float32, port.Size))
					}
					if err := p.Run(ctx, prog, item(prog.Inputs(), id), got[id]); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			p.Close()
			if c.threads == 1 {
				want = got
				if largest(want[0]) == 0 {
					t.Fatalf("%s: all outputs are 0", name)
				}
				continue
			}
			if place := differs(want[:], got[:]); place != "" {
				t.Errorf("%s with %+v: %s", name, c, place)
			}
		}
	}
}

func differs(want, got [][][]float32) string {
	for id := range want {
		for i := range want[id] {
			for j, v := range want[id][i] {
				if math.Float32bits(v) != math.Float32bits(got[id][i][j]) {
					return fmt.Sprintf("item %d, output %d, value %d is %v, not %v", id, i, j, got[id][i][j], v)
				}
			}
		}
	}
	return ""
}

func largest(out [][]float32) (m float32) {
	for _, v := range out {
		for _, x := range v {
			m = max(m, x, -x)
		}
	}
	return m
}

func TestWorkersByThreads(t *testing.T) {
	cores := runtime.GOMAXPROCS(6)
	defer runtime.GOMAXPROCS(cores)
	for _, c := range []struct{ workers, threads, wantWorkers, wantThreads int }{
		{0, 0, 6, 1}, {0, 1, 6, 1}, {0, 2, 3, 2}, {0, 4, 1, 4}, {0, 7, 1, 7}, {5, 4, 5, 4},
	} {
		p := ort.NewPool(c.workers, 1, ort.Threads(c.threads))
		if p.Workers() != c.wantWorkers || p.Threads() != c.wantThreads || p.Provider() != ort.ProviderCPU {
			t.Errorf("%+v: %d workers, %d threads, provider %s", c, p.Workers(), p.Threads(), p.Provider())
		}
		p.Close()
	}
}

// Threads are the runtime's own: one less than asked for, as the caller is one.
func TestThreadsAreStarted(t *testing.T) {
	count := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Skipf("the system does not list a process's threads: %v", err)
		}
		return len(tasks)
	}
	model := programs(t)["forward"]
	started := func(threads int) int {
		p := ort.NewPool(1, 1, ort.Threads(threads))
		defer p.Close()
		before := count()
		if _, err := p.Compile("forward", model, nil, nil); err != nil {
			t.Fatal(err)
		}
		return count() - before
	}
	// Go may start a few of its own at any time, not thirty.
	if one, many := started(1), started(40); one > 30 || many < 39 {
		t.Errorf("%d threads were started for 1, %d for 40", one, many)
	}
}
