package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/stats"
	"selfheal/internal/must"
)

// A drop's interval, which reports print, is two-sided at 1 − 2α: each end has the one-sided level of the decision.
// At its ends Tango's score is the normal quantile of α.
func TestLevelOfDrops(t *testing.T) {
	for _, alpha := range []float64{0.05, 0.01} {
		rules := config.DefaultGate()
		rules.Alpha = alpha
		p := stats.Paired{N: 400, Lost: 20, Won: 5}
		x := newTests(rules).change(counts{p, 1})
		// Independent of [stats.Paired.Interval]: the likelihood's root as in Tango's equation.
		z := map[float64]float64{0.05: 1.6448536269514722, 0.01: 2.3263478740408408}[alpha]
		for end, want := range map[int]float64{0: z, 1: -z} {
			d, n := x.Interval[end], float64(p.N)
			a, b, c := 2*n, (2*n-20+5)*d-25, -5*d*(1-d)
			q := (math.Sqrt(b*b-4*a*c) - b) / (2 * a)
			if got := (20 - 5 - n*d) / math.Sqrt(n*(2*q+d*(1-d))); math.Abs(got-want) > 1e-6 {
				t.Errorf("alpha %v, end %v: a score of %v, want %v", alpha, d, got, want)
			}
		}
	}
}

// A minimum is missed exactly if the one-sided exact test rejects it at the minimum's part of alpha.
func TestLevelOfMinimums(t *testing.T) {
	for _, mins := range []int{1, 3} {
		r := &Report{Gate: config.DefaultGate(), mins: mins}
		between := 0
		for right := 60; right <= 80; right++ {
			m := r.minimum(Cell{N: 100, Correct: right}, 0.8)
			share := r.Gate.Alpha / float64(mins)
			if m.Missed != (m.P < share) {
				t.Errorf("%d of 100, %d minimums: p %v at level %v, missed %v", right, mins, m.P, share, m.Missed)
			}
			if m.P < share && m.P > share/2 {
				between++
			}
			if want := stats.WilsonAt(right, 100, 1-2*share); m.Wilson != want {
				t.Errorf("%d of 100: Wilson's interval %v, want %v", right, m.Wilson, want)
			}
		}
		if between == 0 {
			t.Errorf("%d minimums: no count lies between the levels alpha and alpha/2", mins)
		}
	}
}

// A p-value of exactly alpha counts as significant: for a drop, and for excluding one.
func TestBorderOfAlpha(t *testing.T) {
	rules := config.DefaultGate()
	for _, c := range []struct {
		above, below float64
		want         Outcome
	}{
		{rules.Alpha, 1, Fail}, {math.Nextafter(rules.Alpha, 1), rules.Alpha, Pass},
		{math.Nextafter(rules.Alpha, 1), math.Nextafter(rules.Alpha, 1), Inconclusive},
	} {
		one := Compared{Cell: Cell{N: 100, Correct: 90}, Accuracy: 0.9,
			Change: &Change{AboveHolm: c.above, Below: c.below}}
		if got := outcome(one.decide(rules)); got != c.want {
			t.Errorf("p fail %v, p pass %v: %s, want %s", c.above, c.below, got, c.want)
		}
	}
	cell := Cell{N: 100, Correct: 80}
	if one := (Compared{Cell: cell, Accuracy: 0.8, Min: (&Report{Gate: rules}).minimum(cell, 0.8)}); one.below() {
		t.Error("an accuracy that is the minimum is below it")
	}
}

// A cell is better if more images are right, significantly after Holm's correction. A rise that chance explains is
// not better, nor is a significant drop.
func TestBetter(t *testing.T) {
	for right, want := range map[int]bool{300: false, 319: false, 320: false, 321: false, 324: false, 345: true} {
		now := same(320, 400)
		now[4] = verdictsOf(right, 400)
		r := must.Get(against(t, same(320, 400), file(0, now...), config.DefaultGate()))(t)
		if x := r.Cells[4].Change; x.Better != want || x.Drop != float64(320-right)/400 || x.Before != 0.8 ||
			x.Lost != max(320-right, 0) || x.Won != max(right-320, 0) || x.Unchanged != (right == 320) {
			t.Errorf("%d of 400 right, before 320: %+v", right, *x)
		}
	}
}

// A row has accuracies in per cent and changes in points, a drop below 0.
func TestRow(t *testing.T) {
	detects := 0.0416
	c := Compared{Cell: Cell{ID: cell.Of("", "net", "none", "none", 0), N: 1000}, Accuracy: 0.7421, Outcome: Fail,
		Change: &Change{Before: 0.7994, Drop: 0.0573, Interval: [2]float64{0.0402, 0.0755}, Lost: 60, Won: 3,
			AboveHolm: 0.03, Below: 0.7, Detectable: &detects}}
	want := []string{c.name(), "1000", "79.9", "74.2", "-5.7 (-7.5 to -4.0)", "60/3", "0.0300", "0.700", "4.2", "fail"}
	if got := c.row(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	c.Change.Unchanged, c.Change.Drop = true, 0.0004
	if got := c.row(); got[7] != "–" || !strings.HasPrefix(got[4], "0.0 (") {
		t.Errorf("%q", got)
	}
	if c.Change = nil; !slices.Equal(c.row()[4:9], []string{"-", "-", "-", "-", "-"}) {
		t.Errorf("%q", c.row())
	}
	for n, want := range map[int]string{7: "7", 999: "999", 1000: "1,000", 12045: "12,045", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for share, want := range map[float64]string{0.02: "2", 0.025: "2.5", 0.00254: "0.25", 0: "0", 0.1: "10"} {
		if got := points(share); got != want {
			t.Errorf("%v: %s points, want %s", share, got, want)
		}
	}
}

// The number of images needed comes from the inconclusive cell whose verdicts flip most, whatever flips in decided
// cells.
func TestImagesOfTheWidest(t *testing.T) {
	summary := func(right map[int]int) string {
		now, rules := same(320, 400), config.DefaultGate()
		rules.MaxDrop = 0.05
		for i, n := range right {
			now[i] = verdictsOf(n, 400)
		}
		return must.Get(against(t, same(320, 400), file(0, now...), rules))(t).Summary
	}
	one := summary(map[int]int{2: 306})
	if !strings.HasPrefix(one, "INCONCLUSIVE: 1 of 6 cells may have dropped by 5 points or more; ") {
		t.Fatal(one)
	}
	if got := summary(map[int]int{2: 306, 4: 380}); got != one {
		t.Errorf("beside a cell that is better: %s, alone %s", got, one)
	}
	most := strings.TrimPrefix(summary(map[int]int{2: 300}), "INCONCLUSIVE: 1")
	if strings.HasSuffix(one, most) {
		t.Errorf("20 flips ask for as many images as 14: %s", most)
	}
	for _, right := range []map[int]int{{1: 306, 2: 300}, {2: 300, 3: 306}} {
		if got := strings.TrimPrefix(summary(right), "INCONCLUSIVE: 2"); got != most {
			t.Errorf("%v right: %s, want%s", right, got, most)
		}
	}
}

// Images of an undecided drop are enough where a min that may be missed needs no more than those.
func TestImagesOfMinimums(t *testing.T) {
	rules := config.DefaultGate()
	n := stats.ImagesToMiss(0.8, 0.85, rules.Alpha, power)
	for less, want := range []string{"look at the changes", fmt.Sprintf("about %d images are needed", n)} {
		r := &Report{Gate: rules, Cells: []Compared{{Cell: Cell{N: n - less}, Change: &Change{Below: 1}},
			{Cell: Cell{N: 100, Correct: 80}, Accuracy: 0.8, Min: &Minimum{Min: 0.85}}}}
		if got := r.images(newTests(rules)); !strings.Contains(got, want) {
			t.Errorf("%d images: %s, want %s", n-less, got, want)
		}
	}
}

// The rules that are set are printed.
func TestRules(t *testing.T) {
	r := &Report{Gate: config.Gate{MaxDrop: 0.02, Alpha: 0.05}}
	bare := r.rules()
	r.Gate.Min, r.Gate.FailOn = map[string]float64{"*": 0.5}, []string{"quick", "zero-gradient"}
	r.Gate.NewModel = true
	full := bare + ", 1 min, fail_on quick zero-gradient, new_model"
	if got := r.rules(); bare != "rules: max_drop 2 points, alpha 0.05" || got != full {
		t.Errorf("%q and %q, want %q", bare, got, full)
	}
	for change, want := range map[float64]string{0.0005: "+0.1", 0.00049: "0.0", -0.0005: "-0.1", -0.02: "-2.0"} {
		if got := signed(change); got != want {
			t.Errorf("a change of %v: %s, want %s", change, got, want)
		}
	}
	if one, three := andMore([]string{"a"}), andMore([]string{"a", "b", "c"}); one != "a" || three != "a and 2 more" {
		t.Errorf("%q, %q", one, three)
	}
}

// Failing cells have a line each; inconclusive ones only if they lost accuracy or lie below their min. Failing ones
// come first.
func TestReasonLines(t *testing.T) {
	of := func(name string, o Outcome, drop float64, min *Minimum) Compared {
		c := Compared{Cell: Cell{ID: cell.Of("", name, "none", "none", 0), N: 100, Correct: 60}, Accuracy: 0.6,
			Outcome: o, Reasons: []string{"why"}, Change: &Change{Drop: drop}, Min: min}
		return c
	}
	least := &Minimum{Min: 0.7}
	r := &Report{Cells: []Compared{of("rose", Inconclusive, -0.1, nil), of("fell", Inconclusive, 0.1, nil),
		of("below", Inconclusive, -0.1, least), of("passed", Pass, 0.1, least), of("failed", Fail, -0.1, nil),
		{Cell: Cell{ID: cell.ID{Row: cell.Row{Model: "new"}}, N: 100, Correct: 60}, Outcome: Inconclusive,
			Reasons: []string{"why"}}}}
	var models []string
	for _, line := range r.reasons() {
		for _, c := range r.Cells {
			if strings.HasPrefix(line, fmt.Sprintf("%s: %s: why", c.Outcome, c)) {
				models = append(models, c.Model)
			}
		}
	}
	if want := []string{"failed", "fell", "below"}; !slices.Equal(models, want) {
		t.Errorf("reasons of %v, want %v: %q", models, want, r.reasons())
	}
	var text strings.Builder
	must.Do(t, r.WriteText(&text))
	lines := strings.Split(text.String(), "\n")
	head, row := lines[1], lines[2] // words are aligned left, numbers right
	n := strings.Index(head, "baseline") + len("baseline")
	if !strings.HasPrefix(head, "  cell ") || !strings.HasPrefix(row, "  rose/none/none ") || row[n-3:n] != "0.0" ||
		!strings.HasSuffix(head, "detects  outcome") {
		t.Errorf("not aligned:\n%s\n%s", head, row)
	}
}
