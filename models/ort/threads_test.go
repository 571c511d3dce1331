package ort

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx/simplify"
)

// programs returns a small network, and the bundled one's forward pass and gradient of the cross entropy, as bytes.
func programs(t *testing.T) map[string][]byte {
	t.Helper()
	forward, _ := must.Get2(simplify.Load("../zoo/preact_standard.onnx", simplify.Options{}))(t)
	backward := must.Get(grad.Loss(forward, "ce"))(t)
	return map[string][]byte{"conv": readModel(t, "conv"), "forward": must.Get(forward.Encode())(t),
		"gradient": must.Get(backward.Encode())(t)}
}

// An item's bits do not depend on workers, batch size, neighbours or threads.
func TestResultsDoNotDependOnThePool(t *testing.T) {
	t.Parallel()
	for name, model := range programs(t) {
		n, rounds := 19, 1
		if name == "conv" { // it takes little time
			n, rounds = 150, 4
		}
		for _, opts := range [][]CompileOption{nil, {Unoptimized()}} {
			want := make([][][]float32, n)
			for _, c := range [][3]int{{1, 1, 1}, {1, 64, 1}, {2, 64, 1}, {3, 7, 1}, {2, 1, 1}, {4, 33, 1}, {1, 1, 2},
				{1, 8, 2}, {2, 8, 3}, {1, 19, 4}} { // workers, batch, threads
				if opts != nil && c[2] > 1 { // there ONNX Runtime splits sums by threads
					continue
				}
				p := NewPool(c[0], c[1], Threads(c[2]))
				prog := must.Get(p.Compile(name, model, opts...))(t)
				each(p, n, func(id int) {
					in := room(prog.inputs)
					in[0] = image(id, len(in[0]))
					for _, label := range in[1:] {
						label[id%len(label)] = 1
					}
					for range rounds {
						got := once(t, p, prog, in...)
						if want[id] == nil {
							want[id] = got
						}
						sameBits(t, want[id], got, fmt.Sprintf("%s with %v", name, c))
					}
				})
				if prog.Items() != int64(n*rounds) {
					t.Errorf("%s with %v: %d items counted, %d run", name, c, prog.Items(), n*rounds)
				}
				p.Close()
			}
			if flat := slices.Concat(want[0]...); slices.Min(flat) == 0 && slices.Max(flat) == 0 {
				t.Fatalf("%s: all outputs are 0", name)
			}
		}
	}
}

// A pool keeps all cores busy by default, and has no more threads and workers than a machine can use.
func TestWorkersByThreads(t *testing.T) {
	const most = 4 * 6
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(6))
	for _, c := range []struct{ workers, threads, wantWorkers, wantThreads int }{
		{0, 0, 6, 1}, {0, 1, 6, 1}, {0, 2, 3, 2}, {0, 4, 1, 4}, {0, 7, 1, 7}, {5, 4, 5, 4},
		{1e9, 1e9, most, most}, {most + 1, 1, most, 1}, {most, 2, most, 2}, {1, 3000, 1, most},
	} {
		p := NewPool(c.workers, 1, Threads(c.threads))
		if p.Workers() != c.wantWorkers || p.Threads() != c.wantThreads || p.Target(true).Provider != ProviderCPU {
			t.Errorf("%+v: %d workers, %d threads, provider %s", c, p.Workers(), p.Threads(), p.Target(true).Provider)
		}
		p.Close()
	}
}

// The runtime starts one thread less than requested, because the caller is one.
func TestThreadsAreStarted(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(10))
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
