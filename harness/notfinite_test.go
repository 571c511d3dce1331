package harness

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// rootOf is a way in that answers NaN wherever of gives a number below 0.
func rootOf(of func(b *onnx.Builder, x string) string) func(b *onnx.Builder, x string) string {
	return func(b *onnx.Builder, x string) string {
		return b.Op("Add", x, b.Op("Mul", b.Op("Sqrt", of(b, x)), b.Float(0)))
	}
}

func unchanged(_ *onnx.Builder, x string) string { return x }

// An attack that leads a network to NaN has broken the image, whichever attack it is.
func TestNotFiniteAnswersAreBroken(t *testing.T) {
	testinput.Runtime(t)
	// Above 0 on the 256 values of bytes, and below 0 between them.
	between := func(b *onnx.Builder, x string) string {
		return b.Op("Add", b.Op("Cos", b.Op("Mul", x, b.Float(2*math.Pi*255))), b.Float(0.5))
	}
	out, text := t.TempDir(), fmt.Sprintf(`
version: 1
default_suites: [s]
datasets:
  test: {format: cifar10-bin, path: models/zoo/shapes10/test.bin, limit: 8}
models:
  m: {path: %q}
attacks:
  aa: {kind: autoattack, version: quick, norm: linf, epsilon: 0.5/255}
  pgd: {kind: pgd, norm: l2, epsilon: 0.1, steps: 3}
  square: {kind: square, norm: linf, epsilon: 0.5/255, queries: 3}
suites:
  s: {dataset: test, models: [m], attacks: [aa, pgd, square]}
`, planted(t, "between", rootOf(between), unchanged))
	f, _, err := Run(context.Background(), plan(t, text, 1, 8), Options{Out: out, Progress: NewProgress(nil, true)})
	if err != nil {
		t.Fatal(err)
	}
	if f.Cells[0].Correct < 4 {
		t.Errorf("%d of %d clean images are right", f.Cells[0].Correct, f.Cells[0].N)
	}
	for _, c := range f.Cells[1:] {
		if c.Correct != 0 || len(c.Warnings) == 0 || !hasWarning(c, result.WarnNotFiniteAnswer) {
			t.Errorf("%s: %d of %d stand, warnings %v", c.Attack, c.Correct, c.N, c.Warnings)
		}
	}
	records, err := result.ReadRecords(filepath.Join(out, "records.jsonl"))
	if err != nil || len(records) != 4*8 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, r := range records {
		if broken := r.FirstSuccess != nil; math.IsNaN(float64(r.Margin)) != broken {
			t.Errorf("%s, image %d: broken %v, margin %v", r.Attack, r.Image, broken, r.Margin)
		}
	}
}

func hasWarning(c result.Cell, kind result.WarningKind) bool {
	for _, w := range c.Warnings {
		if w.ID == kind.ID {
			return true
		}
	}
	return false
}

// A network that answers NaN on clean images costs its own cells; other networks are scored.
func TestNotFiniteAnswersCostTheirCells(t *testing.T) {
	testinput.Runtime(t)
	bright := func(b *onnx.Builder, x string) string { return b.Op("Sub", x, b.Float(0.1)) }
	out, text := t.TempDir(), fmt.Sprintf(`
version: 1
default_suites: [s]
datasets:
  test: {format: cifar10-bin, path: models/zoo/shapes10/test.bin, limit: 8}
models:
  faulty: {path: %q}
  sound: {path: models/zoo/preact_robust.onnx}
attacks:
  pgd: {kind: pgd, norm: l2, epsilon: 0.1, steps: 3}
suites:
  s: {dataset: test, models: [faulty, sound], attacks: [pgd]}
`, planted(t, "bright", rootOf(bright), unchanged))
	f, _, err := Run(t.Context(), plan(t, text, 1, 8), Options{Out: out, Progress: NewProgress(nil, true)})
	if err == nil || !strings.Contains(err.Error(), "faulty") || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("error %v, want one that names the network", err)
	}
	if len(f.Cells) != 4 {
		t.Fatalf("%d cells", len(f.Cells))
	}
	for i, c := range f.Cells {
		if failed := i < 2; (c.Error != "") != failed || (c.Verdicts == "") != failed {
			t.Errorf("%s, %s: error %q, verdicts %q", c.Model, c.Attack, c.Error, c.Verdicts)
		}
	}
	written, err := result.Read(filepath.Join(out, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	records, err := result.ReadRecords(filepath.Join(out, "records.jsonl"))
	if err != nil || len(records) != 2*8 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if err := written.CheckRecords(records); err != nil {
		t.Error(err)
	}
}
