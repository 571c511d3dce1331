package harness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// runFor runs a plan into a folder of its own.
func runFor(t *testing.T, p *plan.Plan) (*result.File, []result.Record, string) {
	t.Helper()
	testinput.Runtime(t)
	out := t.TempDir()
	f := must.Get(run.Run(context.Background(), p, run.Options{Out: out}))(t)
	return f, must.All(result.Records(filepath.Join(out, "records.jsonl")))(t), out
}

// misconfigured fails the test unless an error is the config's, in one line with these words.
func misconfigured(t *testing.T, err error, words string) {
	t.Helper()
	must.Refuse(t, err, words)
	if !errors.As(err, new(open.ConfigError)) {
		t.Errorf("%v is no error of the config", err)
	}
}

// every returns every image of a set.
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

// cancelled runs a plan until a line of its progress has these words. Then it calls at, unless nil.
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

// identical fails the test unless two runs wrote the same records, pictures and adversarial images, bit for bit.
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
	small := quick(t)
	f, records, first := runSmall(t, 2, 64, small...)
	t.Run("consistent", func(t *testing.T) { consistent(t, f, records, first) })
	for _, c := range []struct{ workers, batch, threads int }{{1, 8, 1}, {2, 5, 3}} {
		_, _, out := runSmall(t, c.workers, c.batch, append(small, fmt.Sprint("runtime.threads=", c.threads))...)
		identical(t, fmt.Sprintf("%+v", c), first, out)
	}
	if saved, _ := filepath.Glob(filepath.Join(first, "adversarial", "*.npy")); len(saved) != 6 {
		t.Errorf("%d files of adversarial images", len(saved))
	}
}

// consistent fails the test unless the files agree with each other and with the contract.
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
		if c.Epsilon != 0 && c.MaxNorm > float64(c.Epsilon)*(1+1e-5) {
			t.Errorf("cell %s: norm %g above epsilon %g", c.Attack, c.MaxNorm, c.Epsilon)
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

// The results of an earlier run stay until a new one has better ones: a missing model is found before anything is
// attacked or overwritten.
func TestFailedRunKeepsEarlierResults(t *testing.T) {
	testinput.Runtime(t)
	out := t.TempDir()
	quick := []string{"suites.small.attacks=[pgd-l2]", "suites.small.controls=[]", "datasets.test.limit=2"}
	must.Get(run.Run(context.Background(), testplan.Plan(t, testplan.Small, 1, 8, quick...), run.Options{Out: out}))(t)
	before := must.Get(os.ReadFile(filepath.Join(out, "results.json")))(t)
	p := testplan.Plan(t, testplan.Small, 1, 8, append(quick, "models.robust.path=absent.onnx")...)
	_, err := run.Run(t.Context(), p, run.Options{Out: out, Rule: atomicfile.Rule{Force: true}})
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

// An attack that two suites ask for is made once: both have the same steps.
func TestSharedAttacksAreCraftedOnce(t *testing.T) {
	text := testplan.Small + "  again: {dataset: test, models: [robust], controls: [pca], attacks: [pgd-l2], " +
		"mode: oblivious}\n"
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

// seeded has one suite that gives images to controls and one whose attacks go through them. At its epsilon some
// images stand under one seed and break under another.
const seeded = testplan.Bundled + `
controls:
  greedy:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
attacks:
  square: {kind: square, norm: linf, epsilon: [4/255, 8/255], queries: 25}
suites:
  given: {dataset: test, models: [robust], controls: [greedy], attacks: [square], mode: oblivious}
  through: {dataset: test, models: [robust], controls: [greedy], attacks: [square], mode: whitebox-through}
`

// A run with several seeds gives each cell the results of runs with one seed each, and the cell itself has the first
// seed's.
func TestSeedsAreRunsOfTheirOwn(t *testing.T) {
	run := func(sets ...string) *result.File {
		sets = append(sets, quick(t)...)
		f, records, out := runFor(t, testplan.Plan(t, seeded, 2, 16, append(sets, "datasets.test.limit=12")...))
		if len(records) != len(f.Cells)*12 {
			t.Fatalf("%d records of %d cells", len(records), len(f.Cells))
		}
		return must.Get(result.Read(filepath.Join(out, "results.json")))(t) // written whole
	}
	seeds := []uint64{11, 3}
	all := run("seed=null", "seeds=[11, 3]")
	var others []*result.File
	for _, s := range seeds {
		others = append(others, run(fmt.Sprintf("seed=%d", s)))
	}
	differ := false
	for i, c := range all.Cells {
		if c.Attack == cell.None {
			if c.Seeds != nil {
				t.Errorf("%s, %s: clean images have seeds", c.Suite, c.Defense)
			}
			continue
		}
		if len(c.Seeds) != len(seeds) {
			t.Fatalf("%s, %s: %d seeds", c.Suite, c.Defense, len(c.Seeds))
		}
		if c.Verdicts != others[0].Cells[i].Verdicts {
			t.Errorf("%s, %s: the cell is not the first seed's", c.Suite, c.Defense)
		}
		for k, s := range c.Seeds {
			want := others[k].Cells[i]
			if s.Seed != seeds[k] || s.Verdicts != want.Verdicts || s.Correct != want.Correct ||
				s.Accuracy != want.Accuracy {
				t.Errorf("%s, %s, seed %d: %s, alone %s", c.Suite, c.Defense, s.Seed, s.Verdicts, want.Verdicts)
			}
			differ = differ || s.Verdicts != c.Verdicts
		}
	}
	if !differ {
		t.Error("no verdict depends on the seed: nothing was tested")
	}
	if all.Seed != 11 || all.ConfigSHA256 == others[0].ConfigSHA256 {
		t.Error("the file does not say that it has several seeds")
	}
}

// quick takes a tiny network, and images on some of which it is right.
func quick(t *testing.T) []string {
	t.Helper()
	return []string{"models.robust.path=" + tiny(t, 400), "datasets.test.path=models/zoo/shapes10/train.bin",
		"datasets.test.indices=[0, 2, 3, 4, 14, 15, 28, 29, 30, 31, 32, 33]"}
}

// tiny writes a network that opens in no time, with a convolution and a last layer like the bundled ones. It compares
// an image's means over blocks of 8 × 8 pixels with the means of the classes, each over so many bundled images.
func tiny(t *testing.T, images int) string {
	t.Helper()
	const size, block, classes = 32, 8, 10
	const pixels, side = size * size, size / block
	const features = 3 * side * side
	records := must.Get(os.ReadFile("../models/zoo/shapes10/train.bin"))(t)
	var count [classes]float32
	means := make([]float32, classes*features)
	for record := range slices.Chunk(records[:images*(1+3*pixels)], 1+3*pixels) {
		k := int(record[0])
		count[k]++
		for i, v := range record[1:] {
			channel, row, column := i/pixels, i%pixels/size/block, i%size/block
			means[k*features+(channel*side+row)*side+column] += float32(v) / 255 / (block * block)
		}
	}
	halves := make([]float32, classes) // of each mean's squared norm: the largest logit is the nearest mean's
	for i := range means {
		means[i] /= max(count[i/features], 1)
		halves[i/features] -= means[i] * means[i] / 2
	}
	average := make([]float32, 3*3*block*block)
	for i := range average {
		if of := i / (block * block); of/3 == of%3 { // each channel on its own
			average[i] = 1. / (block * block)
		}
	}
	b := &onnx.Builder{G: onnx.NewGraph("tiny")}
	x := b.Input("x", onnx.Shape{-1, 3, 32, 32})
	h := b.OpWith("Conv", onnx.Attrs{"strides": []int64{block, block}}, x,
		b.Const(onnx.FloatTensor(onnx.Shape{3, 3, block, block}, average)))
	h = b.OpWith("Flatten", onnx.Attrs{"axis": int64(1)}, b.Op("Relu", h))
	z := b.OpWith("Gemm", onnx.Attrs{"transB": int64(1)}, h,
		b.Const(onnx.FloatTensor(onnx.Shape{classes, features}, means)), b.Const(onnx.FloatVector(halves)))
	b.Output("z", z)
	must.Do(t, b.Err())
	path := filepath.Join(t.TempDir(), "tiny.onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	return path
}
