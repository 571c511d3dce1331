package run

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// A study follows the control's own solver to the control's answers, and also step by step at the default rate, in a
// curve that says so.
func TestStudy(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+`
controls:
  msa:
    solver: {method: msa, outer: 2, inner: 2, learning_rate: 0.5}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]
attacks: {fgsm: {kind: fgsm, norm: linf, epsilon: 4/255}}
suites:
  s: {dataset: test, models: [robust], controls: [msa], attacks: [fgsm], solver: {images: 24, attack: fgsm, outer: [1]}}
`, 2, 8, "datasets.test.limit=24")
	f := must.Get(Run(t.Context(), p, Options{Out: t.TempDir()}))(t)
	study := f.Solver[0]
	var runs []string
	for _, r := range study.Runs {
		runs = append(runs, fmt.Sprint(r.Why, " ", r.Settings.Outer, " ", r.Settings.LearningRate, " ", r.Own))
	}
	usual := study.Defaults.LearningRate
	if want := []string{"own 2 0.5 true", fmt.Sprint("default 2 ", usual, " false"), "outer 1 0.5 false",
		"outer 2 0.5 true"}; !slices.Equal(runs, want) {
		t.Errorf("runs %q, want %q", runs, want)
	}
	for k, c := range study.Curves { // greedy control, msa, pmp and default msa, for two kinds of images each
		inner := map[string]int{"greedy": 0, "pmp": 1, "msa": 2}[c.Settings.Method]
		if c.Settings.Inner != inner || c.Default != (k >= 6) ||
			c.Default != (c.Settings.LearningRate == usual) || k > 1 && len(c.Points) != 5 {
			t.Errorf("curve %d of %d: %+v", k, len(study.Curves), c)
		}
	}
	for k, attack := range []string{"none", "fgsm"} {
		i := slices.IndexFunc(f.Cells, func(c result.Cell) bool { return c.Defense == "msa" && c.Attack == attack })
		if got, want := study.Runs[0].Outcomes[k].Correct, f.Cells[i].Correct; got != want || want == 24 {
			t.Errorf("%s: %d images are right under the control, in its study %d", attack, want, got)
		}
	}
	if len(study.Curves) != 8 || len(f.Gallery.Cases) == 0 {
		t.Errorf("%d curves, %d cases of the gallery", len(study.Curves), len(f.Gallery.Cases))
	}
}

// Transferred images are made on their source: the passes that break them are the same for every network. The judge
// gives the same verdicts again on those that are saved.
func TestTransfer(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+`
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 3/255, steps: 4}}
suites: {s: {dataset: test, models: [robust, standard], mode: transfer, attacks: [pgd]}}
`, 2, 8, "datasets.test.limit=16", "save_adversarial=true")
	out := t.TempDir()
	f := must.Get(Run(t.Context(), p, Options{Out: out}))(t)
	took := map[string]string{}
	for _, r := range must.All(result.Records(filepath.Join(out, "records.jsonl")))(t) {
		if r.Attack != "none" {
			first := -1
			if r.FirstSuccess != nil {
				first = *r.FirstSuccess
			}
			took[r.Model+" by "+r.Source] += fmt.Sprint(first, " ")
		}
	}
	if len(took) != 4 || took["standard by robust"] != took["robust by robust"] ||
		took["robust by standard"] != took["standard by standard"] ||
		took["robust by robust"] == took["standard by standard"] {
		t.Errorf("%q", took)
	}
	again := must.Get(Verify(t.Context(), p, f, out, Options{}))(t)
	if len(again) != 4 || slices.ContainsFunc(again, func(r Reviewed) bool { return len(r.Differ) > 0 }) {
		t.Errorf("looked at again: %+v", again)
	}
}

// A network with ImageNet's classes, for images of its size, has AlexNet's errors beside its own, and a warning where
// the images are of fewer classes.
func TestAlexNetsErrors(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	b := &onnx.Builder{G: onnx.NewGraph("thousand")}
	h := b.OpWith("Flatten", onnx.Attrs{"axis": int64(1)}, b.Op("GlobalAveragePool", b.Input("x",
		onnx.Shape{-1, 3, 224, 224})))
	b.Output("z", b.OpWith("Gemm", onnx.Attrs{"transB": int64(1)}, h,
		b.Const(onnx.FloatTensor(onnx.Shape{1000, 3}, make([]float32, 3000))),
		b.Const(onnx.FloatVector(make([]float32, 1000)))))
	must.Do(t, b.Err())
	path := filepath.Join(dir, "thousand.onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	for _, class := range []string{"a", "b"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "set", class), 0o755))
		var picture bytes.Buffer
		must.Do(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 224, 224))))
		must.Do(t, os.WriteFile(filepath.Join(dir, "set", class, "1.png"), picture.Bytes(), 0o644))
	}
	text := fmt.Sprintf(`{version: 1, datasets: {d: {format: image-folder, path: %q}}, models: {m: {path: %q}},
attacks: {c: {kind: corruption, names: [contrast], severities: 5}},
suites: {s: {dataset: d, models: [m], attacks: [c]}}}`, filepath.Join(dir, "set"), path)
	f := must.Get(Run(t.Context(), testplan.Plan(t, text, 1, 2), Options{Out: filepath.Join(dir, "out")}))(t)
	if len(f.Cells) != 2 || f.Cells[0].AlexNetError != 0 || f.Cells[1].AlexNetError != .853204 ||
		len(f.Cells[0].Warnings) != 1 || f.Cells[0].Warnings[0].ID != result.WarnClassSubset.ID {
		t.Errorf("%+v", f.Cells)
	}
}
