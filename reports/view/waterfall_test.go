package view

import (
	"fmt"
	"slices"
	"testing"

	"selfheal/harness/result"
)

// whole is what charts show: components, and of each defense the accuracy in % on clean images and after each.
func whole(charts []Waterfall) (out []string) {
	for _, w := range charts {
		out = append(out, fmt.Sprint(w.Components))
		for _, l := range w.Lines {
			line := l.Defense
			for i := range l.Left {
				line += " " + l.Value(i)
			}
			out = append(out, line)
		}
	}
	return out
}

func TestWaterfalls(t *testing.T) {
	attacked := func(defense string, left ...float64) result.Cell {
		c := under(defense, "aa", 8, 2)
		for i, robust := range left {
			name := []string{"apgd-ce", "fab-t", "my\nown", "apgd-ce"}[i]
			c.Steps = append(c.Steps, result.Step{Attack: name, Robust: robust})
		}
		return c
	}
	clean := []result.Cell{under("none", "none", 0, 4), under("c", "none", 0, 3)}
	for _, c := range []struct {
		name  string
		cells []result.Cell
		want  []string
	}{
		{"white-box", []result.Cell{attacked("none", 0.75, 0.5, 0.5, 0.25), attacked("c", 0.5, 0)}, []string{
			"[APGD-CE FAB-T my own APGD-CE 2]", "none 100.0 75.0 50.0 50.0 25.0", "c 75.0 50.0 0.0 – –"}},
		{"oblivious", []result.Cell{attacked("none", 0.75, 0.5), attacked("c")},
			[]string{"[APGD-CE FAB-T]", "none 100.0 75.0 50.0"}},
		{"one component", []result.Cell{attacked("none", 0.5), attacked("c", 0.5)}, nil},
	} {
		if got := whole(Of(of(append(clean, c.cells...)...)).Suites[0].Waterfalls()); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	var many []result.Cell
	for i := range mostWaterfalls + 1 {
		one := attacked("none", 0.75, 0.5)
		one.Attack = fmt.Sprint("aa", i)
		many = append(many, one)
	}
	if got := Of(of(many...)).Suites[0].Waterfalls(); got != nil {
		t.Errorf("%d charts are drawn", len(got))
	}
}
