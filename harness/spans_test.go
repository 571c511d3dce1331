package harness_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// One search for the smallest norm fills the columns of all epsilons with the results of attacks with one epsilon each.
// The area under the curve is the mean distance, and ℓ0 counts pixels as well as values.
func TestOneSearchFillsAllColumns(t *testing.T) {
	testinput.Runtime(t)
	searches := []struct {
		attack   string
		epsilons []float64
	}{
		{"kind: fmn, norm: l2, steps: 20", []float64{0.1, 0.3, 2}},
		{"kind: sigma-zero, norm: l0, steps: 60", []float64{3, 40, 500}},
		{"kind: rays, norm: linf, queries: 60", []float64{0.02, 0.3}},
	}
	text, names := "", []string{}
	add := func(name, attack string, epsilons any) {
		list := strings.ReplaceAll(fmt.Sprint(epsilons), " ", ", ")
		text += fmt.Sprintf("  %s: {%s, epsilon: %s}\n", name, attack, list)
		names = append(names, name)
	}
	for i, s := range searches {
		add(fmt.Sprint("all", i), s.attack, s.epsilons)
		for k, e := range s.epsilons {
			add(fmt.Sprintf("alone%d-%d", i, k), s.attack, e)
		}
	}
	file, all, _ := runFor(t, testplan.Plan(t, testplan.Bundled+"attacks:\n"+text+
		"suites: {s: {dataset: test, models: [robust], attacks: ["+strings.Join(names, ", ")+"]}}\n", 2, 4))
	cells, records := map[cell.Column]result.Cell{}, map[cell.Column][]result.Record{}
	for _, c := range file.Cells {
		cells[c.Column] = c
	}
	for _, r := range all {
		records[r.Column] = append(records[r.Column], r)
	}
	clean := file.Cells[0]
	for i, s := range searches {
		passes := map[int64]bool{}
		for k, e := range s.epsilons {
			together := cell.Column{Attack: fmt.Sprint("all", i), Epsilon: cell.Epsilon(e)}
			alone := cell.Column{Attack: fmt.Sprintf("alone%d-%d", i, k), Epsilon: cell.Epsilon(e)}
			c, single := cells[together], cells[alone]
			if c.Verdicts != single.Verdicts || c.Accuracy != single.Accuracy || len(c.Steps) != 1 ||
				c.Steps[0].Robust != c.Accuracy {
				t.Fatalf("%s at %v: %+v, alone %+v", s.attack, e, c, single)
			}
			passes[c.Steps[0].Forward] = true
			sum := 0.0
			for n, r := range records[together] {
				if want := records[alone][n]; !reflect.DeepEqual(r.FirstSuccess, want.FirstSuccess) ||
					!reflect.DeepEqual(r.Queries, want.Queries) {
					t.Errorf("%v, image %d: found after other iterations or queries than alone", e, r.Image)
				}
				if r.Distance == nil {
					t.Errorf("image %d has no distance", r.Image)
					continue
				}
				d, wrong := float64(*r.Distance), clean.Verdicts[n] == '0'
				if wrong != (d == 0) || !wrong && (d <= e) != (r.Verdict == 0) {
					t.Errorf("%v: image %d has distance %v and verdict %d", e, r.Image, d, r.Verdict)
				}
				sum += math.Min(d, s.epsilons[len(s.epsilons)-1])
				if counts := r.Pixels != nil; counts != (*c.Norm == "l0") || counts && (*r.Pixels > int(r.Norm) ||
					(*r.Pixels == 0) != (r.Norm == 0) || 3**r.Pixels < int(r.Norm)) {
					t.Errorf("image %d: %v changed values, pixels %v", r.Image, r.Norm, r.Pixels)
				}
			}
			if c.Area == nil || math.Abs(*c.Area-sum/float64(c.N)) > 1e-9 {
				t.Errorf("%v: an area of %v, the mean distance is %v", e, c.Area, sum/float64(c.N))
			}
		}
		if len(passes) != 1 {
			t.Errorf("%s: passes %v: one search was made for each", s.attack, passes)
		}
	}
}
