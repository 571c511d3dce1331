package gate

import (
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// twoNets returns results of two models, the second with other verdicts, in two suites of which one transfers.
func twoNets() *result.File {
	f := file(0, same(30, 40)...)
	f.Models["other"] = result.Model{SHA256: strings.Repeat("d", 64), Output: "logits"}
	for _, c := range f.Cells[:3] {
		c.Model = "other"
		f.Cells = append(f.Cells, c.Judged(verdictsOf(20, 40)))
	}
	for _, pair := range [][2]string{{"net", "other"}, {"other", "net"}, {"other", "other"}} {
		c := f.Cells[2]
		c.Suite, c.Mode, c.Model, c.Source = "gift", result.Transfer, pair[0], pair[1]
		f.Cells = append(f.Cells, c)
	}
	return f
}

// The part of a baseline about a model has its cells, and in a suite of the mode transfer all, and the minimums that
// name one of them. Its answers say the lowest accuracy under attack of each control.
func TestPartOfBaseline(t *testing.T) {
	f := twoNets()
	base, rules := mustBaseline(t, f), config.DefaultGate()
	rules.Min["net/none/none"], rules.Min["other/none/none"] = 0.1, 0.1
	part, its, err := base.Part(f, rules, "other")
	must.Do(t, err)
	if len(part.Cells) != 6 || len(its.Min) != 1 || its.Min["other/none/none"] == 0 || len(rules.Min) != 2 {
		t.Errorf("%d cells, minimums %v of %v", len(part.Cells), its.Min, rules.Min)
	}
	now := twoNets()
	now.Cells = now.Cells[6:]
	for i := range now.Cells {
		if c := now.Cells[i]; c.Model == "other" && c.Attack == "aa" && c.Suite == "main" {
			now.Cells[i] = c.Judged(verdictsOf(5, 40))
		}
	}
	r := must.Get(Compare(t.Context(), part, now, its))(t)
	lines := r.Answers("other")
	if r.Outcome != Fail || len(lines) != 2 || !strings.HasPrefix(lines[0],
		"other/none/aa@8/255: robust accuracy 50.0 → 12.5 %, change -37.5 points [") || len(r.Answers("net")) != 1 {
		t.Errorf("%s: %q", r.Outcome, lines)
	}
	_, _, err = base.Part(f, rules, "absent")
	must.Refuse(t, err, "the baseline has no model absent")
}

// A renamed model is known by its file and settings, in sources too, unless two new ones have these.
func TestRenamedModel(t *testing.T) {
	f, base := twoNets(), mustBaseline(t, twoNets())
	rename(f, "model", "other", "fresh")
	delete(f.Models, "other")
	for i := range f.Cells {
		if f.Cells[i].Source == "other" {
			f.Cells[i].Source = "fresh"
		}
	}
	r := must.Get(Compare(t.Context(), base, f, config.DefaultGate()))(t)
	if r.Outcome != Pass || !strings.Contains(strings.Join(r.Notes, "\n"), "same file: other is now fresh") {
		t.Errorf("%s: %v", r.Outcome, r.Notes)
	}
	twin := f.Cells[6]
	twin.Model, f.Models["twin"] = "twin", f.Models["fresh"]
	f.Cells = append(f.Cells, twin)
	_, err := Compare(t.Context(), base, f, config.DefaultGate())
	must.Refuse(t, err, "which the baseline has")
}
