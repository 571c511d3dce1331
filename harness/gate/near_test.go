package gate

import (
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/internal/must"
)

// Images within rounding, in the baseline or in the results, cannot fail a check by themselves, by a drop or by a
// min. As many others can.
func TestRoundingAloneFailsNothing(t *testing.T) {
	t.Parallel()
	rules := config.DefaultGate()
	rules.MaxDrop = 0
	rules.Min = map[string]float64{"none/pgd": 0.5}
	for _, c := range []struct {
		name          string
		before, after []int // indices of images within rounding in the cell under pgd
		want          Outcome
		turned        int
	}{
		{"others", nil, nil, Fail, 0},
		{"near in the results", nil, []int{43, 44, 45, 46, 47, 48, 49}, Pass, 7},
		{"some are near", nil, []int{43, 44}, Inconclusive, 2},
	} {
		before, after := same(50, 100), same(50, 100)
		after[4] = verdictsOf(43, 100)
		was, is := file(0, before...), file(0, after...)
		was.Cells[4].Near, is.Cells[4].Near = c.before, c.after
		r := must.Get(Compare(t.Context(), must.Get(NewBaseline(was, config.DefaultGate()))(t), is, rules))(t)
		if got := r.Cells[4].Change; r.Outcome != c.want || got.Turned != c.turned || got.Lost != 7-c.turned {
			t.Errorf("%s: %s (%s), turned %d, lost %d", c.name, r.Outcome, r.Summary, got.Turned, got.Lost)
		}
	}
	was, is := file(0, same(50, 100)...), file(0, same(50, 100)...)
	was.Cells[4].Near = []int{3}
	is.Cells[4].Verdicts = strings.Replace(is.Cells[4].Verdicts, "1111", "1110", 1)
	is.Cells[4].Correct--
	base := must.Get(NewBaseline(was, config.DefaultGate()))(t)
	rules.Min = nil
	if r := must.Get(Compare(t.Context(), base, is, rules))(t); r.Outcome != Pass || !r.Cells[4].Change.Unchanged {
		t.Errorf("near in the baseline: %s", r.Summary)
	}
	is.Cells[4].Near = []int{7, 3}
	_, err := Compare(t.Context(), base, is, rules)
	if err == nil || !strings.Contains(err.Error(), "no list of places") {
		t.Errorf("places out of order: %v", err)
	}
}

// A baseline must name cells whose accuracy failed gradients hold up.
func TestFailedGradientsAreNamed(t *testing.T) {
	t.Parallel()
	f := file(0, same(50, 100)...)
	f.Cells[4].GradientFailures = 12
	rules := config.DefaultGate()
	_, err := NewBaseline(f, rules)
	if err == nil || !strings.Contains(err.Error(), "gradients failed on 12 of the 50 images that stand") {
		t.Fatalf("a baseline is made: %v", err)
	}
	must.Do(t, rules.Set("gate.gradient_failures=[pgd]"))
	must.Get(NewBaseline(f, rules))(t)
	must.Do(t, rules.Set("gate.gradient_failures=[heal/aa]"))
	if _, err := NewBaseline(f, rules); err == nil {
		t.Error("another cell is named")
	}
}
