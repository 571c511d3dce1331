package table

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

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
func (v Report) HeadlineTable() Table {
	t := Table{Anchor: ".headline"} // a suite's anchor begins with no dot
	if v.Quoted {
		return t
	}
	var controls []string // "" among them where a suite has none
	modes := view.Distinct(v.Suites, func(s Suite) string { return s.Attacker().Name })
	for _, s := range v.Suites {
		for _, r := range s.Rows() {
			controls = view.Once(controls, r.Control)
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
	has := func(found func(Span) bool) bool {
		return slices.ContainsFunc(t.Rows, func(line []Box) bool {
			return slices.ContainsFunc(line, func(b Box) bool { return slices.ContainsFunc(b.Spans, found) })
		})
	}
	if has(func(s Span) bool { return s.Mark == view.LoopMark }) {
		t.note(view.LoopMark, view.LoopID+": the control solves an optimisation problem for every image")
	}
	if has(func(s Span) bool { return s.Mark != "" && s.Mark != view.LoopMark }) {
		t.note("", "Other marks are those of the footnotes of the line's suite.")
	}
	if slices.ContainsFunc(v.Suites, func(s Suite) bool { return s.Seeds() > 1 }) {
		t.note("", "Of several seeds the accuracy is mean ± standard deviation, the interval the first seed's.")
	}
	return t.marked()
}

// headline is a line of the headline table.
func (s Suite) headline(r view.Row, vary varied) []Box {
	var line []Box
	if vary.suites {
		name := text(words.Clean(s.Name))
		name.Link = "suite-" + s.Slug
		line = append(line, name)
	}
	who := text(words.Clean(r.Model))
	if vary.controls && r.Control != "" {
		who.Spans = append(who.Spans, Span{Text: " · "}, Span{Text: words.Clean(r.Control), Small: true})
	}
	if s.RowMarks(r.Model, r.Control) != "" {
		who.Spans[len(who.Spans)-1].Mark = view.LoopMark
	}
	line = append(line, who)
	first, bare, healed := r.Entries[0], s.Lowest(r, view.BaselineOf), s.Lowest(r, view.ControlledOf)
	lowest := view.Entry{Baseline: bare.Cell, Controlled: healed.Cell}
	attack := []string{bare.Attack(), healed.Attack()}
	if !vary.controlled || attack[0] == attack[1] {
		attack = attack[:1]
	}
	limits := func(c *result.Cell) string { return cmp.Or(words.Interval(c), words.Dash) }
	line = append(line, s.pair(first, view.Scored, true, vary.controlled),
		s.pair(lowest, view.Scored, true, vary.controlled), s.pair(lowest, limits, false, vary.controlled),
		text(strings.Join(attack, " / ")))
	if vary.modes {
		line = append(line, text(s.Attacker().Title))
	}
	return line
}

// pair writes both sides of an entry: with the better one bold and the marks of the
// suite's footnotes where they are the accuracies themselves.
func (s Suite) pair(e view.Entry, say func(*result.Cell) string, accuracies, controlled bool) Box {
	one := func(c *result.Cell, ahead bool) Span {
		if !accuracies {
			return Span{Text: say(c), Small: true}
		}
		return Span{Text: say(c), Bold: ahead, Mark: s.Marks(c)}
	}
	b := Box{Bar: -1, Anchor: s.Slug, Spans: []Span{one(e.Baseline, e.Better() < 0)}}
	if controlled {
		b.Spans = append(b.Spans, Span{Text: " / "}, one(e.Controlled, e.Better() > 0))
	}
	return b
}

// WarningTable counts the warnings of all cells by id, the most frequent first: so many kinds, with names of so many
// letters.
func (v Report) WarningTable(kinds, letters int) Table {
	t := Table{Lead: 1, Caption: "Warnings", Head: []string{"Warning", "Accuracies"}}
	count := map[string]int{}
	for _, c := range v.File.Cells {
		for _, id := range view.Distinct(c.Warnings, func(w result.Warning) string { return w.ID }) {
			count[id]++
		}
	}
	ids := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	for _, id := range ids[:min(len(ids), kinds)] {
		t.add(words.Clip(words.Clean(id), letters), words.Thousands(count[id]))
	}
	if n := len(ids) - len(t.Rows); n > 0 {
		t.note("", "and %s of other kinds", words.Plural(n, "warning"))
	}
	return t
}
