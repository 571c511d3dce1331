package reports

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
)

// A cell with an error has no accuracy; a footnote says why, and nothing is called unfinished.
func TestFailedCells(t *testing.T) {
	t.Parallel()
	written := func(f *result.File) string {
		var text bytes.Buffer
		if err := markdownForm.render(&text, derive(f)); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	f := fixture()
	partial := strings.Count(written(f), "Partial")
	for i := range f.Cells {
		if c := &f.Cells[i]; c.Epsilon != nil && c.Defense == "none" {
			*c = result.Cell{Suite: c.Suite, Dataset: c.Dataset, Model: c.Model, Defense: c.Defense, Mode: c.Mode,
				Attack: c.Attack, Norm: c.Norm, Epsilon: c.Epsilon, N: c.N, Error: "its logits are not finite"}
			break
		}
	}
	text := written(f)
	if strings.Count(text, "error: its logits are not finite") != 1 || strings.Count(text, "Partial") != partial {
		t.Errorf("the text, with %d parts called partial before:\n%.3000s", partial, text)
	}
}

// An attack that has not begun is headed as one that has: its strengths are known.
func TestAttackThatHasNotBegun(t *testing.T) {
	t.Parallel()
	f := fixture()
	heads := func() (out []string) {
		for _, s := range derive(f).Suites {
			if s.Name == "real" {
				out = s.heads()
			}
		}
		return out
	}
	want := heads()
	norm := "l2"
	f.Attacks = map[string]result.Attack{"aa-l2": {Title: "AutoAttack", Recipe: "autoattack-standard/1", Norm: &norm,
		Epsilons: []float64{0.5}}}
	f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool { return c.Suite == "real" && c.Attack == "aa-l2" })
	if got := heads(); !slices.Equal(got, want) || len(got) != 4 {
		t.Errorf("columns %q, with its cells %q", got, want)
	}
}
