package harness

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/testinput"
	"selfheal/models/ort"
)

// opened is a runner of the small config on a pool as it asks for.
func opened(t *testing.T, c config.Runtime) *runner {
	t.Helper()
	cfg := plan(t, small, c.Workers, c.Batch).Config
	cfg.Runtime = c
	pool, err := newPool(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &runner{cfg: cfg, pool: pool, progress: NewProgress(nil, true), sets: map[string]*dataset.Dataset{},
		file: &result.File{Models: map[string]result.Model{}, Datasets: map[string]result.Dataset{}}}
}

// winograd: false, and any provider but the CPU, run convolutions as they are.
func TestWinogradReachesTheNetwork(t *testing.T) {
	testinput.Runtime(t)
	ids := map[bool]string{}
	for _, winograd := range []bool{true, false} {
		r := opened(t, config.Runtime{Provider: config.CPU, Workers: 1, Batch: 1, Threads: 1, Winograd: winograd})
		net, err := r.network(r.cfg.Model("robust"))
		if err != nil {
			t.Fatal(err)
		}
		ids[winograd] = net.ID()
		net.Close()
	}
	if ids[true] == ids[false] {
		t.Error("the network runs in the same form with and without winograd")
	}
}

// The results say how they were computed.
func TestEnvironmentSaysHow(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, small, 1, 8, "suites.small.attacks=[]", "suites.small.controls=[]", "runtime.threads=2", "runtime.winograd=false")
	f, _, err := Run(context.Background(), p, Options{Out: t.TempDir(), Progress: NewProgress(nil, true)})
	if err != nil {
		t.Fatal(err)
	}
	e := f.Environment
	if e.Provider != "cpu" || e.Threads != 2 || e.Workers != 1 || e.Batch != 8 || e.Winograd {
		t.Errorf("%+v", e)
	}
}

// Without a device a run on one ends before anything is opened or written, with
// one line and as a fault of the config.
func TestNoCUDA(t *testing.T) {
	testinput.Runtime(t)
	if ort.CheckCUDA(0) == nil {
		t.Skip("CUDA device 0 computes")
	}
	out := t.TempDir()
	p := plan(t, small, 0, 8, "runtime.provider=cuda", "models.robust.path=absent.onnx")
	_, _, err := Run(context.Background(), p, Options{Out: out, Progress: NewProgress(nil, true)})
	if !errors.As(err, new(ConfigError)) || !strings.HasPrefix(err.Error(), "runtime.provider cuda: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("%d files were written, %v", len(left), err)
	}
}

// On a device everything agrees with the CPU within float32 rounding: logits,
// the gradients of all losses, closed loops; and a whole run goes through.
func TestCUDAAgreesWithTheCPU(t *testing.T) {
	testinput.Runtime(t)
	if err := ort.CheckCUDA(0); err != nil {
		t.Skip(err)
	}
	type found struct {
		logits, gradients [][]float32
		objective, norm   []float64
	}
	ctx := context.Background()
	look := func(c config.Runtime) (f found) {
		r := opened(t, c)
		_, set, err := r.scored("test")
		if err != nil {
			t.Fatal(err)
		}
		net, err := r.network(r.cfg.Model("robust"))
		if err != nil {
			t.Fatal(err)
		}
		defer net.Close()
		for _, im := range set {
			z := make([]float32, net.Classes())
			if err := net.Logits(ctx, im.Pixels, z); err != nil {
				t.Fatal(err)
			}
			f.logits = append(f.logits, z)
			for _, loss := range attacks.Losses() {
				var e attacks.Evaluation
				if err := net.Gradient(ctx, im.Pixels, loss, im.Label, (im.Label+1)%net.Classes(), &e); err != nil {
					t.Fatal(err)
				}
				f.gradients = append(f.gradients, append([]float32(nil), e.Gradient...))
			}
		}
		for _, k := range r.cfg.Controls {
			c, err := r.controller(ctx, net, &k, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, im := range set {
				o, err := c.Run(ctx, im.Pixels)
				if err != nil {
					t.Fatal(err)
				}
				f.logits = append(f.logits, o.Logits)
				f.objective, f.norm = append(f.objective, o.Objective), append(f.norm, o.Norm)
			}
			c.Close()
		}
		return f
	}
	cpu := look(config.Runtime{Provider: config.CPU, Batch: 16, Threads: 1})
	cuda := look(config.Runtime{Provider: config.CUDA, Batch: 16, Threads: 1})
	for i := range cpu.logits {
		if d := distance(cpu.logits[i], cuda.logits[i]); d > 1e-4 {
			t.Errorf("logits %d differ by %g", i, d)
		}
	}
	for i := range cpu.gradients {
		if d := distance(cpu.gradients[i], cuda.gradients[i]); d > 1e-3 {
			t.Errorf("gradient %d differs by %g", i, d)
		}
	}
	for i := range cpu.objective {
		for _, pair := range [][2]float64{{cpu.objective[i], cuda.objective[i]}, {cpu.norm[i], cuda.norm[i]}} {
			if math.Abs(pair[0]-pair[1]) > 1e-3*math.Abs(pair[0]) {
				t.Errorf("closed loop %d: %v on the CPU, %v on the device", i, pair[0], pair[1])
			}
		}
	}
	f, _, err := Run(ctx, plan(t, small, 0, 16, "runtime.provider=cuda"), Options{Out: t.TempDir(), Progress: NewProgress(nil, true)})
	if err != nil {
		t.Fatal(err)
	}
	here, _, _ := runSmall(t, 0, 16, "runtime.winograd=false")
	if f.Environment.Provider != "cuda" || len(f.Cells) != len(here.Cells) {
		t.Fatalf("%+v, %d cells", f.Environment, len(f.Cells))
	}
	for i, c := range f.Cells {
		if c.Attack == config.None && c.Verdicts != here.Cells[i].Verdicts {
			t.Errorf("clean images, defense %s: %s on the device, %s on the CPU", c.Defense, c.Verdicts, here.Cells[i].Verdicts)
		}
	}
}

// distance is ‖a − b‖ relative to ‖a‖.
func distance(a, b []float32) float64 {
	var difference, norm float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		difference, norm = difference+d*d, norm+float64(a[i])*float64(a[i])
	}
	return math.Sqrt(difference / norm)
}
