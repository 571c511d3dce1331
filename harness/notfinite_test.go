package harness_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// rootOf is a way in that answers NaN wherever of gives a number below 0.
func rootOf(of func(b *onnx.Builder, x string) string) func(b *onnx.Builder, x string) string {
	return func(b *onnx.Builder, x string) string {
		return b.Op("Add", x, b.Op("Mul", b.Op("Sqrt", of(b, x)), b.Float(0)))
	}
}

func unchanged(_ *onnx.Builder, x string) string { return x }

// faulty is a network that a test makes, under one attack or several.
const faulty = testplan.Bundled + `
attacks:
  aa: {kind: autoattack, version: quick, norm: linf, epsilon: 0.5/255}
  pgd: {kind: pgd, norm: l2, epsilon: 0.1, steps: 3}
  square: {kind: square, norm: linf, epsilon: 0.5/255, queries: 3}
  apgd: {kind: autoattack, version: custom, components: [{kind: apgd-ce, restarts: 1}, apgd-t, square],
    norm: linf, epsilon: 2/255, steps: 10, targets: 2, queries: 100}
suites:
  s: {dataset: test, models: [other], attacks: [aa, pgd, square]}
`

// An attack that leads a network to NaN has broken the image, whichever attack it is.
func TestNotFiniteAnswersAreBroken(t *testing.T) {
	testinput.Runtime(t)
	// Above 0 on the 256 values of bytes, and below 0 between them.
	between := func(b *onnx.Builder, x string) string {
		return b.Op("Add", b.Op("Cos", b.Op("Mul", x, b.Float(2*math.Pi*255))), b.Float(0.5))
	}
	f, records, _ := runFor(t, testplan.Plan(t, faulty, 1, 8,
		"models.other.path="+planted(t, "between", rootOf(between), unchanged)))
	if f.Cells[0].Correct < 4 {
		t.Errorf("%d of %d clean images are right", f.Cells[0].Correct, f.Cells[0].N)
	}
	for _, c := range f.Cells[1:] {
		if c.Correct != 0 || len(c.Warnings) == 0 || !hasWarning(c, result.WarnNotFiniteAnswer) {
			t.Errorf("%s: %d of %d stand, warnings %v", c.Attack, c.Correct, c.N, c.Warnings)
		}
	}
	if len(records) != 4*7 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if broken := r.FirstSuccess != nil; math.IsNaN(float64(r.Margin)) != broken {
			t.Errorf("%s, image %d: broken %v, margin %v", r.Attack, r.Image, broken, r.Margin)
		}
	}
}

func hasWarning(c result.Cell, kind result.WarningKind) bool {
	return slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return w.ID == kind.ID })
}

// A network that answers NaN on clean images costs its own cells; other networks are scored.
func TestNotFiniteAnswersCostTheirCells(t *testing.T) {
	testinput.Runtime(t)
	bright := func(b *onnx.Builder, x string) string { return b.Op("Sub", x, b.Float(0.1)) }
	out := t.TempDir()
	f, err := run.Run(t.Context(), testplan.Plan(t, faulty, 1, 8, "suites.s.models=[other, robust]",
		"suites.s.attacks=[pgd]",
		"models.other.path="+planted(t, "bright", rootOf(bright), unchanged)), run.Options{Out: out})
	must.Refuse(t, err, "other", "not finite")
	if len(f.Cells) != 4 {
		t.Fatalf("%d cells", len(f.Cells))
	}
	for i, c := range f.Cells {
		if failed := i < 2; (c.Error != "") != failed || (c.Verdicts == "") != failed {
			t.Errorf("%s, %s: error %q, verdicts %q", c.Model, c.Attack, c.Error, c.Verdicts)
		}
	}
	records := must.All(result.Records(filepath.Join(out, "records.jsonl")))(t)
	if len(records) != 2*7 {
		t.Fatalf("%d records", len(records))
	}
	read := must.Get(result.Read(filepath.Join(out, "results.json")))(t)
	must.Do(t, read.CheckRecords(slices.Values(records)))
}
