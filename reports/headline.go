package reports

import (
	"cmp"
	"slices"
	"strings"

	"selfheal/harness/result"
)

// standing is a side of a row at its worst: the lowest accuracy under the suite's
// attacks. Cell is nil while none is measured.
type standing struct {
	Cell   *result.Cell
	Column column
}

// lowest finds a side's lowest accuracy under attack, or under corruption where the suite has no attacks; of equal
// ones, the first column's.
func (s *suite) lowest(r row, side func(entry) *result.Cell) standing {
	var low standing
	hardest := "corrupted"
	if slices.ContainsFunc(s.Columns, func(col column) bool { return s.kind(col) == "attacked" }) {
		hardest = "attacked"
	}
	for i, e := range r.Entries {
		c := side(e)
		if c != nil && s.kind(s.Columns[i]) == hardest && (low.Cell == nil || score(c) < score(low.Cell)) {
			low = standing{c, s.Columns[i]}
		}
	}
	return low
}

func baselineOf(e entry) *result.Cell   { return e.Baseline }
func controlledOf(e entry) *result.Cell { return e.Controlled }

// varied says what differs between the rows of the headline table: only that has a column.
type varied struct{ suites, controls, modes, controlled bool }

// The heads of columns of words: the attacks that the lowest accuracies are of, and what
// the attacker knows.
const (
	lowestHead   = "Lowest under"
	attackerHead = "Attacker"
)

// HeadlineTable is the whole report in a line a suite, model and control: the accuracy on
// clean images and the lowest under the suite's attacks, of the baseline and of the
// controlled network, each lowest one with its interval and the attack it is of. What is
// the same in every line stands in the caption. Quoted numbers have none: nothing was run.
func (v reportTables) HeadlineTable() table {
	t := table{Anchor: ".headline"} // a suite's anchor begins with no dot
	if v.Quoted {
		return t
	}
	var controls []string // "" among them where a suite has none
	modes := distinct(v.Suites, func(s suiteTables) string { return s.Attacker().Name })
	for _, s := range v.Suites {
		for _, r := range s.Rows() {
			controls = once(controls, r.Control)
		}
	}
	named := slices.DeleteFunc(slices.Clone(controls), func(c string) bool { return c == "" })
	vary := varied{len(v.Suites) > 1, len(controls) > 1, len(modes) > 1, len(named) > 0}
	t.Caption = "Accuracy in %, on clean images and the lowest under attack"
	t.lead("Suite", vary.suites)
	t.lead("Model", !vary.controls)
	t.lead("Model · control", vary.controls)
	if vary.controls {
		t.Caption += ": baseline / controlled"
	} else {
		t.Caption += versus(named)
	}
	t.Head = append(t.Head, "Clean", "Lowest", "95 % intervals", lowestHead)
	if vary.modes {
		t.Head = append(t.Head, attackerHead)
	} else if len(modes) > 0 && modes[0] != "" {
		t.Caption += "; attacker: " + modes[0]
	}
	for _, s := range v.Suites {
		for _, r := range s.Rows() {
			t.Rows = append(t.Rows, s.headline(r, vary))
		}
	}
	has := func(found func(span) bool) bool {
		return slices.ContainsFunc(t.Rows, func(line []box) bool {
			return slices.ContainsFunc(line, func(b box) bool { return slices.ContainsFunc(b.Spans, found) })
		})
	}
	if has(func(s span) bool { return s.Mark == loopMark }) {
		t.note(loopMark, loopID+": the control solves an optimisation problem for every image")
	}
	if has(func(s span) bool { return s.Mark != "" && s.Mark != loopMark }) {
		t.note("", "Other marks are those of the footnotes of the line's suite.")
	}
	if slices.ContainsFunc(v.Suites, func(s suiteTables) bool { return s.seeds() > 1 }) {
		t.note("", "Of several seeds the accuracy is mean ± standard deviation, the interval the first seed's.")
	}
	return t.marked()
}

// headline is a line of the headline table.
func (s suiteTables) headline(r row, vary varied) []box {
	var line []box
	if vary.suites {
		name := text(clean(s.Name))
		name.Link = "suite-" + s.Slug
		line = append(line, name)
	}
	who := text(clean(r.Model))
	if vary.controls && r.Control != "" {
		who.Spans = append(who.Spans, span{Text: " · "}, span{Text: clean(r.Control), Small: true})
	}
	if s.RowMarks(r.Model, r.Control) != "" {
		who.Spans[len(who.Spans)-1].Mark = loopMark
	}
	line = append(line, who)
	first, bare, healed := r.Entries[0], s.lowest(r, baselineOf), s.lowest(r, controlledOf)
	lowest := entry{bare.Cell, healed.Cell}
	attack := []string{bare.attack(), healed.attack()}
	if !vary.controlled || attack[0] == attack[1] {
		attack = attack[:1]
	}
	line = append(line, s.pair(first, scored, true, vary.controlled), s.pair(lowest, scored, true, vary.controlled),
		s.pair(lowest, func(c *result.Cell) string { return cmp.Or(interval(c), dash) }, false, vary.controlled),
		text(strings.Join(attack, " / ")))
	if vary.modes {
		line = append(line, text(s.Attacker().Title))
	}
	return line
}

func (low standing) attack() string {
	if low.Cell == nil {
		return dash
	}
	return low.Column.Title()
}

// pair writes both sides of an entry: with the better one bold and the marks of the
// suite's footnotes where they are the accuracies themselves.
func (s suiteTables) pair(e entry, say func(*result.Cell) string, accuracies, controlled bool) box {
	one := func(c *result.Cell, ahead bool) span {
		if !accuracies {
			return span{Text: say(c), Small: true}
		}
		return span{Text: say(c), Bold: ahead, Mark: s.Marks(c)}
	}
	b := box{Bar: -1, Anchor: s.Slug, Spans: []span{one(e.Baseline, e.better() < 0)}}
	if controlled {
		b.Spans = append(b.Spans, span{Text: " / "}, one(e.Controlled, e.better() > 0))
	}
	return b
}
