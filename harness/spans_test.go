package harness_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// One search for the smallest norm fills the columns of all epsilons with the results of runs with one epsilon each.
// The area under the curve is the mean distance, and ℓ0 counts pixels as well as values.
func TestOneSearchFillsAllColumns(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		attack   string
		epsilons []float64
	}{
		{"{kind: fmn, norm: l2, steps: 20, epsilon: %v}", []float64{0.1, 0.3, 2}},
		{"{kind: sigma-zero, norm: l0, steps: 60, epsilon: %v}", []float64{3, 40, 500}},
		{"{kind: rays, norm: linf, queries: 60, epsilon: %v}", []float64{0.02, 0.3}},
	} {
		t.Run(c.attack, func(t *testing.T) {
			run := func(epsilons string) (*result.File, map[float64][]result.Record) {
				p := testplan.Plan(t, testplan.Small, 2, 4, "suites.small.attacks=[fab-l2]",
					"suites.small.controls=[pca]", "attacks.fab-l2="+fmt.Sprintf(c.attack, epsilons))
				file, records, _ := runFor(t, p)
				by := map[float64][]result.Record{}
				for _, r := range records {
					if r.Attack != "none" && r.Defense == "none" {
						by[float64(r.Epsilon)] = append(by[float64(r.Epsilon)], r)
					}
				}
				return file, by
			}
			text := ""
			for _, e := range c.epsilons {
				text += fmt.Sprintf(", %v", e)
			}
			all, records := run("[" + text[2:] + "]")
			largest := c.epsilons[len(c.epsilons)-1]
			var passes []int64
			for _, e := range c.epsilons {
				one, alone := run(fmt.Sprint(e))
				cell, single := cellAt(t, all, e), cellAt(t, one, e)
				if cell.Verdicts != single.Verdicts || cell.Accuracy != single.Accuracy {
					t.Errorf("%v: verdicts %s, alone %s", e, cell.Verdicts, single.Verdicts)
				}
				if cell.Steps[0].Robust != cell.Accuracy {
					t.Errorf("%v: a step to %v, the accuracy is %v", e, cell.Steps[0].Robust, cell.Accuracy)
				}
				passes = append(passes, cell.Steps[0].Forward)
				sum := 0.0
				for i, r := range records[e] {
					if want := alone[e][i]; !reflect.DeepEqual(r.FirstSuccess, want.FirstSuccess) ||
						!reflect.DeepEqual(r.Queries, want.Queries) {
						t.Errorf("%v, image %d: found after other iterations or queries than alone", e, r.Image)
					}
					switch d := r.Distance; {
					case cellAt(t, all, 0).Verdicts[i] == '0':
						if d == nil || *d != 0 {
							t.Errorf("image %d, wrong without attack, has distance %v", r.Image, d)
						}
					case d == nil:
						t.Errorf("image %d has no distance", r.Image)
					default:
						sum += math.Min(float64(*d), largest)
						if broken := float64(*d) <= e; broken != (r.Verdict == 0) {
							t.Errorf("%v: image %d has distance %v and verdict %d", e, r.Image, *d, r.Verdict)
						}
					}
					if counts := r.Pixels != nil; counts != (*cell.Norm == "l0") || counts && (*r.Pixels >
						int(r.Norm) || (*r.Pixels == 0) != (r.Norm == 0) || 3**r.Pixels < int(r.Norm)) {
						t.Errorf("image %d: %v changed values, pixels %v", r.Image, r.Norm, r.Pixels)
					}
				}
				if cell.Area == nil || math.Abs(*cell.Area-sum/float64(cell.N)) > 1e-9 {
					t.Errorf("%v: an area of %v, the mean distance is %v", e, cell.Area, sum/float64(cell.N))
				}
			}
			for _, n := range passes {
				if n != passes[0] {
					t.Errorf("%v passes: one search was made for each", passes)
				}
			}
		})
	}
}

// cellAt returns the undefended network's cell at an epsilon, 0 for the clean images.
func cellAt(t *testing.T, f *result.File, epsilon float64) result.Cell {
	t.Helper()
	for _, c := range f.Cells {
		if c.Defense == "none" && float64(c.Epsilon) == epsilon {
			return c
		}
	}
	t.Fatalf("no cell at %v", epsilon)
	return result.Cell{}
}
