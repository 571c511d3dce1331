package figure

import (
	"fmt"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/reports/view"
)

func TestGreyTicks(t *testing.T) {
	for _, c := range []struct {
		end  float64
		most int
		want string
	}{
		{8. / 255, 4, "0 2/255 4/255 6/255 8/255"}, {8. / 255, 3, "0 4/255 8/255"}, {1. / 255, 5, "0 1/255"},
		{8. / 255, 0, "0 8/255"}, {0.3, 6, ""},
	} {
		points := []view.Point{{Accuracy: 1}, {Epsilon: c.end, Accuracy: 0.5}}
		panel := view.Curves{Lines: []view.Curve{{Points: points}}}
		var got []string
		for _, tick := range greyTicks(panel, c.most) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("up to %v in %d steps: %v, want %s", c.end, c.most, got, c.want)
		}
	}
}

// The methods of a solver study have colours of their own.
func TestMethodLooks(t *testing.T) {
	seen := map[int]string{}
	for method, look := range methodLooks {
		if other, taken := seen[look.colour]; taken {
			t.Errorf("%s and %s have one colour", method, other)
		}
		seen[look.colour] = method
	}
}

// A chart gives the accuracy on clean images and after each component, for each defense that was attacked on its own.
func TestWaterfalls(t *testing.T) {
	cell := func(defense, attack string, right float64, left ...float64) result.Cell {
		c := result.Cell{ID: cell.Of("s", "m", defense, attack, 0), N: 4, Accuracy: right}
		for i, robust := range left {
			name := []string{"apgd-ce", "fab-t", "my\nown", "apgd-ce"}[i]
			c.Steps = append(c.Steps, result.Step{Attack: name, Robust: robust})
		}
		return c
	}
	said := func(cells ...result.Cell) string {
		sheet := figures[result.WaterfallFigure].file(view.Of(&result.File{Cells: cells}).Suites[0])
		_, values, _ := strings.Cut(sheet.Alt, ").")
		return values
	}
	clean, controlled := cell("none", "none", 1), cell("c", "none", 0.75)
	for name, c := range map[string][2]string{
		"white-box": {said(clean, controlled, cell("none", "aa", 0.5, 0.75, 0.5, 0.5, 0.25),
			cell("c", "aa", 0.5, 0.5, 0)),
			" m, undefended, aa: Clean 100.0, APGD-CE 75.0, FAB-T 50.0, my own 50.0, APGD-CE 2 25.0." +
				" m, c, aa: Clean 75.0, APGD-CE 50.0, FAB-T 0.0, my own –, APGD-CE 2 –."},
		"oblivious": {said(clean, controlled, cell("none", "aa", 0.5, 0.75, 0.5), cell("c", "aa", 0.5)),
			" m, undefended, aa: Clean 100.0, APGD-CE 75.0, FAB-T 50.0."},
		"one component": {said(clean, cell("none", "aa", 0.5, 0.5)), ""},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %q, want %q", name, c[0], c[1])
		}
	}
	var many []result.Cell
	for i := range mostWaterfalls + 1 {
		many = append(many, cell("none", fmt.Sprint("aa", i), 0.5, 0.75, 0.5))
	}
	if got := said(many...); got != "" {
		t.Errorf("too many charts are drawn: %s", got)
	}
}
