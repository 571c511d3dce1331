package table

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// evidenced makes a suite from verdicts: for each model and defense those on clean images, then under attack.
func evidenced(controls map[string]result.Control, of map[string]map[string][]string, order ...string) Suite {
	f := &result.File{Controls: controls}
	f.Suites = []result.Suite{{Name: "s", Mode: result.Oblivious, Controls: order[1:]}}
	attacks, linf, e := []string{"none", "pgd", "square"}, "linf", 2./255
	for _, model := range []string{"a", "b"} {
		for _, defense := range order {
			for i, v := range of[model][defense] {
				c := result.Cell{ID: cell.Of("s", model, defense, attacks[i], 0), N: len(v), Verdicts: v}
				if i > 0 {
					c.Norm, c.Epsilon = &linf, cell.Epsilon(e)
				}
				if defense != "none" {
					c.Solver = &result.Solver{PassesPerRun: 3}
					if controls[defense].Solver["method"] == "msa" {
						c.Solver.PassesPerRun = 131
					}
				}
				f.Cells = append(f.Cells, c)
			}
		}
	}
	return Of(view.Of(f)).Suites[0]
}

// solved returns controls with one embedding and different solvers, and one with another embedding.
func solved() map[string]result.Control {
	of := func(method, path string) result.Control {
		return result.Control{Solver: result.Parameters{"method": method},
			Layers: []result.Layer{{At: "input", Embedding: result.LayerEmbedding{Kind: "onnx", Path: path}}}}
	}
	return map[string]result.Control{"msa": of("msa", "e.onnx"), "greedy": of("greedy", "e.onnx"),
		"other": of("pmp", "another.onnx")}
}

// A control is compared with the network; a solver also with greedy control, but only by the same embeddings.
func TestContrasts(t *testing.T) {
	s := evidenced(solved(), nil, "none", "msa", "greedy", "other", "unknown")
	want := []contrast{{"msa", "none"}, {"greedy", "none"}, {"other", "none"}, {"unknown", "none"}, {"msa", "greedy"}}
	if got := contrasts(s); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	file := func(fit, sum string) []result.Layer {
		return []result.Layer{{At: "last", Embedding: result.LayerEmbedding{Kind: "onnx", Fit: fit, SHA256: sum}}}
	}
	fitted := file("train", "ab")
	if !slices.EqualFunc(fitted, file("", "ab"), sameLayer) || slices.EqualFunc(fitted, file("", "cd"), sameLayer) {
		t.Error("a fitted embedding is not the same as its file, or is as another")
	}
}

// Every change is counted both ways, and the p-values are the exact ones.
func TestEvidence(t *testing.T) {
	all := map[string]map[string][]string{
		"a": {"none": {"1111111111", "0000000000", "0000000011"},
			"greedy": {"1111111110", "1111111100", "1111110011"},
			"msa":    {"1111111110", "1111111100", "1111110011"}},
		"b": {"none": {"1111111111", "0000000000", "0000000000"},
			"greedy": {"1111111111", "1111111100", "0111111101"},
			"msa":    {"1111111111", "1111111101", "0111111101"}},
	}
	s := evidenced(solved(), all, "none", "greedy", "msa")
	e := s.Evidence()
	got := plainly(e.Table)
	want := []string{ // 8 of 8: 2/2^8; 6 of 6: 2/2^6
		"a | greedy | undefended | Clean | 10 | 0 | 1 | 1.00 | 1.00 | 3 / 1",
		"a | greedy | undefended | pgd ℓ∞ (2/255) | 10 | 8 | 0 | 0.00781 | 0.133 | 3 / 1",
		"a | greedy | undefended | square ℓ∞ (2/255) | 10 | 6 | 0 | 0.0313 | 0.375 | 3 / 1",
		"a | msa | undefended | Clean | 10 | 0 | 1 | 1.00 | 1.00 | 131 / 1",
	}
	if len(got) != 18 || !slices.Equal(got[:4], want) {
		t.Errorf("%d lines:\n%s\nwant\n%s", len(got), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if last := "b | msa | greedy | pgd ℓ∞ (2/255) | 10 | 1 | 0 | 1.00 | 1.00 | 131 / 3"; !slices.Contains(got, last) {
		t.Errorf("no line %q in\n%s", last, strings.Join(got, "\n"))
	}

	// All images but the ninth gain over two models and two attacks, and none loses.
	pool := pooled(s, contrast{"greedy", "none"}, "attacked", nil)
	if pool.N != 10 || pool.Won != 9 || pool.Lost != 0 || math.Abs(pool.p-2./512) > 1e-12 {
		t.Errorf("pooled: %+v", pool)
	}
	said := strings.ReplaceAll(strings.Join(e.Sentences, "\n"), words.Nbsp, " ")
	for _, want := range []string{
		"greedy against the undefended network on the same 10 images, over 2 models: under 2 attacks 9 images gain " +
			"and 0 lose (p = 0.0234), greedy keeps more; without attack 0 images gain and 1 lose (p = 1.00), no " +
			"evidence of a difference; an answer costs 3 plain passes instead of 1.",
		"msa against greedy on the same 10 images, over 2 models: under 2 attacks 1 image gains and 0 lose " +
			"(p = 1.00), no evidence of a difference; without attack no answer differs; an answer costs 131 plain " +
			"passes instead of 3.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the evidence reads\n%s\nwithout\n%s", said, want)
		}
	}
}

// Without verdicts on the same images there is no evidence.
func TestNoEvidence(t *testing.T) {
	other := map[string]map[string][]string{"a": {"none": {"111"}, "greedy": {"11"}}}
	apart := evidenced(solved(), other, "none", "greedy")
	if e := apart.Evidence(); e.Sentences != nil || e.Table.Rows != nil {
		t.Errorf("other images are evidence: %q", e.Sentences)
	}
	if e := Of(view.Paper()).Suites[0].Evidence(); e.Sentences != nil || e.Table.Rows != nil {
		t.Errorf("published numbers are evidence: %q", e.Sentences)
	}
}

// Corruptions are not attacks: an image counts once over all of them, in the table and in part of the sentence.
func TestEvidenceOnCorruptions(t *testing.T) {
	noise := result.Parameters{"names": []any{"fog"}, "severities": []any{1., 2.}}
	f := &result.File{Controls: solved(), Attacks: map[string]result.Attack{"noise": {Kind: "corruption",
		Parameters: noise}}}
	attacks := []string{"none", "pgd", "noise:fog:1", "noise:fog:2"}
	for defense, verdicts := range map[string][]string{"none": {"1111", "0000", "0011", "0001"},
		"greedy": {"1111", "0001", "1011", "1110"}} {
		for i, v := range verdicts {
			f.Cells = append(f.Cells, result.Cell{ID: cell.Of("s", "a", defense, attacks[i], 0), N: 4, Verdicts: v})
		}
	}
	e := Of(view.Of(f)).Suites[0].Evidence()
	got := plainly(e.Table)
	if len(got) != 3 || !strings.HasPrefix(got[2], "a | greedy | undefended | noise | 4 | 3 | 1 | 0.625 |") {
		t.Errorf("%q", got)
	}
	said := strings.Join(e.Sentences, "")
	must.Have(t, strings.ReplaceAll(said, words.Nbsp, " "), "under 1 attack 1 image gains and 0 lose (p = 1.00)",
		"under corruption 3 images gain and 1 lose (p = 1.00)", "without attack no answer differs")
}

func TestPValues(t *testing.T) {
	for p, want := range map[float64]string{1: "1.00", 0.5: "0.500", 0.0996: "0.0996", 0.0499: "0.0499",
		0.0078125: "0.00781", 0.00011: "0.000110", 0.0000999: "< 0.0001", 0: "< 0.0001"} {
		if got := strings.ReplaceAll(pValue(p), words.Nbsp, " "); got != want {
			t.Errorf("%v reads %s, want %s", p, got, want)
		}
	}
}

// The sum over models does not hide that they differ.
func TestEvidenceDiffers(t *testing.T) {
	ones, zeros := strings.Repeat("1", 20), strings.Repeat("0", 20)
	s := evidenced(solved(), map[string]map[string][]string{
		"a": {"none": {ones, zeros}, "greedy": {ones, strings.Repeat("1", 10) + zeros[:10]}},
		"b": {"none": {ones, strings.Repeat("1", 10) + zeros[:10]}, "greedy": {ones, zeros}}}, "none", "greedy")
	want := "under 1 attack 0 images gain and 0 lose (p = 1.00), no evidence of a difference over all, but in the " +
		"table 1 better and 1 worse beyond chance; without attack no answer differs"
	must.Have(t, strings.ReplaceAll(s.Evidence().Sentences[0], words.Nbsp, " "), want)
}
