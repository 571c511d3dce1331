package view

import (
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/reports/words"
)

// of makes a file with one suite: model m alone and under control c, with the given cells; attacks' names come from the
// cells.
func of(cells ...result.Cell) *result.File {
	f := &result.File{Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: result.Oblivious, Models: []string{"m"},
		Controls: []string{"c"}}}}
	for _, c := range cells {
		c.Suite, c.Dataset, c.Model, c.Mode = "s", "d", "m", result.Oblivious
		f.Cells = append(f.Cells, c)
	}
	return f
}

// under makes a cell of four images, right of them right, under an attack of strength epsilon in 1/255.
func under(defense, attack string, epsilon float64, right int) result.Cell {
	c := result.Cell{ID: cell.Of("", "", defense, attack, 0)}.Judged("1111"[:right] + "0000"[right:])
	if epsilon > 0 {
		c.Norm, c.Epsilon = new("linf"), cell.Epsilon(epsilon/255)
	}
	return c
}

// A cell with an error has no accuracy. A note gives the error, and nothing is called unfinished.
func TestFailedCells(t *testing.T) {
	failed := under("none", "pgd", 8, 0)
	failed.Error, failed.Verdicts = "its logits are not finite", ""
	s := Of(of(under("none", "none", 0, 4), under("c", "none", 0, 4), failed, under("c", "pgd", 8, 2))).Suites[0]
	if len(s.Notes) != 1 || s.Notes[0].Said[0].Message != failed.Error || s.Missing() != 0 {
		t.Errorf("%d cells are missing, notes %v", s.Missing(), s.Notes)
	}
	if s.Cell("m", "none", s.Columns[1]) != nil {
		t.Error("the cell has an accuracy")
	}
}

// An attack that has not begun has the same heading as one that has: its strengths are known.
func TestAttackThatHasNotBegun(t *testing.T) {
	f := of(under("none", "none", 0, 4))
	f.Suites[0].Attacks = []string{"aa"}
	f.Attacks = map[string]result.Attack{"aa": {Title: "AutoAttack", Recipe: "autoattack-standard/1", Norm: new("l2"),
		Epsilons: []float64{0.5}}}
	if got := Of(f).Suites[0].Heads(); !slices.Equal(got, []string{"Clean", "AA ℓ2 (0.5)"}) {
		t.Errorf("columns %q", got)
	}
}

// The lowest accuracy is one under an attack if the suite has attacks, otherwise under corruptions.
func TestLowestUnderCorruption(t *testing.T) {
	s := Of(of(under("none", "none", 0, 4), under("none", "pgd", 2, 2), under("none", "square", 2, 1))).Suites[0]
	s.Sets = []*Apart{{Attack: "square", Of: result.Attack{Kind: "corruption"}}}
	if _, low := s.Lowest(s.Rows()[0].Sides[0]); low.Title() != "pgd ℓ∞ (2/255)" {
		t.Errorf("the lowest is under %v", low)
	}
	s.Sets = append(s.Sets, &Apart{Attack: "pgd", Of: result.Attack{Kind: "corruption"}})
	if _, low := s.Lowest(s.Rows()[0].Sides[0]); low.Title() != "square ℓ∞ (2/255)" {
		t.Errorf("without attacks the lowest is under %v", low)
	}
}

// If a corruption's cell is missing or has failed, there is no mean, because it would average other corruptions.
func TestNoMeanOfSome(t *testing.T) {
	f := of(under("none", "fog:fog:1", 0, 2), under("none", "fog:fog:2", 0, 0), under("c", "fog:fog:1", 0, 4),
		under("c", "fog:fog:2", 0, 3))
	f.Attacks = map[string]result.Attack{"fog": {Kind: "corruption", Parameters: result.Parameters{
		"names": []any{"fog"}, "severities": []any{1., 2.}}}}
	f.Cells[1].Error = "no verdicts"
	s := Of(f).Suites[0]
	if c := s.Cell("m", "none", s.Columns[1]); c != nil {
		t.Errorf("a mean of %v", c.Accuracy)
	}
	if c := s.Cell("m", "c", s.Columns[1]); c == nil || c.Accuracy != 0.875 {
		t.Error("the control has no mean")
	}
}

// Bars of several seeds end in the mean ± the deviation, those of one seed in the cell's interval.
func TestWhiskers(t *testing.T) {
	scored := func(accuracies ...float64) *result.Cell {
		c := under("none", "pgd", 2, 2)
		c.CI95 = [2]float64{0.1, 0.9}
		for _, a := range accuracies {
			c.Seeds = append(c.Seeds, result.SeedScore{Accuracy: a, Verdicts: "0000"})
		}
		return &c
	}
	several, one := Of(of(*scored(0, 1))).Suites[0], Of(of(*scored())).Suites[0]
	for _, c := range []struct {
		s         *Suite
		cell      *result.Cell
		low, high float64
		ok        bool
	}{
		{several, scored(0.5, 0.2, 0.1), 0.0585, 0.4749, true}, // 0.267 ± 0.208
		{several, scored(0, 0, 1), 0, 0.9107, true},            // 0.333 ± 0.577, clipped
		{several, scored(), 0, 0, false},                       // clean images, which have no seed
		{one, scored(), 0.1, 0.9, true},
	} {
		low, high, ok := c.s.Whiskers(c.cell)
		if ok != c.ok || math.Abs(low-c.low)+math.Abs(high-c.high) > 1e-3 {
			t.Errorf("%v: [%v, %v], %v", c.cell.Seeds, low, high, ok)
		}
	}
}

func TestShownSweeps(t *testing.T) {
	for n, want := range map[int]string{0: "[]", 1: "[1]", 3: "[1 2 3]", 5: "[1 2 3 4 5]", 6: "[1 2 3 4 6]",
		30: "[1 8 15 22 30]"} {
		if got := fmt.Sprint(ShownSweeps(n)); got != want {
			t.Errorf("%d sweeps: %s, want %s", n, got, want)
		}
	}
}

// A number printed to a hundredth of a point is in the interval when it may be.
func TestIntervalOfRounded(t *testing.T) {
	cell := &result.Cell{N: 100, Accuracy: 0.5, CI95: [2]float64{0.40384, 0.59616}}
	for number, want := range map[float64]int{0.4037: -1, 0.4038: 0, 0.5: 0, 0.5962: 0, 0.5963: 1} {
		if got := (Compared{Cell: cell, Published: &number}).Side(); got != want {
			t.Errorf("%v: %d, want %d", number, got, want)
		}
	}
	none := &result.Cell{N: 3, CI95: [2]float64{1e-18, 0.6}}
	if zero := 0.0; (Compared{Cell: none, Published: &zero}).Side() != 0 {
		t.Error("0 is not in an interval from 0")
	}
	if unknown := (Compared{Cell: &result.Cell{N: 3}, Published: new(float64)}); unknown.Judged() ||
		unknown.Verdict() != words.Dash {
		t.Error("a cell without an interval is judged")
	}
}

// The paper's radar plots have whole networks, named with their training.
func TestPaperRadars(t *testing.T) {
	var names [][]string
	for _, s := range Paper().Drawn() {
		names = append(names, s.Models)
		for _, m := range s.Models {
			for _, one := range s.Series(m) {
				if slices.Contains(one.Cells, nil) || len(one.Cells) != 4 {
					t.Errorf("%s, %s: not whole", m, one.Defense)
				}
			}
		}
	}
	if got := fmt.Sprint(names); got != "[[RN-18, standard RN-18, robust] [WRN-76-10, robust] [EfficientNet-b0, "+
		"standard]]" {
		t.Errorf("networks %s", got)
	}
}

func TestShellCommand(t *testing.T) {
	if got := shellCommand([]string{"selfheal", "run", "--set", "attacks.aa.epsilon=4/255"}); got != "selfheal run "+
		"--set attacks.aa.epsilon=4/255" {
		t.Errorf("command %s", got)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	args := []string{"a b", "it's", `"$HOME"`, "`id`", "*", "", "ε", "-", "tab\there", "esc\x1b[31m;'\\", "new\nline",
		"right\u202eleft", "a;b&c|d"}
	command := shellCommand(args)
	for _, r := range command {
		if r < ' ' || r == '\u202e' {
			t.Errorf("the command holds %q", r)
		}
	}
	out := must.Get(exec.Command(sh, "-c", "printf '%s\\0' "+command).Output())(t)
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, args) {
		t.Errorf("a shell reads %q, want %q", got, args)
	}
}

// A run's last lines say on how many images gradients failed, beside the number.
func TestLastLineSaysAtMost(t *testing.T) {
	failed := under("none", "pgd", 8, 3)
	failed.GradientFailures = 2
	lines := Of(of(under("none", "none", 0, 4), under("c", "none", 0, 4), failed, under("c", "pgd", 8, 2))).Answers()
	want := []string{"robust accuracy at most 75.0 % [30.1, 95.4] under pgd, ℓ∞ 8/255, 4 " +
		"images: gradients failed on 2 of 3 standing images",
		"robust accuracy 50.0 % [15.0, 85.0] with c under pgd, ℓ∞ 8/255, 4 images, oblivious, " +
			"which bounds no attacker who knows the control"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	if got := words.Accuracy(&failed); got != "≤"+words.Nbsp+"75.0" {
		t.Errorf("tables have %q", got)
	}
}

// In a suite of two modes each control has a row for each mode. Both rows show the same accuracy on images that no
// attacker made. A run ends with a line for each mode.
func TestSidesOfSeveralModes(t *testing.T) {
	through := under("c", "pgd", 8, 1)
	f := of(under("none", "none", 0, 4), under("c", "none", 0, 3), under("none", "pgd", 8, 0), under("c", "pgd", 8, 2),
		through)
	f.Cells[4].Mode = result.WhiteboxThrough
	f.Suites[0].Modes = []string{result.Oblivious, result.WhiteboxThrough}
	f.Suites[0].Published = &result.Published{Mode: "whitebox", Cells: []result.PublishedCell{{
		Row: cell.Row{Model: "m", Defense: "c"}, Accuracy: 0.5, Column: cell.Column{Attack: "pgd", Epsilon: 8. / 255}}}}
	f.Attacks = map[string]result.Attack{"pgd": {Kind: "pgd"}}
	v := Of(f)
	s := v.Suites[0]
	sides := []string{"c, oblivious", "c, whitebox-through"}
	if !slices.Equal(s.Controls, sides) || s.Missing() != 0 || s.Attacker().Name != "oblivious, whitebox-through" {
		t.Fatalf("%q, %d missing, %q", s.Controls, s.Missing(), s.Attacker().Name)
	}
	for i, want := range [][2]int{{3, 2}, {3, 1}} {
		side := s.Side(sides[i])
		got := s.Series("m")[1+i].Cells
		if got[0].Correct != want[0] || got[1].Correct != want[1] || side.Control != "c" ||
			side.Mode != s.Modes[i] || s.Side(sides[i]).Again != (i == 1) {
			t.Errorf("%s: %d and %d right, %+v", sides[i], got[0].Correct, got[1].Correct, side)
		}
	}
	beside := lists.Only(s.Compared(), func(c Compared) bool { return c.Published != nil })
	if len(beside) != 1 || beside[0].Cell == nil || beside[0].Cell.Correct != 1 {
		t.Errorf("the published number stands beside %+v", beside)
	}
	const line = "robust accuracy %s under pgd, ℓ∞ 8/255, 4 images%s"
	want := []string{fmt.Sprintf(line, "0.0 % [0.0, 49.0]", ""),
		fmt.Sprintf(line, "50.0 % [15.0, 85.0] with c", ", oblivious"),
		fmt.Sprintf(line, "25.0 % [4.6, 69.9] with c", ", whitebox-through")}
	if got := v.Answers(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	v.AddMargins(slices.Values([]result.Record{{ID: f.Cells[4].ID, Margin: 0.5}, {ID: f.Cells[1].ID, Margin: 2}}))
	for i, want := range []bool{false, true} {
		cells := s.Series("m")[1+i].Cells
		if s.MarginsOf(cells[0]) == nil || (s.MarginsOf(cells[1]) != nil) != want {
			t.Errorf("%s: records %v and %v", sides[i], s.MarginsOf(cells[0]), s.MarginsOf(cells[1]))
		}
	}
}
