package view

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/words"
)

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
