package view

import (
	"slices"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
)

// The curve of a patch has the clean images at 0 and a cell for each side; there is no curve for a single side.
func TestVariantCurves(t *testing.T) {
	f := &result.File{Attacks: map[string]result.Attack{"p": {Kind: "patch", Recipe: "patch/1",
		Parameters: result.Parameters{"side": []any{6., 2.}}}, "one": {Kind: "patch", Recipe: "patch/1",
		Parameters: result.Parameters{"side": []any{3.}}}},
		Suites: []result.Suite{{Name: "s", Models: []string{"m"}, Attacks: []string{"p", "one"}}}}
	for attack, accuracy := range map[string]float64{"none": 0.9, "p:6": 0.1, "p:2": 0.5, "one:3": 0.3} {
		f.Cells = append(f.Cells, result.Cell{ID: cell.Of("s", "m", "none", attack, 0), N: 10, Accuracy: accuracy})
	}
	all := VariantCurves(Of(f).Suites[0])
	if len(all) != 1 || len(all[0].Lines) != 1 ||
		!slices.Equal(all[0].Lines[0].Points, []Point{{0, 0.9}, {2, 0.5}, {6, 0.1}}) {
		t.Errorf("%+v", all)
	}
}

// An attack whose queries are counted leaves fewer images with each success, the rest at its last query.
func TestAskedOf(t *testing.T) {
	small, large, norm := 0.1, 0.2, "linf"
	f := &result.File{Attacks: map[string]result.Attack{
		"square": {Kind: "square", Recipe: "square/1", Norm: &norm, Epsilons: []float64{small},
			Parameters: result.Parameters{"queries": 50.}},
		"rays": {Kind: "rays", Recipe: "rays/1", Norm: &norm, Epsilons: []float64{small, large},
			Parameters: result.Parameters{"queries": 40}},
		"pgd": {Kind: "pgd", Recipe: "pgd/1", Norm: &norm, Epsilons: []float64{small}}},
		Suites: []result.Suite{{Name: "s", Models: []string{"m"}, Attacks: []string{"square", "rays", "pgd"}}}}
	var records []result.Record
	for _, c := range []struct {
		attack  string
		epsilon float64
		queries []int
	}{{"square", small, []int{30, 1}}, {"rays", small, []int{12}}, {"rays", large, []int{7, 9, 20}},
		{"pgd", small, []int{2}}} {
		right := 4 - len(c.queries)
		f.Cells = append(f.Cells, result.Cell{ID: cell.Of("s", "m", "none", c.attack, cell.Epsilon(c.epsilon)),
			Norm: &norm, N: 5, Correct: right, Accuracy: float64(right) / 5, Steps: []result.Step{{Attack: c.attack}}})
		for i := range 5 {
			r := result.Record{ID: cell.Of("s", "m", "none", c.attack, cell.Epsilon(c.epsilon)), Image: i}
			if i < len(c.queries) {
				r.Queries, r.FirstSuccess = &c.queries[i], new(1)
			} else if i < 4 {
				r.Verdict = 1
			}
			records = append(records, r)
		}
	}
	v := Of(f)
	v.AddMargins(slices.Values(records))
	all := AskedOf(v.Suites[0])
	if len(all) != 1 || len(all[0].Lines) != 3 {
		t.Fatalf("%+v", all)
	}
	for i, want := range [][]Point{{{0, 0.8}, {1, 0.6}, {30, 0.4}, {50, 0.4}},
		{{0, 0.8}, {12, 0.6}, {40, 0.6}}, {{0, 0.8}, {7, 0.6}, {9, 0.4}, {20, 0.2}, {40, 0.2}}} {
		if got := all[0].Lines[i].Steps; !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", all[0].Lines[i].Attack.Attack, got, want)
		}
	}
}
