package harness_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// planted wraps a bundled network: in maps the image, out the logits. It returns the file.
func planted(t *testing.T, name string, in, out func(b *onnx.Builder, x string) string) string {
	t.Helper()
	net, _ := must.Get2(simplify.Load("../models/zoo/preact_robust.onnx", simplify.Options{}))(t)
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
	softmax := func(b *onnx.Builder, x string) string { return b.OpWith("Softmax", onnx.Attrs{"axis": -1}, x) }
	for _, c := range []struct {
		name    string
		in, out func(b *onnx.Builder, x string) string
		want    []string
	}{
		{"honest", same, same, nil}, {"sharp", same, scaled(1e6), []string{result.WarnZeroGradient.ID}},
		{"faint", same, scaled(1e-30), []string{result.WarnZeroGradient.ID}},
		{"quantised", quantised(16), same, []string{result.WarnZeroGradient.ID, result.WarnStandsAtEpsilonOne.ID}},
		{"coarsely-quantised", quantised(6), same, []string{result.WarnZeroGradient.ID, result.WarnUnstableLoss.ID}},
		{"noisy", noisy, same, []string{result.WarnRandomized.ID}},
		{"wrong-input", shuffled, same, []string{result.WarnNearChance.ID}},
		{"softmax", same, softmax, []string{result.WarnProbabilities.ID}},
		{"probabilities", same, softmax, nil},
		{"probabilities-of-logits", same, same, []string{result.WarnNoProbabilities.ID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			output := "logits"
			if strings.HasPrefix(c.name, "probabilities") {
				output = "probabilities"
			}
			f, _, _ := runFor(t, testplan.Plan(t, faulty, 2, 64, "seed=1", "datasets.test.limit=24",
				"suites.s.attacks=[apgd]",
				"models.other={path: "+planted(t, c.name, c.in, c.out)+", output: "+output+"}"))
			var got, messages []string
			for _, cell := range f.Cells {
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
