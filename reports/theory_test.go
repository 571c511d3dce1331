package reports

import (
	"path/filepath"
	"testing"

	"selfheal/control/theory"
	"selfheal/internal/must"
	"selfheal/reports/figure/chart"
)

func writeTheory(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made")
	must.Do(t, WriteTheory(outputs(dir), theoryFixture()))
	return folder(t, dir)
}

func TestTheoryGolden(t *testing.T) {
	t.Parallel()
	files := writeTheory(t)
	again := writeTheory(t)
	for name, content := range files {
		if again[name] != content {
			t.Errorf("%s differs between two runs", name)
		}
	}
	if len(files) != 3+2*3 {
		t.Errorf("%d files", len(files))
	}
	for _, name := range []string{"theory.md", "theory.html", "theory.json"} {
		golden(t, name, files[name])
	}
	fetchesNothing(t, files["theory.html"])
	if err := WriteTheory(outputs(t.TempDir()), nil); err == nil {
		t.Error("no error without a theory")
	}
}

// theoryFixture has every kind of panel, a check that fails, and names that formats must escape.
func theoryFixture() *Theory {
	field := &theory.Field{N: 3, Values: []float64{0, 0, 1, 0, 1, 1, 1, 1, 1}}
	loss := &theory.Field{N: 2, Values: []float64{0, 1, 2, 4}}
	box := [4]float64{-1, -1, 1, 1}
	marks, line := chart.Marked("measured", 1, 0), chart.Lined("bound <b>", chart.Ink, 1)
	flat := chart.Lined("flat", 2, 0)
	marks.X, marks.Y = []float64{1, 2, 3}, []float64{0.1, 0.01, 1e-7}
	marks.Low, marks.High = []float64{0.05, 0.005, 5e-8}, []float64{0.2, 0.02, 2e-7}
	line.X, line.Y = []float64{1, 3}, []float64{0.2, 1e-6}
	flat.X, flat.Y = []float64{-2, 0, 2}, []float64{-5, 5, -5}
	return &Theory{version: "test",
		Result: &theory.Result{Seed: 7, Quick: true, Checks: []theory.Check{
			{Part: "first part", Name: "bound", Claim: "a ≤ b | c", Relation: "≤",
				Measured: 0.123456789, Expected: 1, Tolerance: 1e-9, Pass: true},
			{Part: "first part", Name: "equality", Claim: "a = <b>", Relation: "=",
				Measured: -2e-12, Expected: 0, Tolerance: 0, Pass: true},
			{Part: "second part", Name: "broken", Claim: "it holds", Relation: "≥",
				Measured: 1, Expected: 2, Tolerance: 0.5, Pass: false},
		}},
		Figures: []chart.Figure{
			{Slug: "plane", Title: "The plane", Caption: "Two panels.", Columns: 2, Panels: []chart.Plot{
				{Title: "(a) Classes", Square: true, Box: box, Field: field, Classes: map[float64]int{0: 0, 1: 1},
					Series: []chart.Series{flat}, Texts: []chart.Text{{X: 0, Y: 0.5, Text: "A"}}},
				{Title: "(b) Loss", Square: true, Box: box, Field: loss},
			}},
			{Slug: "axes", Title: "Axes", Caption: "Three panels.", Columns: 2, Panels: []chart.Plot{
				{Title: "Logarithmic", X: "t", Y: "error", LogY: true, Series: []chart.Series{marks, line}},
				{Title: "Linear", X: "s", Y: "value", Series: []chart.Series{flat}},
				{Title: "Nothing", X: "x", Y: "y", LogX: true, LogY: true},
			}},
		}}
}
