package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// bundled is what configs of tests begin with: the bundled images and networks.
const bundled = `
version: 1
seed: 3
datasets:
  test: {format: cifar10-bin, path: models/zoo/shapes10/test.bin, limit: 7}
  train: {format: cifar10-bin, path: models/zoo/shapes10/train.bin, limit: 60}
models:
  robust: {path: models/zoo/preact_robust.onnx}
  standard: {path: models/zoo/preact_standard.onnx}
  other: {path: made-by-the-test.onnx}
`

// small is a run of seconds that goes through everything: two controllers, every
// component of AutoAttack and PGD, three norms, saved images.
const small = bundled + `
default_suites: [small]
save_adversarial: true
controls:
  auto-encoder:
    solver: {method: msa, outer: 2, inner: 3}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
  pca:
    solver: {method: greedy}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]
attacks:
  apgd-linf: {kind: apgd-t, norm: linf, epsilon: 2/255, steps: 8, targets: 2}
  apgd-l1: {kind: apgd-ce, norm: l1, epsilon: 4, steps: 10, restarts: 2}
  fab-l2: {kind: fab-t, norm: l2, epsilon: 0.3, steps: 6, targets: 3}
  square-l1: {kind: square, norm: l1, epsilon: 8, queries: 60}
  square-linf: {kind: square, norm: linf, epsilon: 4/255, queries: 60}
  pgd-l2: {kind: pgd, norm: l2, epsilon: 0.4, steps: 6}
suites:
  small:
    dataset: test
    models: [robust]
    controls: [auto-encoder, pca]
    attacks: [apgd-linf, apgd-l1, fab-l2, square-l1, square-linf, pgd-l2]
`

// configOf parses a config and selects suites of it, the default ones where none is named.
func configOf(t *testing.T, fsys fs.FS, text string, suites []string, sets ...string) *config.Config {
	t.Helper()
	cfg := must.Get(config.Parse("test.yaml", []byte(text), fsys, sets...))(t)
	return must.Get(cfg.Selected(suites))(t)
}

// plan is of a config that may use the bundled files.
func plan(t *testing.T, text string, workers, batch int, sets ...string) *Plan {
	t.Helper()
	cfg := configOf(t, config.Folder(".."), text, nil, sets...)
	cfg.Runtime.Workers, cfg.Runtime.Batch = workers, batch
	return must.Get(NewPlan(cfg))(t)
}

// runFor runs a plan into a folder of its own.
func runFor(t *testing.T, p *Plan) (*result.File, []result.Record, string) {
	t.Helper()
	testinput.Runtime(t)
	out := t.TempDir()
	f := must.Get(Run(context.Background(), p, Options{Out: out}))(t)
	return f, must.All(result.Records(filepath.Join(out, "records.jsonl")))(t), out
}

// misconfigured holds that an error is the config's, in one line with these words.
func misconfigured(t *testing.T, err error, words string) {
	t.Helper()
	must.Refuse(t, err, words)
	if !errors.As(err, new(ConfigError)) {
		t.Errorf("%v is no error of the config", err)
	}
}

// every image of a set.
func every(t *testing.T, set images) (all []attacks.Image) {
	t.Helper()
	for i := range set.Len() {
		all = append(all, must.Get(set.image(i))(t))
	}
	return all
}

func runSmall(t *testing.T, workers, batch int, sets ...string) (*result.File, []result.Record, string) {
	t.Helper()
	return runFor(t, plan(t, small, workers, batch, sets...))
}

// cancelled runs a plan until a line of its progress has these words; then comes at, if any.
func cancelled(t *testing.T, p *Plan, o Options, words string, at func()) *result.File {
	t.Helper()
	testinput.Runtime(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := lineWriter(func(line string) {
		if strings.Contains(line, words) {
			if at != nil {
				at()
			}
			cancel()
		}
	})
	o.Progress = NewProgress(w, TextLog, false)
	f, err := Run(ctx, p, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want cancelled", err)
	}
	return f
}

type lineWriter func(string)

func (w lineWriter) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

// identical holds that two runs wrote the same records, pictures and adversarial images, bit for bit.
func identical(t *testing.T, name, a, b string) {
	t.Helper()
	files := append(must.Get(filepath.Glob(filepath.Join(a, "adversarial", "*.npy")))(t),
		filepath.Join(a, "records.jsonl"), filepath.Join(a, "gallery.json"))
	for _, path := range files {
		want, got := must.Get(os.ReadFile(path))(t), must.Get(os.ReadFile(b+strings.TrimPrefix(path, a)))(t)
		if len(want) == 0 || !bytes.Equal(want, got) {
			t.Errorf("%s: %s differs", name, filepath.Base(path))
		}
	}
}

// Verdicts, margins, pictures and adversarial images are the same, bit for bit, whatever
// the batch and the number of workers and threads.
func TestResultsDoNotDependOnBatchWorkersOrThreads(t *testing.T) {
	f, records, first := runSmall(t, 2, 64)
	t.Run("consistent", func(t *testing.T) { consistent(t, f, records, first) })
	for _, c := range []struct{ workers, batch, threads int }{{1, 8, 1}, {2, 3, 1}, {2, 5, 3}} {
		_, _, out := runSmall(t, c.workers, c.batch, fmt.Sprintf("runtime.threads=%d", c.threads))
		identical(t, fmt.Sprintf("%+v", c), first, out)
	}
	if saved, _ := filepath.Glob(filepath.Join(first, "adversarial", "*.npy")); len(saved) != 6 {
		t.Errorf("%d files of adversarial images", len(saved))
	}
}

// consistent holds that what the files hold agrees with itself and with the contract.
func consistent(t *testing.T, f *result.File, records []result.Record, out string) {
	if want := (1 + 2) * (1 + 6); len(f.Cells) != want || len(records) != want*7 {
		t.Fatalf("%d cells and %d records, want %d and %d", len(f.Cells), len(records), want, want*7)
	}
	read, err := result.Read(filepath.Join(out, "results.json"))
	if err != nil || len(read.Cells) != len(f.Cells) {
		t.Fatalf("results.json: %v", err)
	}
	clean := f.Cells[0]
	broken := 0
	for _, c := range f.Cells {
		if c.Epsilon != nil && c.MaxNorm > *c.Epsilon*(1+1e-5) {
			t.Errorf("cell %s: norm %g above epsilon %g", c.Attack, c.MaxNorm, *c.Epsilon)
		}
		if c.Defense != "none" || c.Attack == "none" {
			if len(c.Steps) != 0 {
				t.Errorf("cell %s/%s has steps", c.Attack, c.Defense)
			}
			continue
		}
		if len(c.Steps) != 1 || c.Steps[0].Attacked != clean.Correct || c.Steps[0].Robust != c.Accuracy ||
			c.Steps[0].Forward == 0 {
			t.Errorf("cell %s: steps %+v, accuracy %v", c.Attack, c.Steps, c.Accuracy)
		}
		for i := range c.Verdicts {
			if c.Verdicts[i] == '1' && clean.Verdicts[i] == '0' {
				t.Errorf("cell %s: image %d is right under attack but wrong when clean", c.Attack, i)
			}
			if c.Verdicts[i] == '0' && clean.Verdicts[i] == '1' {
				broken++
			}
		}
	}
	if broken == 0 {
		t.Error("no attack broke any image: this test shows nothing")
	}
	for _, r := range records {
		if (r.Margin > 0) != (r.Verdict == 1) && r.Margin != 0 {
			t.Errorf("image %d of %s/%s: margin %v, verdict %d", r.Image, r.Attack, r.Defense, r.Margin, r.Verdict)
		}
		if (r.FirstSuccess != nil) != (r.Norm > 0) {
			t.Errorf("image %d of %s/%s: first success %v, norm %v", r.Image, r.Attack, r.Defense, r.FirstSuccess,
				r.Norm)
		}
	}
}

// What an earlier run left stays until a new one has something better: a model
// that has gone missing is found before anything is attacked or overwritten.
func TestFailedRunKeepsEarlierResults(t *testing.T) {
	testinput.Runtime(t)
	out := t.TempDir()
	quick := []string{"suites.small.attacks=[pgd-l2]", "suites.small.controls=[]", "datasets.test.limit=2"}
	must.Get(Run(context.Background(), plan(t, small, 1, 8, quick...), Options{Out: out}))(t)
	before := must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t)
	p := plan(t, small, 1, 8, append(quick, "models.robust.path=absent.onnx")...)
	_, err := Run(t.Context(), p, Options{Out: out, Force: true})
	misconfigured(t, err, "absent.onnx")
	after, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the earlier results are gone (%v)", err)
	}
	records := filepath.Join(out, "records.jsonl")
	lines, err := os.ReadFile(records)
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d bytes of records, %v", len(lines), err)
	}
	// A run that was killed may leave half a line.
	must.Do(t, os.WriteFile(records, lines[:len(lines)-20], 0o644))
	if got := must.All(result.Records(records))(t); len(got) != 3 {
		t.Errorf("%d records, want the 3 whole ones", len(got))
	}
}

// A control that diverges costs its cell; the others are scored.
func TestDivergingControlCostsItsCell(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, small, 1, 8, "suites.small.attacks=[pgd-l2]", "datasets.test.limit=2",
		"controls.auto-encoder.solver.learning_rate=1000000",
		"controls.auto-encoder.solver.outer=30")
	f, err := Run(context.Background(), p, Options{Out: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "auto-encoder") {
		t.Errorf("error %v, want one that names the control", err)
	}
	for _, c := range f.Cells {
		if failed := c.Defense == "auto-encoder"; (c.Error != "") != failed || (c.Verdicts == "") != failed {
			t.Errorf("%s, %s: error %q, verdicts %q", c.Defense, c.Attack, c.Error, c.Verdicts)
		}
	}
	if len(f.Cells) != 6 {
		t.Errorf("%d cells, want 6", len(f.Cells))
	}
}

func TestSimplex(t *testing.T) {
	for _, c := range []struct {
		z    []float32
		want bool
	}{{[]float32{0.25, 0.75}, true}, {[]float32{1, 0}, true}, {[]float32{0.25, 0.7}, false}, {[]float32{-0.25, 1.25},
		false}} {
		if got := simplex(c.z); got != c.want {
			t.Errorf("%v: %v, want %v", c.z, got, c.want)
		}
	}
}

// What two suites ask for is crafted once: the second one's steps are the first's.
func TestSharedAttacksAreCraftedOnce(t *testing.T) {
	text := small + "  again: {dataset: test, models: [robust], controls: [pca], attacks: [pgd-l2]}\n"
	p := plan(t, text, 1, 8, "default_suites=[small, again]", "suites.small.attacks=[pgd-l2]",
		"suites.small.controls=[]", "datasets.test.limit=3")
	f, _, _ := runFor(t, p)
	var steps []result.Step
	for _, c := range f.Cells {
		steps = append(steps, c.Steps...)
	}
	if len(steps) != 2 || steps[0] != steps[1] {
		t.Errorf("steps %+v, want the same twice, seconds and all", steps)
	}
}

func TestOtherConfigIsRefused(t *testing.T) {
	testinput.Runtime(t)
	out := t.TempDir()
	old := &result.File{Schema: result.Schema, ConfigSHA256: "other"}
	must.Do(t, result.Write(filepath.Join(out, "results.json"), old))
	_, err := Run(context.Background(), plan(t, small, 1, 8), Options{Out: out})
	if !errors.Is(err, ErrOtherRun) {
		t.Errorf("error %v, want %v", err, ErrOtherRun)
	}
}

// The judge measures in float64 and knows no mercy.
func TestMeasure(t *testing.T) {
	clean := []float32{0.5, 0.5, 0}
	for _, c := range []struct {
		adversarial []float32
		norm        attacks.Norm
		epsilon     float64
		ok          bool
	}{
		{[]float32{0.6, 0.4, 0}, attacks.Linf, 0.1, true},
		{[]float32{0.6, 0.4, 0}, attacks.Linf, 0.0999, false}, {[]float32{0.6, 0.4, 0}, attacks.L1, 0.2, true},
		{[]float32{0.6, 0.4, 0}, attacks.L1, 0.19, false}, {[]float32{0.8, 0.9, 0}, attacks.L2, 0.5, true},
		{[]float32{0.8, 0.9, 0}, attacks.L2, 0.499, false},
		{[]float32{0.5, 0.5, -0.001}, attacks.Linf, 1, false},
		{[]float32{0.5, 1.001, 0}, attacks.Linf, 1, false},
		{[]float32{0.5, float32(math.NaN()), 0}, attacks.Linf, 1, false},
		{[]float32{0.5, 0.5}, attacks.Linf, 1, false},
	} {
		if _, err := (ball{c.norm, c.epsilon}).measure(clean, c.adversarial); (err == nil) != c.ok {
			t.Errorf("%v within %v %g: %v", c.adversarial, c.norm, c.epsilon, err)
		}
	}
}

// A run takes away what an earlier one has left, whatever the folder is called, when it has put its
// own results there, and nothing of a folder that holds no results.
func TestWhatARunRemoves(t *testing.T) {
	for _, c := range []struct {
		name    string
		results bool
		left    []string
	}{
		{"plain", true, []string{lockFile, "mine.txt", "records.jsonl", "results.json"}},
		{"gl[1", true, []string{lockFile, "mine.txt", "records.jsonl", "results.json"}},
		{"other", false, []string{lockFile, "adversarial/a.npy", "control-panel.png", "junit.xml", "mine.txt",
			"records.jsonl", "results.json"}},
	} {
		dir := filepath.Join(t.TempDir(), c.name)
		must.Do(t, os.MkdirAll(filepath.Join(dir, "adversarial"), 0o755))
		for _, name := range []string{"mine.txt", "junit.xml", "control-panel.png", "adversarial/a.npy"} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		f := &result.File{Schema: result.Schema}
		if c.results {
			must.Do(t, result.Write(filepath.Join(dir, "results.json"), f))
		} else {
			_, err := openOutput(dir, false)
			must.Refuse(t, err, "which is no run's", "--force")
		}
		o := must.Get(openOutput(dir, true))(t)
		j := must.Get(o.begin(planned{Run: f}))(t)
		must.Do(t, o.cell(f, nil))
		if _, err := os.Stat(filepath.Join(dir, "junit.xml")); err != nil {
			t.Errorf("%s: removed before there are results: %v", c.name, err)
		}
		f.Finished = new(time.Now())
		must.Get(o.publish(f, nil))(t)
		must.Do(t, j.Close())
		must.Do(t, o.finish())
		var left []string
		must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if name, _ := filepath.Rel(dir, path); err == nil && !d.IsDir() {
				left = append(left, name)
			}
			return err
		}))
		if !slices.Equal(left, c.left) {
			t.Errorf("%s: %q are left, want %q", c.name, left, c.left)
		}
	}
}
