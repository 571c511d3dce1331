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
	t := Table{Anchor: ".headline", Caption: "Accuracy in %, on clean images and the lowest under attack"}
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
	named := view.Only(controls, func(c string) bool { return c != "" })
	suites, varied := len(v.Suites) > 1, len(controls) > 1
	t.lead("Suite", suites)
	t.lead("Model", !varied)
	t.lead("Model · control", varied)
	if varied {
		t.Caption += ": baseline / controlled"
	} else {
		t.Caption += versus(named)
	}
	t.head(true, "Clean", "Lowest", "95 % intervals", lowestHead)
	if t.head(len(modes) > 1, attackerHead); len(modes) == 1 && modes[0] != "" {
		t.Caption += "; attacker: " + modes[0]
	}
	loops, others := false, false // marks
	for _, s := range v.Suites {
		for _, r := range s.Rows() {
			who := text(words.Clean(r.Model))
			if varied && r.Control != "" {
				who.Spans = append(who.Spans, Span{Text: " · "}, Span{Text: words.Clean(r.Control), Small: true})
			}
			if s.RowMarks(r.Model, r.Control) != "" {
				who.Spans[len(who.Spans)-1].Mark, loops = view.LoopMark, true
			}
			suite := text(words.Clean(s.Name))
			suite.Link = "suite-" + s.Slug
			line := boxes(shown(suites, suite), who, s.headline(r, len(named) > 0),
				shown(len(modes) > 1, s.Attacker().Title))
			t.add(line)
			others = others || slices.ContainsFunc(line, func(b Box) bool {
				return slices.ContainsFunc(b.Spans, func(s Span) bool { return s.Mark != "" && s.Mark != view.LoopMark })
			})
		}
	}
	if loops {
		t.note(view.LoopMark, view.LoopID+": the control solves an optimisation problem for every image")
	}
	if others {
		t.note("", "Other marks are those of the footnotes of the line's suite.")
	}
	if slices.ContainsFunc(v.Suites, func(s Suite) bool { return s.Seeds > 1 }) {
		t.note("", "Of several seeds the accuracy is mean ± standard deviation, the interval the first seed's.")
	}
	return t.marked()
}

// headline are a row's accuracies: clean, the lowest, its interval and the attack that it is under.
func (s Suite) headline(r view.Row, controlled bool) []Box {
	bare, attack := s.Lowest(r.Sides[0])
	healed, other := s.Lowest(r.Sides[1])
	if controlled && attack != other {
		attack += " / " + other
	}
	limits := func(c *result.Cell) string { return cmp.Or(words.Interval(c), words.Dash) }
	lowest := view.Entry{bare, healed}
	return boxes(s.pair(r.Entry(0), view.Scored, true, controlled), s.pair(lowest, view.Scored, true, controlled),
		s.pair(lowest, limits, false, controlled), text(attack))
}

// pair writes both sides of an entry: with the better one bold and the marks of the
// suite's footnotes where they are the accuracies themselves.
func (s Suite) pair(e view.Entry, say func(*result.Cell) string, accuracies, controlled bool) Box {
	one := func(side int) Span {
		if !accuracies {
			return Span{Text: say(e[side]), Small: true}
		}
		return Span{Text: say(e[side]), Bold: e.Better() == 2*side-1, Mark: s.Marks(e[side])}
	}
	b := Box{Bar: -1, Anchor: s.Slug, Spans: []Span{one(0)}}
	if controlled {
		b.Spans = append(b.Spans, Span{Text: " / "}, one(1))
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
