package gate

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/stats"
	"selfheal/internal/number"
)

// Outcome is the result of a cell, or of all cells.
type Outcome string

// The outcomes. A report has one of the first three.
const (
	Fail         Outcome = "fail"
	Inconclusive Outcome = "inconclusive"
	Pass         Outcome = "pass"
	New          Outcome = "new" // a cell that the baseline lacks
)

// tests holds the tests of cells by the same rules. Each sums over many outcomes, and counts recur, so results are
// kept.
type tests struct {
	rules  config.Gate
	change func(counts) Change
	enough func(flips float64) (images int) // see [stats.ImagesToPass]
}

// counts are the numbers that a cell's change depends on, apart from the rules.
type counts struct {
	stats.Paired
	cells int // number of compared cells, by which Holm's first step divides alpha
}

func newTests(rules config.Gate) *tests {
	first := func(c counts) float64 { return rules.Alpha / float64(c.cells) }
	detectable := stats.Memo(func(c counts) float64 { // for the only cell that dropped
		return stats.Detectable(c.N, c.Won, rules.MaxDrop, first(c), power)
	})
	return &tests{rules, stats.Memo(func(c counts) Change {
		x := Change{Drop: c.Drop(), Interval: c.Interval(1 - 2*rules.Alpha), Lost: c.Lost, Won: c.Won,
			Above: max(c.McNemarDrop(), c.Above(rules.MaxDrop, first(c))), Below: c.Below(rules.MaxDrop, rules.Alpha),
			McNemar: c.McNemar()}
		if d := detectable(counts{stats.Paired{N: c.N, Won: c.Won}, c.cells}); d < 1 {
			x.Detectable = &d
		}
		return x
	}), stats.Memo(func(flips float64) int { return stats.ImagesToPass(rules.MaxDrop, flips, rules.Alpha, power) })}
}

// minimum tests a cell's accuracy against the least one allowed. Drops and minimums are two families: within each,
// the probability of any wrong failure is at most alpha. Drops are corrected by Holm's method. Minimums are decided
// by their intervals, which hold all together (Bonferroni).
func (r *Report) minimum(c Cell, least float64) *Minimum {
	level := 1 - 2*r.minAlpha()
	right := c.most()
	m := &Minimum{Min: least, Exact: stats.ClopperPearson(right, c.N, level),
		Wilson: stats.WilsonAt(right, c.N, level), P: stats.BinomialTest(right, c.N, least)}
	m.Missed = m.Exact[1] < least
	return m
}

// minAlpha returns the part of alpha for each minimum.
func (r *Report) minAlpha() float64 { return r.Gate.Alpha / float64(max(r.mins, 1)) }

// A reason is why a cell does not simply pass. From mayHaveDropped on, the reason makes it inconclusive.
const (
	dropped = iota
	missed
	warned
	mayHaveDropped
	mayHaveMissed
	reasons
)

// outcome returns the outcome of a number of cells with each reason.
func outcome(found [reasons]int) Outcome {
	switch {
	case slices.Max(found[:mayHaveDropped]) > 0:
		return Fail
	case slices.Max(found[mayHaveDropped:]) > 0:
		return Inconclusive
	}
	return Pass
}

// decide sets every cell's outcome and the report's.
func (r *Report) decide(t *tests) {
	var all [reasons]int
	for i := range r.Cells {
		c := &r.Cells[i]
		found := c.decide(r.Gate)
		if c.Outcome = outcome(found); c.Outcome == Pass && c.Change == nil {
			c.Outcome = New
		}
		for reason, n := range found {
			all[reason] += n
		}
		if c.Change != nil && c.Change.Better {
			r.Notes = append(r.Notes, fmt.Sprintf("better: %s, by %s points; if it is to stay so, "+
				"selfheal check --update", c, points(-c.Change.Drop)))
		}
	}
	r.Outcome = outcome(all)
	r.Summary = r.summary(all, t)
}

// decide counts a cell's reasons and writes them.
func (c *Compared) decide(rules config.Gate) (found [reasons]int) {
	say := func(reason int, format string, args ...any) {
		c.Reasons = append(c.Reasons, fmt.Sprintf(format, args...))
		found[reason]++
	}
	if x := c.Change; x != nil {
		switch {
		case x.AboveHolm <= rules.Alpha:
			say(dropped, "dropped by %s points, from %s to %s %%: more than %s (p fail %s)", points(x.Drop),
				percent(x.Before), percent(c.Accuracy), points(rules.MaxDrop), number.Probability(x.AboveHolm))
		case x.open(rules.Alpha):
			say(mayHaveDropped, "a drop of %s points is not excluded (p pass %s)", points(rules.MaxDrop),
				number.Probability(x.Below))
		}
	}
	if m := c.Min; c.below() {
		interval := fmt.Sprintf("accuracy %s %%, exact interval %s to %s, Wilson's %s to %s", percent(c.Accuracy),
			percent(m.Exact[0]), percent(m.Exact[1]), percent(m.Wilson[0]), percent(m.Wilson[1]))
		if m.Missed {
			say(missed, "misses its min of %s %% (%s)", points(m.Min), interval)
		} else {
			say(mayHaveMissed, "is below its min of %s %%, but may reach it (%s)", points(m.Min), interval)
		}
	}
	if len(c.FailOn) > 0 {
		say(warned, "has the warning %s, which fail_on lists", strings.Join(c.FailOn, ", "))
	}
	return found
}

func (c *Compared) below() bool { return c.Min != nil && float64(c.most())/float64(c.N) < c.Min.Min }

// open reports whether a drop of max_drop is not excluded. An unchanged cell has none.
func (x Change) open(alpha float64) bool { return !x.Unchanged && x.Below > alpha }

// summary describes the outcome in one line. If it is inconclusive, it says how many images are needed.
func (r *Report) summary(found [reasons]int, t *tests) string {
	of, all, most := count(r.compared, "cell"), count(len(r.Cells), "cell"), points(r.Gate.MaxDrop)
	var parts []string
	for reason, text := range [reasons]string{of + " dropped by more than " + most + " points",
		all + " missed a min", all + " had a warning of fail_on", of + " may have dropped by " + most +
			" points or more", all + " may have missed a min"} {
		if n := found[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s", n, text))
		}
	}
	switch r.Outcome {
	case Pass:
		parts = append(parts, fmt.Sprintf("no drop of %s points or more in %s", most, of))
	case Inconclusive:
		parts = append(parts, r.images(t))
	}
	return strings.ToUpper(string(r.Outcome)) + ": " + strings.Join(parts, "; ")
}

func (c *Compared) flips() float64 { return float64(c.Change.Lost+c.Change.Won) / float64(c.N) }

// images says how many images are needed for the inconclusive cell whose verdicts change most, and for minimums.
func (r *Report) images(t *tests) string {
	const none = "no possible number of images is enough to tell"
	var widest *Compared
	n := 0
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Change != nil && c.Change.open(r.Gate.Alpha) && (widest == nil || c.flips() > widest.flips()) {
			widest = c
		}
		if c.below() {
			n = max(n, stats.ImagesToMiss(c.Accuracy, c.Min.Min, r.minAlpha(), power))
		}
	}
	if widest != nil {
		enough := t.enough(widest.flips())
		if enough == 0 {
			return none
		}
		if enough <= widest.N && n <= widest.N { // bad luck, or a real drop near the limit
			return fmt.Sprintf("if nothing has changed, %s images are enough with probability %v: "+
				"look at the changes, or take more images", thousands(enough), power)
		}
		n = max(n, enough)
	}
	if n == 0 {
		return none
	}
	return fmt.Sprintf("about %s images are needed to tell with probability %v if nothing has changed", thousands(n),
		power)
}
