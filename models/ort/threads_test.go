package ort

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// programs are the bundled network's forward pass and its gradient of the cross entropy, both as bytes.
func programs(t *testing.T) map[string][]byte {
	t.Helper()
	forward, _ := must.Get2(simplify.Load("../zoo/preact_standard.onnx", simplify.Options{}))(t)
	backward := must.Get(grad.Loss(forward, "ce"))(t)
	out := map[string][]byte{}
	for name, g := range map[string]*onnx.Graph{"forward": forward, "gradient": backward} {
		out[name] = must.Get(g.Encode())(t)
	}
	return out
}

// The bundled network's logits and gradients are the same, bit for bit, with any number of threads, batch and workers.
func TestResultsDoNotDependOnThreads(t *testing.T) {
	const n = 19
	for name, model := range programs(t) {
		var want [n][][]float32
		for _, c := range [][3]int{{1, 1, 1}, {1, 1, 2}, {1, 8, 2}, {2, 8, 3}, {1, 19, 4}} { // workers, batch, threads
			p := NewPool(c[0], c[1], Threads(c[2]))
			prog := must.Get(p.Compile(name, model))(t)
			each(p, n, func(id int) {
				in := room(prog.Inputs())
				in[0] = image(id, len(in[0]))
				for _, label := range in[1:] {
					label[id%len(label)] = 1
				}
				got := once(t, p, prog, in...)
				if c[2] == 1 {
					want[id] = got
				}
				sameBits(t, want[id], got, fmt.Sprintf("%s with %v", name, c))
			})
			p.Close()
			if flat := slices.Concat(want[0]...); slices.Min(flat) == 0 && slices.Max(flat) == 0 {
				t.Fatalf("%s: all outputs are 0", name)
			}
		}
	}
}

func TestWorkersByThreads(t *testing.T) {
	cores := runtime.GOMAXPROCS(6)
	defer runtime.GOMAXPROCS(cores)
	for _, c := range []struct{ workers, threads, wantWorkers, wantThreads int }{
		{0, 0, 6, 1}, {0, 1, 6, 1}, {0, 2, 3, 2}, {0, 4, 1, 4}, {0, 7, 1, 7}, {5, 4, 5, 4},
	} {
		p := NewPool(c.workers, 1, Threads(c.threads))
		if p.Workers() != c.wantWorkers || p.Threads() != c.wantThreads || p.Provider() != ProviderCPU {
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
		p := NewPool(1, 1, Threads(threads))
		defer p.Close()
		before := count()
		if _, err := p.Compile("forward", model); err != nil {
			t.Fatal(err)
		}
		return count() - before
	}
	// Go may start a few of its own at any time, not thirty.
	if one, many := started(1), started(40); one > 30 || many < 39 {
		t.Errorf("%d threads were started for 1, %d for 40", one, many)
	}
}
