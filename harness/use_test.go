package harness_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// openUse opens a model of the small run, with a control unless that is "".
func openUse(t *testing.T, control string) *open.Model {
	t.Helper()
	testinput.Runtime(t)
	cfg := testplan.Plan(t, testplan.Small, 2, 64, "attacks.pgd-l2.epsilon=[0.2, 0.4]").Config
	u := must.Get(open.Use(context.Background(), cfg, "robust", control, open.Options{}))(t)
	t.Cleanup(u.Close)
	return u
}

// Outside a run the model and its controlled network answer as the network and the
// controller themselves do, with a linear embedding fitted as a run fits it.
func TestAnswers(t *testing.T) {
	u := openUse(t, "pca")
	d := must.Get(u.Set("test", 5))(t)
	pixels := func(i int) ([]float32, error) {
		_, x, _, err := d.Image(i)
		return x, err
	}
	alone, healed, err := u.Answers(context.Background(), d.Len(), pixels)
	if err != nil || len(alone) != 5 || len(healed) != 5 {
		t.Fatalf("%v, %v, %v", alone, healed, err)
	}
	differ := false
	for i := range alone {
		x, z := must.Get(pixels(i))(t), make([]float32, 10)
		must.Do(t, u.Net.Logits(context.Background(), x, z))
		o := must.Get(u.Loop.Run(context.Background(), x))(t)
		for _, c := range []struct {
			got    open.Answer
			logits []float32
		}{{alone[i], z}, {healed[i], o.Logits}} {
			sorted := slices.Sorted(slices.Values(c.logits))
			if c.logits[c.got.Class] != sorted[9] || c.got.Margin != float64(sorted[9])-float64(sorted[8]) {
				t.Errorf("image %d: %+v of logits %v", i, c.got, c.logits)
			}
		}
		differ = differ || alone[i].Margin != healed[i].Margin
	}
	if !differ {
		t.Error("control changes nothing: this test shows nothing")
	}
	if _, healed, err := openUse(t, "none").Answers(context.Background(), 1, pixels); err != nil || healed != nil {
		t.Errorf("without a control: %v, %v", healed, err)
	}
}

// A greedy loop with a fitted embedding is exported with what identifies it.
func TestExportedMetadata(t *testing.T) {
	u := openUse(t, "pca")
	e := must.Get(u.Export())(t)
	sha256 := u.Record.Models["robust"].SHA256
	if e.Input != "[N 3 32 32]" || e.Output != "[N 10]" || len(sha256) != 64 {
		t.Errorf("%s → %s of model %s", e.Input, e.Output, sha256)
	}
	must.Have(t, string(e.Data), sha256, "pca", "greedy", harness.Version)
}

func TestOpenErrors(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct{ model, control, set, want string }{
		{"rubost", "", "seed=3", `no model "rubost"; did you mean "robust"?`},
		{"robust", "pac", "seed=3", `no control "pac"; did you mean "pca"?`},
		{"robust", "", "models.robust.path=absent.onnx", "absent.onnx: no such file"},
		{"robust", "auto-encoder",
			"controls.auto-encoder.layers=[{at: last, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]",
			"control auto-encoder on model robust"},
		{"robust", "pca", "datasets.train.path=absent.bin", "absent.bin does not exist"},
	} {
		cfg := testplan.Config(t, testplan.Repository(t), testplan.Small, nil, c.set)
		_, err := open.Use(context.Background(), cfg, c.model, c.control, open.Options{})
		misconfigured(t, err, c.want)
	}
	must.Refuse(t, openUse(t, "").FitsImage([3]int{3, 32, 64}),
		"3 channels of 64×32 pixels, the model takes 3 of 32×32")
}

// claim is the clean images of the small run as if an attack had returned them.
func claim(t *testing.T, u *open.Model) (run.Claim, *dataset.Dataset) {
	t.Helper()
	d := must.Get(u.Set("test", 0))(t)
	c := run.Claim{Shape: []int{d.Len(), 3, 32, 32}, Dataset: "test", Attack: "pgd-l2", Epsilon: 0.4}
	for i := range d.Len() {
		_, x, _ := must.Get3(d.Image(i))(t)
		c.Images = append(c.Images, x...)
	}
	return c, d
}

// An image that leaves the ball by more than float32 can't avoid, or the box at all, is
// outside and not judged; the rest is judged as in a run.
func TestVerifyMeasures(t *testing.T) {
	u := openUse(t, "")
	c, d := claim(t, u)
	v := must.Get(run.Verify(context.Background(), u, c))(t)
	if v.Unperturbed != 7 || v.MaxNorm != 0 || len(v.Outside) != 0 || v.Judged != 7 || len(v.Verdicts) != 7 ||
		strings.Count(v.Verdicts, "1") != v.Correct || v.Correct == 0 {
		t.Fatalf("clean images: %+v", v)
	}
	// Uniform steps of a length in ℓ2, towards the middle of the box.
	move := func(i int, length float64) {
		image := c.Images[i*3072 : (i+1)*3072]
		for k, p := range image {
			step := float32(length / math.Sqrt(3072))
			if p > 0.5 {
				step = -step
			}
			image[k] += step
		}
	}
	move(0, 0.4*(1+2e-6))
	move(1, 0.4*(1+1e-4))
	move(2, 0.2)
	c.Images[3*3072+9] = float32(math.Inf(1))
	c.Images[4*3072+9] = 1 + 0x1p-23
	c.Images[5*3072+9] = -1e-30
	v = must.Get(run.Verify(context.Background(), u, c))(t)
	if v.Unperturbed != 1 || v.Judged != 3 || v.MaxNorm < 0.4 || v.MaxNorm > 1.001 || len(v.Outside) != 4 {
		t.Fatalf("%+v", v)
	}
	for k, want := range []struct {
		image   int
		problem string
		excess  float64
	}{{1, "l2 norm 0.40003", 3.93e-5}, {3, "1 of its 3072 values are NaN or infinite", 0}, {4, "by up to 1.19e-07",
		0x1p-23}, {5, "by up to 1e-30", 1e-30}} {
		o := v.Outside[k]
		if o.Image != want.image || !strings.Contains(o.Problem, want.problem) ||
			math.Abs(o.Excess-want.excess) > 0.05*want.excess {
			t.Errorf("outside: %+v, want image %d, %s, %g", o, want.image, want.problem, want.excess)
		}
	}
	for i, b := range []byte(v.Verdicts) {
		outside := slices.ContainsFunc(v.Outside, func(o plan.Outside) bool { return o.Image == i })
		if outside != (b == '-') {
			t.Errorf("image %d: outside %v, verdict %c", i, outside, b)
		}
		if outside {
			continue
		}
		label := d.Label(i)
		z := make([]float32, 10)
		must.Do(t, u.Net.Logits(context.Background(), c.Images[i*3072:(i+1)*3072], z))
		if right := attacks.Argmax(z) == label; right != (b == '1') {
			t.Errorf("image %d: right %v, verdict %c", i, right, b)
		}
	}
}

func TestVerifyErrors(t *testing.T) {
	u := openUse(t, "")
	whole, _ := claim(t, u)
	for _, c := range []struct {
		change func(c *run.Claim)
		want   string
	}{
		{func(c *run.Claim) { c.Shape = []int{7, 32, 30, 3} },
			"have shape [7 32 30 3], those of dataset test have [N 3 32 32]"},
		{func(c *run.Claim) { c.Shape = []int{7 * 3072} }, "have shape [21504]"},
		{func(c *run.Claim) { c.Limit = 3 }, "7 adversarial images, but 3 of dataset test; --limit N"},
		{func(c *run.Claim) { c.Attack = "none" }, `no attack "none"; it has: apgd-linf`},
		{func(c *run.Claim) { c.Dataset = "tset" }, `no data set "tset"; did you mean "test"?`},
		{func(c *run.Claim) { c.Epsilon = 0 }, "several epsilons; say which: 0.2, 0.4"},
		{func(c *run.Claim) { c.Epsilon = 0.3 }, "no epsilon 0.3; it has: 0.2, 0.4"},
		{func(c *run.Claim) { c.Attack = "apgd-linf" }, "no epsilon 0.4; it has: 2/255"},
	} {
		changed := whole
		c.change(&changed)
		_, err := run.Verify(context.Background(), u, changed)
		misconfigured(t, err, c.want)
	}
	whole.Epsilon, whole.Attack = 0, "apgd-l1"
	if v, err := run.Verify(context.Background(), u, whole); err != nil || *v.Epsilon != 4 ||
		*v.Norm != attacks.L1.String() {
		t.Errorf("an attack of one epsilon: %+v, %v", v, err)
	}
}

// Images that a run of every norm saved are within, and have its verdicts.
func TestVerifyAgreesWithARun(t *testing.T) {
	f, _, out := runSmall(t, 2, 64, "suites.small.attacks=[apgd-linf, apgd-l1, fab-l2]")
	moved := 0.0
	for _, name := range []string{"none", "auto-encoder", "pca"} {
		u := openUse(t, name)
		for _, c := range f.Cells {
			if c.Attack == "none" || c.Defense != name {
				continue
			}
			files, err := filepath.Glob(filepath.Join(out, "adversarial", "*_"+c.Attack+"_*.npy"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, %v", files, err)
			}
			shape, x := must.Get2(dataset.ReadArray(os.DirFS(filepath.Dir(files[0])), filepath.Base(files[0])))(t)
			claim := run.Claim{Shape: shape, Images: x, Dataset: "test", Attack: c.Attack}
			v := must.Get(run.Verify(context.Background(), u, claim))(t)
			if v.Verdicts != c.Verdicts || v.MaxNorm != c.MaxNorm || v.Accuracy != c.Accuracy || v.Defense != name {
				t.Errorf("%s, %s: %+v, the run's cell is %+v", name, c.Attack, v, c)
			}
			moved = max(moved, v.MaxNorm)
		}
	}
	if moved == 0 {
		t.Error("no attack moved an image: this test shows nothing")
	}
}
