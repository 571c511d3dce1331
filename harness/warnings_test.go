package harness_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// planted wraps a bundled network: in maps the image, out the logits. It returns the file.
func planted(t *testing.T, name string, in, out func(b *onnx.Builder, x string) string) string {
	t.Helper()
	return plantedIn(t, bundled, name, in, out)
}

// bundled is the network that tests wrap if nothing asks for a smaller one.
const bundled = "../models/zoo/preact_robust.onnx"

func plantedIn(t *testing.T, network, name string, in, out func(b *onnx.Builder, x string) string) string {
	t.Helper()
	net, _ := must.Get2(simplify.Load(network, simplify.Options{}))(t)
	b := &onnx.Builder{G: onnx.NewGraph(name)}
	x := b.Input("x", net.Inputs[0].Shape)
	z := b.Inline(net, map[string]string{net.Inputs[0].Name: in(b, x)})[net.Outputs[0].Name]
	b.Output("planted_logits", out(b, z))
	must.Do(t, b.Err())
	path := filepath.Join(t.TempDir(), name+".onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	return path
}

// Each planted fault raises its warnings, and an honest network none.
func TestPlantedFaultsRaiseTheirWarnings(t *testing.T) {
	testinput.Runtime(t)
	same := unchanged
	scaled := func(factor float32) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string { return b.Op("Mul", x, b.Float(factor)) }
	}
	quantised := func(levels float32) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string {
			return b.Op("Div", b.Op("Floor", b.Op("Mul", x, b.Float(levels))), b.Float(levels))
		}
	}
	noisy := func(b *onnx.Builder, x string) string {
		return b.Op("Add", x, b.Op("Mul", b.Op("RandomNormalLike", x), b.Float(0.05)))
	}
	shuffled := func(b *onnx.Builder, x string) string { return b.Op("Sub", b.Float(1), b.Op("Mul", x, b.Float(30))) }
	times := func(b *onnx.Builder, x string, by *onnx.Tensor) string { return b.Op("MatMul", x, b.Const(by)) }
	sigmoid := func(b *onnx.Builder, x string) string { return b.Op("Sigmoid", x) }
	embedding := func(b *onnx.Builder, x string) string {
		return b.Op("Div", x, b.Op("Sqrt", times(b, b.Op("Mul", x, x), onnx.Filled(1, 10, 1))))
	}
	softmax := func(b *onnx.Builder, x string) string { return b.OpWith("Softmax", onnx.Attrs{"axis": -1}, x) }
	for _, c := range []struct {
		name    string
		in, out func(b *onnx.Builder, x string) string
		want    []string
	}{
		{"honest", same, same, nil}, {"sharp", same, scaled(1e6), []string{result.WarnZeroGradient.ID}},
		{"faint", same, scaled(1e-30), nil}, // small gradients are gradients
		{"underflowing", same, scaled(1e-42), []string{result.WarnZeroGradient.ID}},
		{"quantised", quantised(16), same, []string{result.WarnZeroGradient.ID, result.WarnStandsAtEpsilonOne.ID}},
		{"coarsely-quantised", quantised(6), same, []string{result.WarnZeroGradient.ID, result.WarnUnstableLoss.ID}},
		{"noisy", noisy, same, []string{result.WarnRandomized.ID}},
		{"wrong-input", shuffled, same, []string{result.WarnNearChance.ID}},
		{"sigmoids", same, sigmoid, []string{result.WarnSigmoids.ID}},
		{"embedding", same, embedding, []string{result.WarnEmbeddings.ID}},
		{"softmax", same, softmax, []string{result.WarnProbabilities.ID}},
		{"probabilities", same, softmax, nil},
		{"probabilities-of-logits", same, same, []string{result.WarnNoProbabilities.ID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			output := "logits"
			if strings.HasPrefix(c.name, "probabilities") {
				output = "probabilities"
			}
			limit := 12
			if c.name == "coarsely-quantised" || c.name == "wrong-input" { // rare on an image, and a matter of chance
				limit = 24
			}
			f, _, _ := runFor(t, testplan.Plan(t, faulty, 2, 64, "seed=1", fmt.Sprint("datasets.test.limit=", limit),
				"suites.s.attacks=[apgd]",
				"models.other={path: "+planted(t, c.name, c.in, c.out)+", output: "+output+"}"))
			var got, messages []string
			for _, cell := range f.Cells {
				stands := cell.Attack != "none" && cell.Correct > 0
				fails := stands && strings.HasSuffix(c.name, "quantised")
				if (cell.GradientFailures > 0) != fails || cell.GradientFailures > cell.Correct {
					t.Errorf("%s: gradients failed on %d of %d images that stand", cell.Attack, cell.GradientFailures,
						cell.Correct)
				}
				for _, w := range cell.Warnings {
					got, messages = append(got, w.ID), append(messages, w.ID+": "+w.Message)
				}
			}
			if c.want == nil && got != nil {
				t.Errorf("warnings of an honest network: %s", strings.Join(messages, "\n"))
			}
			for _, w := range c.want {
				if !slices.Contains(got, w) {
					t.Errorf("no %s among\n%s", w, strings.Join(messages, "\n"))
				}
			}
		})
	}
}

// rootOf returns a map of images that gives NaN wherever of gives a number below 0.
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

// An attack that leads a network to NaN has broken the image.
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

// A folder with fewer classes than the network raises a warning, unless the config names the network's classes.
func TestClassSubset(t *testing.T) {
	for classes, want := range map[string]bool{"": true, ", classes: [a, b, c, cat, e, dog, g, h, i, j]": false} {
		f, records, _ := runFor(t, testplan.Plan(t, faulty, 1, 8, "suites.s.models=[robust]", "suites.s.attacks=[]",
			"datasets.test={format: image-folder, path: harness/dataset/testdata/samples/pictures, "+
				"transform: {resize: 32, crop: 32}"+classes+"}"))
		if c := f.Cells[0]; hasWarning(c, result.WarnClassSubset) != want {
			t.Errorf("classes%s: %v", classes, c.Warnings)
		}
		if want {
			must.Have(t, fmt.Sprint(f.Cells[0].Warnings), "data set test has 2 classes, the model 10 outputs, and "+
				"nothing says which of them are meant: cat → 0, dog → 1; classes (--classes) names")
		} else if first, last := records[0].Label, records[len(records)-1].Label; first != 3 || last != 5 {
			t.Errorf("labels %d and %d", first, last)
		}
	}
}

func hasWarning(c result.Cell, kind result.WarningKind) bool {
	return slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return w.ID == kind.ID })
}

// A network that answers NaN on clean images fails its own cells; other networks are scored.
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
