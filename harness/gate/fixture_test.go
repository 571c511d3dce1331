package gate

import (
	"strings"
	"testing"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// accuracies of the cells of a made-up run: two defenses under none and two attacks.
var accuracies = []float64{0.93, 0.9, 0.02, 0.6, 0.4, 0.75}

// file makes results of one model with the given verdicts, in the order of accuracies.
func file(seed uint64, verdicts ...string) *result.File {
	n := len(verdicts[0])
	f := &result.File{Schema: result.Schema, Created: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Seed: seed,
		Environment: result.Environment{Selfheal: "0.1.0"},
		Datasets:    map[string]result.Dataset{"shapes": {N: n, SHA256: strings.Repeat("a", 64), Format: "npz"}},
		Models: map[string]result.Model{"net": {SHA256: strings.Repeat("b", 64), Output: "logits",
			Preprocess: &result.Preprocess{Mean: []float64{0.5}, Std: []float64{0.25}}}},
		Attacks: map[string]result.Attack{
			"aa": {Kind: "autoattack", Version: "custom", Recipe: "aa/1", Norm: new("linf"),
				Epsilons: []float64{8. / 255},
				Components: []result.Component{
					{Kind: "apgd-ce", Parameters: result.Parameters{"steps": 100}}, {Kind: "square",
						Parameters: result.Parameters{"queries": 5000}}}},
			"pgd": {Kind: "pgd", Title: "PGD-40", Recipe: "pgd/1", Norm: new("linf"), Epsilons: []float64{8. / 255},
				Parameters: result.Parameters{"steps": 40, "schedule": "constant"}}},
		Controls: map[string]result.Control{"heal": {Solver: result.Parameters{"method": "msa", "outer": 3},
			Layers: []result.Layer{
				{At: "input", Embedding: result.LayerEmbedding{Kind: "onnx", Path: "a.onnx", SHA256: "1"}},
				{At: "last", Embedding: result.LayerEmbedding{Kind: "onnx", Path: "b.onnx", SHA256: "2"}}}}},
		Suites: []result.Suite{{Name: "main", Dataset: "shapes", Mode: result.Oblivious, Models: []string{"net"},
			Controls: []string{"heal"}, Attacks: []string{"aa", "pgd"}}}}
	for i, v := range verdicts {
		c := result.Cell{ID: cell.Of("main", "net", []string{"none", "heal"}[i%2], []string{"none", "aa", "pgd"}[i/2%3],
			0).In("shapes", result.Oblivious), N: n, Correct: strings.Count(v, "1"), Verdicts: v, Seconds: 1.5,
			Warnings: []result.Warning{}}
		if c.Attack != "none" {
			norm, epsilon := "linf", 8.0/255
			c.Norm, c.Epsilon, c.Recipe = &norm, cell.Epsilon(epsilon), c.Attack+"/1"
		}
		f.Cells = append(f.Cells, c)
	}
	return f
}

func mustBaseline(t testing.TB, f *result.File) *Baseline {
	t.Helper()
	return must.Get(NewBaseline(f, config.DefaultGate()))(t)
}

// verdictsOf returns ones, then zeros.
func verdictsOf(ones, n int) string { return strings.Repeat("1", ones) + strings.Repeat("0", n-ones) }

// same returns the verdicts of six cells of n images, ones of them right.
func same(ones, n int) []string {
	v := make([]string, len(accuracies))
	for i := range v {
		v[i] = verdictsOf(ones, n)
	}
	return v
}

// against compares results with a baseline of these verdicts.
func against(t *testing.T, before []string, f *result.File, rules config.Gate) (*Report, error) {
	t.Helper()
	return Compare(t.Context(), mustBaseline(t, file(0, before...)), f, rules)
}
