package harness_test

import (
	"context"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/ort"
)

// opened returns an opener of the small config on a pool with the given runtime.
func opened(t *testing.T, c config.Runtime) *open.Opener {
	t.Helper()
	cfg := testplan.Plan(t, testplan.Small, c.Workers, c.Batch).Config
	cfg.Runtime = c
	return openerOf(t, cfg)
}

// openerOf returns an opener that is closed when the test ends.
func openerOf(t *testing.T, cfg *config.Config) *open.Opener {
	t.Helper()
	o := must.Get(open.New(cfg, open.Options{}))(t)
	t.Cleanup(o.Close)
	return o
}

// With winograd: false, and on any provider except the CPU, convolutions run unchanged.
func TestWinogradReachesTheNetwork(t *testing.T) {
	testinput.Runtime(t)
	answers := map[bool][]float32{} // of attacks
	for _, winograd := range []bool{true, false} {
		r := opened(t, config.Runtime{Provider: config.CPU, Workers: 1, Batch: 1, Threads: 1, Winograd: winograd})
		net := must.Get(r.Network(t.Context(), r.Config.Model("robust"), ""))(t)
		defer net.Close()
		attacked := must.Get(r.ForAttacks(net))(t)
		defer attacked.Close()
		x := every(t, must.Get(r.Scored("test"))(t))[0].Pixels
		answers[winograd] = make([]float32, net.Classes())
		must.Do(t, attacked.Logits(t.Context(), x, answers[winograd]))
	}
	if slices.Equal(answers[true], answers[false]) {
		t.Error("attacks run the network in the same form with and without winograd")
	}
}

// Verdicts are the file's own, whatever attacks run.
func TestFileJudges(t *testing.T) {
	testinput.Runtime(t)
	r := opened(t, config.Runtime{Provider: config.CPU, Workers: 1, Batch: 8, Threads: 1, Winograd: true})
	m := r.Config.Model("robust")
	net := must.Get(r.Network(t.Context(), m, ""))(t)
	defer net.Close()
	data := must.Get(open.ReadModel(r.Config.Files, m.Path))(t)
	file := must.Get(ort.OpenOriginal("robust", data, ""))(t)
	defer file.Close()
	for _, im := range every(t, must.Get(r.Scored("test"))(t)) {
		got := must.Get(open.Alone(net).Logits(t.Context(), im.Pixels))(t)
		for i, z := range must.Get(file.Run(im.Pixels))(t) {
			if got[i] != float32(z) {
				t.Fatalf("image %d: logit %d is %v, the file's %v", im.ID, i, got[i], z)
			}
		}
	}
}

// The results say how they were computed.
func TestEnvironmentSaysHow(t *testing.T) {
	p := testplan.Plan(t, testplan.Small, 1, 8, "suites.small.attacks=[]", "suites.small.controls=[]",
		"runtime.threads=2",
		"runtime.winograd=false")
	f, _, _ := runFor(t, p)
	e := f.Environment
	if e.Provider != "cpu" || e.Threads != 2 || e.Workers != 1 || e.Batch != 8 || e.Winograd {
		t.Errorf("%+v", e)
	}
}

// Without a device a run on one ends before anything is opened or written, with
// one line and as a fault of the config.
func TestNoCUDA(t *testing.T) {
	testinput.Runtime(t)
	if (ort.Target{Provider: ort.ProviderCUDA}).Check() == nil {
		t.Skip("CUDA device 0 computes")
	}
	out := t.TempDir()
	p := testplan.Plan(t, testplan.Small, 0, 8, "runtime.provider=cuda", "models.robust.path=absent.onnx")
	_, err := run.Run(context.Background(), p, run.Options{Out: out})
	misconfigured(t, err, "runtime.provider cuda: ")
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("%d files were written, %v", len(left), err)
	}
}

// outputs are a network's results in a run.
type outputs struct {
	logits, gradients [][]float32 // logits plain and controlled, gradients of losses at and near the images
	objective, norm   []float64   // of closed loops
}

// compute opens the network and its controls for attacks, as a run with c does, and asks them about every image.
func compute(t *testing.T, c config.Runtime, losses ...attacks.Loss) (f outputs) {
	t.Helper()
	ctx := context.Background()
	r := opened(t, c)
	set := every(t, must.Get(r.Scored("test"))(t))
	judge := must.Get(r.Network(t.Context(), r.Config.Model("robust"), ""))(t)
	defer judge.Close()
	net := must.Get(r.ForAttacks(judge))(t)
	defer net.Close()
	for _, im := range set {
		z := make([]float32, net.Classes())
		must.Do(t, net.Logits(ctx, im.Pixels, z))
		f.logits = append(f.logits, z)
		for nudge := range 5 {
			x := slices.Clone(im.Pixels)
			for i := range x {
				x[i] += 1e-4 * float32(nudge*i%97)
			}
			for _, loss := range losses {
				var e attacks.Evaluation
				must.Do(t, net.Gradient(ctx, x, loss, im.Label, (im.Label+1)%net.Classes(), &e))
				f.gradients = append(f.gradients, e.Gradient)
			}
		}
	}
	for i := range r.Config.Controls {
		c := must.Get(r.Controller(ctx, net, &r.Config.Controls[i], true))(t)
		for _, im := range set {
			o := must.Get(c.Run(ctx, im.Pixels))(t)
			f.logits = append(f.logits, o.Logits)
			f.objective, f.norm = append(f.objective, o.Objective), append(f.norm, o.Norm)
		}
		c.Close()
	}
	return f
}

// agree compares outputs within the differences of float32.
func agree(t *testing.T, want, got outputs) {
	t.Helper()
	if len(want.logits) == 0 || len(want.gradients) == 0 || len(want.objective) == 0 {
		t.Fatal("there is nothing to compare")
	}
	for i := range want.logits {
		if d := distance(want.logits[i], got.logits[i]); !(d <= 1e-4) {
			t.Errorf("logits %d differ by %g", i, d)
		}
	}
	var far []int
	for i := range want.gradients {
		if d := distance(want.gradients[i], got.gradients[i]); !(d <= 1e-4) {
			far = append(far, i)
		}
	}
	// At a few images a ReLU's input is so near to 0 that rounding chooses its side.
	if len(far) > len(want.gradients)/10 {
		t.Errorf("%d of %d gradients differ: %d", len(far), len(want.gradients), far)
	}
	for i := range want.objective {
		for _, pair := range [][2]float64{{want.objective[i], got.objective[i]}, {want.norm[i], got.norm[i]}} {
			if !(math.Abs(pair[0]-pair[1]) <= 1e-3*math.Abs(pair[0])) {
				t.Errorf("closed loop %d: %v and %v", i, pair[0], pair[1])
			}
		}
	}
}

// distance returns ‖a − b‖ relative to ‖a‖.
func distance(a, b []float32) float64 {
	var difference, norm float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		difference, norm = difference+d*d, norm+float64(a[i])*float64(a[i])
	}
	return math.Sqrt(difference / norm)
}

// Unchanged and rewritten convolutions give the same within float32 rounding: logits, gradients of all losses, closed
// loops.
func TestWinogradAgrees(t *testing.T) {
	testinput.Runtime(t)
	direct := config.Runtime{Provider: config.CPU, Workers: 1, Batch: 16, Threads: 1}
	rewritten := direct
	rewritten.Winograd = true
	agree(t, compute(t, direct, attacks.Losses()...), compute(t, rewritten, attacks.Losses()...))
}

// A device agrees with the CPU too, and a whole run works there.
func TestCUDAAgrees(t *testing.T) {
	if err := (ort.Target{Provider: ort.ProviderCUDA}).Check(); err != nil {
		t.Skip(err)
	}
	agree(t, compute(t, config.Runtime{Provider: config.CPU, Batch: 16, Threads: 1}, attacks.Losses()...),
		compute(t, config.Runtime{Provider: ort.ProviderCUDA, Batch: 16, Threads: 1, Precision: config.Float32},
			attacks.Losses()...))
	f, _, _ := runSmall(t, 0, 16, "runtime.provider=cuda")
	here, _, _ := runSmall(t, 0, 16, "runtime.winograd=false")
	if f.Environment.Provider != ort.ProviderCUDA || len(f.Cells) != len(here.Cells) {
		t.Fatalf("%+v, %d cells", f.Environment, len(f.Cells))
	}
	for i, c := range f.Cells {
		if c.Attack == cell.None && c.Verdicts != here.Cells[i].Verdicts {
			t.Errorf("clean images, defense %s: %s on the device, %s on the CPU", c.Defense, c.Verdicts,
				here.Cells[i].Verdicts)
		}
	}
}

// halves is OpenVINO in bf16.
var halves = ort.Target{Provider: ort.ProviderOpenVINO, Precision: ort.BFloat16}

// precisions returns the precisions of attacks that this processor has on OpenVINO.
func precisions() []string {
	if halves.Check() != nil {
		return []string{config.Float32}
	}
	return []string{config.Float32, ort.BFloat16}
}

// OpenVINO agrees with the CPU provider in float32, and its results depend on neither batch nor workers nor threads.
func TestOpenVINOAgrees(t *testing.T) {
	testinput.NumbersAlone(t)
	t.Parallel()
	testinput.WithOpenVINO(t, func() {
		here := config.Runtime{Provider: config.CPU, Workers: 1, Batch: 16, Threads: 1}
		for _, precision := range precisions() {
			c := config.Runtime{Provider: ort.ProviderOpenVINO, Workers: 1, Batch: 16, Threads: 1, Precision: precision}
			if precision == config.Float32 {
				agree(t, compute(t, here, attacks.Losses()...), compute(t, c, attacks.Losses()...))
			}
			got := compute(t, c, attacks.Margin)
			for _, other := range [][3]int{{2, 5, 2}} {
				c.Workers, c.Batch, c.Threads = other[0], other[1], other[2]
				if !reflect.DeepEqual(compute(t, c, attacks.Margin), got) {
					t.Errorf("%s: other results with workers, batch and threads %d", precision, other)
				}
			}
		}
	})
}

// halved is a run of small attacks, white-box and not, that some images withstand.
const halved = testplan.Bundled + `
controls: {pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 2/255, steps: 5}
  square: {kind: square, norm: l2, epsilon: 0.2, queries: 50}
suites:
  known: {dataset: test, models: [robust], controls: [pca], attacks: [pgd], mode: whitebox-detached}
  unknown: {dataset: test, models: [robust], controls: [pca], attacks: [square], mode: oblivious}
`

// A run in bf16 says so, attacks standing images again, and gives the same with any workers, batch and shards.
func TestBFloat16(t *testing.T) {
	t.Parallel()
	testinput.WithOpenVINO(t, func() {
		if err := halves.Check(); err != nil {
			t.Skip(err)
		}
		network := "models.robust.path=" + tiny(t, 100)
		sets := []string{"runtime.provider=openvino", "runtime.precision=bf16", network}
		p := testplan.Plan(t, halved, 2, 8, sets...)
		f, records, out := runFor(t, p)
		if e := f.Environment; e.Provider != ort.ProviderOpenVINO || e.Precision != ort.BFloat16 {
			t.Errorf("%+v", e)
		}
		if a := f.Attacks["pgd"]; a.Recipe != "pgd/1+bf16" {
			t.Errorf("the attack is %s", a.Recipe)
		}
		for _, c := range f.Cells {
			attacked := len(c.Steps) > 0
			if attacked && (c.Agreement == nil || c.Agreement.N != run.Sampled(c.Correct) || c.Correct == 0 ||
				c.Agreement.Agree < c.Agreement.N*9/10) || !attacked && c.Agreement != nil {
				t.Errorf("%s, %s, %s: %d stand, %+v", c.Suite, c.Defense, c.Attack, c.Correct, c.Agreement)
			}
			if named := strings.HasSuffix(c.Recipe, "+bf16"); named != (c.Attack != cell.None) {
				t.Errorf("%s under %s: recipe %q", c.Defense, c.Attack, c.Recipe)
			}
		}
		if _, again, _ := runFor(t, testplan.Plan(t, halved, 1, 3, sets...)); !reflect.DeepEqual(again, records) {
			t.Error("other workers and batch, other records")
		}
		sameEnd(t, "merged", out, merged(t, p, 2))

		here, _, _ := runFor(t, testplan.Plan(t, halved, 2, 8, "runtime.provider=openvino", network))
		if here.ConfigSHA256 == f.ConfigSHA256 || here.Attacks["pgd"].Recipe != "pgd/1" {
			t.Error("the precision is no part of the plan")
		}
		differ := 0
		for i, c := range here.Cells {
			for k := range c.Verdicts {
				if c.Verdicts[k] != f.Cells[i].Verdicts[k] {
					differ++
				}
			}
		}
		if differ > len(here.Cells) {
			t.Errorf("%d verdicts differ between precisions", differ)
		}
	})
}
