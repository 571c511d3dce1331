package reports

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
)

// corruptedFile has two corruptions of all severities on a network with and without a control: four images, of which
// severity s gets 4 − (s+1)/2 right, and one more under the control.
func corruptedFile() *result.File {
	f := &result.File{Attacks: map[string]result.Attack{"c": {Kind: "corruption", Recipe: "corruption/1",
		Title: "2 of 15 corruptions", Parameters: result.Parameters{"names": []any{"fog", "jpeg_compression"},
			"severities": []any{1., 2., 3., 4., 5.}}}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Oblivious, Models: []string{"m"},
			Controls: []string{"heal"}, Attacks: []string{"c"}}}}
	add := func(defense, attack, recipe string, right int, alexnet float64) {
		f.Cells = append(f.Cells, result.Cell{Suite: "s", Dataset: "d", Model: "m", Defense: defense,
			Mode: result.Oblivious, Attack: attack, Recipe: recipe, N: 4, Correct: right, Accuracy: float64(right) / 4,
			Verdicts: strings.Repeat("1", right) + strings.Repeat("0", 4-right), CI95: [2]float64{0, 1},
			AlexNetError: alexnet})
	}
	for i, defense := range []string{"none", "heal"} {
		add(defense, "none", "", 4, 0)
		for name, alexnet := range map[string]float64{"fog": 0.5, "jpeg_compression": 0.25} {
			for s := 1; s <= 5; s++ {
				add(defense, fmt.Sprintf("c:%s:%d", name, s), "corruption/1", 4-(s+1)/2+i, alexnet)
			}
		}
	}
	return f
}

// Many cells of corruptions are one column, and have tables of their own, a figure and lines of the CSV file.
func TestCorruptionsStandApart(t *testing.T) {
	v := derive(corruptedFile())
	s := v.Suites[0]
	if heads := s.heads(); !slices.Equal(heads, []string{"None", "Corruptions, mean"}) || s.Missing() != 0 {
		t.Errorf("columns %v, %d missing", heads, s.Missing())
	}
	// Errors are 1, 1, 2, 2, 3 of 4 in the baseline, 0, 0, 1, 1, 2 under the control.
	text := markdown(t, v)
	for _, want := range []string{
		"| m | 100.0 / 100.0 | 55.0 / **80.0** |",
		"| m | baseline | 0.0 | 55.0 | 45.0 | 135.0 |", // 45/50 and 45/25
		"|  | heal | 0.0 | 80.0 | 20.0 | 60.0 |",
		"| m | Fog | 75.0 / **100.0** | 75.0 / **100.0** | 50.0 / **75.0** | 50.0 / **75.0** | 25.0 / **50.0** | " +
			"55.0 / **80.0** |",
		"|  | JPEG compression |",
		"|  | Mean |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if said := s.evidence(); len(said) != 1 || !strings.Contains(said[0], "under corruption 3 images gain and 0 lose") {
		t.Errorf("evidence: %q", said)
	}
	var csv strings.Builder
	if err := renderCSV(&csv, v); err != nil || strings.Count(csv.String(), "\n") != 1+4+20 ||
		!strings.Contains(csv.String(), "s,d,m,none,oblivious,c,,,4,,0.55,") ||
		!strings.Contains(csv.String(), "s,d,m,heal,oblivious,c:fog:5,,,4,2,0.5,") {
		t.Errorf("%v, %s", err, csv.String())
	}
	f := fullCorruptions(s)
	if len(f.Panels) != 1 || len(s.Figures(false)) != 1 || !strings.Contains(f.Alt, "heal: Fog 80.0, JPEG compression "+
		"80.0, Mean 80.0.") {
		t.Errorf("%d panels: %s", len(f.Panels), f.Alt)
	}
	if f := fullCorruptions(derive(fixture()).Suites[0]); f.Panels != nil {
		t.Error("a figure of no corruptions")
	}
}

// Where a cell is missing or has failed, no mean is given, as it would be of other corruptions.
func TestNoMeanOfSome(t *testing.T) {
	f := corruptedFile()
	f.Cells[3].Error, f.Cells[3].Verdicts = "no verdicts", ""
	s := derive(f).Suites[0]
	if c := s.Cell("m", "none", s.Columns[1]); c != nil {
		t.Errorf("a mean of %v", c.Accuracy)
	}
	if c := s.Cell("m", "heal", s.Columns[1]); c == nil {
		t.Error("the control has no mean")
	}
}

func markdown(t *testing.T, v *view) string {
	t.Helper()
	var sb strings.Builder
	if err := markdownForm.render(&sb, v); err != nil {
		t.Fatal(err)
	}
	return sb.String()
}
