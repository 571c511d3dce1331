package harness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// runFor runs a plan into a folder of its own.
func runFor(t *testing.T, p *plan.Plan) (*result.File, []result.Record, string) {
	t.Helper()
	testinput.Runtime(t)
	out := t.TempDir()
	f := must.Get(run.Run(context.Background(), p, run.Options{Out: out}))(t)
	return f, must.All(result.Records(filepath.Join(out, "records.jsonl")))(t), out
}

// misconfigured holds that an error is the config's, in one line with these words.
func misconfigured(t *testing.T, err error, words string) {
	t.Helper()
	must.Refuse(t, err, words)
	if !errors.As(err, new(open.ConfigError)) {
		t.Errorf("%v is no error of the config", err)
	}
}

// every image of a set.
func every(t *testing.T, set open.Images) (all []attacks.Image) {
	t.Helper()
	for i := range set.Len() {
		all = append(all, must.Get(set.Read(i))(t))
	}
	return all
}

func runSmall(t *testing.T, workers, batch int, sets ...string) (*result.File, []result.Record, string) {
	t.Helper()
	return runFor(t, testplan.Plan(t, testplan.Small, workers, batch, sets...))
}

// cancelled runs a plan until a line of its progress has these words; then comes at, if any.
func cancelled(t *testing.T, p *plan.Plan, o run.Options, words string, at func()) *result.File {
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
	o.Progress = progress.New(w, progress.TextLog, false)
	f, err := run.Run(ctx, p, o)
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

// The results of an earlier run stay until a new one has something better: a model
// that has gone missing is found before anything is attacked or overwritten.
func TestFailedRunKeepsEarlierResults(t *testing.T) {
	testinput.Runtime(t)
	out := t.TempDir()
	quick := []string{"suites.small.attacks=[pgd-l2]", "suites.small.controls=[]", "datasets.test.limit=2"}
	must.Get(run.Run(context.Background(), testplan.Plan(t, testplan.Small, 1, 8, quick...), run.Options{Out: out}))(t)
	before := must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t)
	p := testplan.Plan(t, testplan.Small, 1, 8, append(quick, "models.robust.path=absent.onnx")...)
	_, err := run.Run(t.Context(), p, run.Options{Out: out, Force: true})
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
	p := testplan.Plan(t, testplan.Small, 1, 8, "suites.small.attacks=[pgd-l2]", "datasets.test.limit=2",
		"controls.auto-encoder.solver.learning_rate=1000000",
		"controls.auto-encoder.solver.outer=30")
	f, err := run.Run(context.Background(), p, run.Options{Out: t.TempDir()})
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

// An attack that two suites ask for is crafted once: the second one's steps are the first's.
func TestSharedAttacksAreCraftedOnce(t *testing.T) {
	text := testplan.Small + "  again: {dataset: test, models: [robust], controls: [pca], attacks: [pgd-l2]}\n"
	p := testplan.Plan(t, text, 1, 8, "default_suites=[small, again]", "suites.small.attacks=[pgd-l2]",
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
	_, err := run.Run(context.Background(), testplan.Plan(t, testplan.Small, 1, 8), run.Options{Out: out})
	if !errors.Is(err, folder.ErrOtherRun) {
		t.Errorf("error %v, want %v", err, folder.ErrOtherRun)
	}
}
