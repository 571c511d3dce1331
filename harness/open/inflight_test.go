package open

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/ort"
)

func TestInFlight(t *testing.T) {
	pool := ort.NewPool(2, 64)
	defer pool.Close()
	for _, c := range []struct {
		state int64
		want  int
	}{
		{1, 1 << 28}, {1 << 20, 256}, {10 << 20, 25}, {64 << 20, 4}, {1 << 40, 4}, {0, 1 << 28},
		{attackState(attacks.Shape{C: 3, H: 32, W: 32}), 1365},
		{attackState(attacks.Shape{C: 3, H: 224, W: 224}), 27},
	} {
		if got := inFlight(pool, c.state); got != c.want {
			t.Errorf("%d bytes an image: %d in flight, not %d", c.state, got, c.want)
		}
	}
}

// openedNetwork returns a network of the small config on so many workers.
func openedNetwork(t *testing.T, workers int) (*Opener, *control.Network) {
	t.Helper()
	testinput.Runtime(t)
	cfg := testplan.Plan(t, testplan.Small, workers, 8).Config
	cfg.Runtime = config.Runtime{Provider: config.CPU, Workers: workers, Batch: 8, Threads: 1, Winograd: true}
	r := must.Get(New(cfg, Options{}))(t)
	t.Cleanup(r.Close)
	net := must.Get(r.Network(t.Context(), r.Config.Model("robust"), ""))(t)
	t.Cleanup(net.Close)
	return r, net
}

// ask makes three passes, one after the other.
func ask(ctx context.Context, net *control.Network) error {
	for range 3 {
		if err := net.Logits(ctx, make([]float32, net.Shape().Size()), make([]float32, net.Classes())); err != nil {
			return err
		}
	}
	return nil
}

// Few large images are under way at once, and all get their turn.
func TestForEachBoundsState(t *testing.T) {
	r, net := openedNetwork(t, 2)
	const n = 40
	for _, c := range []struct {
		state int64
		most  int32
	}{{1 << 40, 4}, {stateBudget / 7, 7}, {1, 32}} {
		var now, most atomic.Int32
		var seen [n]atomic.Bool
		must.Do(t, r.ForEach(context.Background(), n, c.state, func(ctx context.Context, i int) error {
			defer now.Add(-1)
			for k := now.Add(1); ; {
				if m := most.Load(); k <= m || most.CompareAndSwap(m, k) {
					break
				}
			}
			seen[i].Store(true)
			return ask(ctx, net)
		}))
		for i := range seen {
			if !seen[i].Load() {
				t.Errorf("%d bytes: image %d had no turn", c.state, i)
			}
		}
		if got := most.Load(); got > c.most || got < 2 {
			t.Errorf("%d bytes an image: %d were under way, allowed are %d", c.state, got, c.most)
		}
	}
	failed := errors.New("this image fails")
	err := r.ForEach(context.Background(), n, 1<<40, func(ctx context.Context, i int) error {
		if i == 1 {
			return failed
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

// Images that wait for a slot do not delay the batches of others. If the pool waited for them, each of the 40·3/4
// batches would wait its full 10 ms.
func TestWaitingImagesHoldNobodyUp(t *testing.T) {
	r, net := openedNetwork(t, 2)
	best := time.Hour
	for range 5 { // the machine may be busy
		start := time.Now()
		must.Do(t, r.ForEach(context.Background(), 40, 1<<40, func(ctx context.Context, i int) error {
			return ask(ctx, net)
		}))
		if best = min(best, time.Since(start)); best < 200*time.Millisecond {
			return
		}
	}
	t.Errorf("40 images took %v", best)
}

// A rewriting that changes the network's answers is found.
func TestOriginal(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.ChannelsLast(t), 1, 4)
	o := must.Get(New(p.Config, Options{}))(t)
	defer o.Close()
	j := must.Get(o.Job(t.Context(), p.Jobs[0]))(t)
	defer j.Close()
	file := must.Get(j.Original(t.Context()))(t)
	im := must.Get(j.Set.Read(0))(t)
	right := must.Get(file.Answer(im.Pixels))(t)
	file.last = !file.last
	if wrong := must.Get(file.Answer(im.Pixels))(t); wrong[0] == right[0] {
		t.Error("the layout does not matter")
	}
	other := *file.model
	other.Mean = []float64{1, 2, 40}
	file.model = &other
	must.Refuse(t, file.compare(t.Context(), j.Net, j.Set), "image 0: output")
}
