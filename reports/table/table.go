// Package table makes the reports' tables: it takes suites, studies, comparisons and checks as package view arranges
// them and returns each as a [Table], rows of plain text with footnotes. It knows no format; package reports writes
// them.
package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

type Suite struct{ *view.Suite }

type Report struct {
	*view.Report
	Suites []Suite
}

func Of(v *view.Report) Report {
	return Report{v, lists.Map(v.Suites, func(s *view.Suite) Suite { return Suite{s} })}
}

// Table is a table as data, in plain text; the formats only escape it and lay it out.
type Table struct {
	Anchor  string // for the links of footnote marks: the suite's; over several suites one that begins with a dot
	Label   string // in LaTeX, behind the suite's
	Caption string
	Lead    int // number of first columns that are row headings
	Head    []string
	Rows    [][]Box
	Sums    int // number of last rows that sum up those above
	Notes   []Footnote
	sides   [2]string // of entries a / b; empty: undefended / controlled
	plain   bool      // no network is controlled: the column that would say so is left out
}

// Sides names the sides of entries a / b.
func (t Table) Sides() [2]string {
	if t.sides != [2]string{} {
		return t.sides
	}
	return [2]string{words.DefenseName(cell.None), "controlled"}
}

// Long reports whether a page should fold the table and let readers filter it.
func (t Table) Long() bool { return len(t.Rows) > 12 }

// Room returns the width of the first column in digits, so that usual names stay on one line.
func (t Table) Room() int {
	most := 0
	for _, r := range t.Rows {
		most = max(most, utf8.RuneCountInString(r[0].Plain()))
	}
	return min(most, 26)
}

func (t Table) Body() [][]Box { return t.Rows[:len(t.Rows)-t.Sums] }

func (t Table) Foot() [][]Box { return t.Rows[len(t.Rows)-t.Sums:] }

// Heads of row headings that name a network's control.
const (
	defenseHead = "Defense"
	controlHead = "Control"
)

// Heads of columns of words after the row headings.
const (
	inIntervalHead      = "Published in our interval"
	lowestHead          = "Lowest under" // the attacks of the lowest accuracies
	attackerHead        = "Attacker"
	formatHead          = "Format"
	chosenHead          = "Chosen images"
	takenHead           = "Input and output"
	settingsHead        = "Settings, defaults included"
	claimHead, passHead = "Claim", "Outcome"
	runHead             = "Run"
)

var wordHeads = []string{"Component", "Method", "Recipe", inIntervalHead, lowestHead, attackerHead,
	formatHead, chosenHead, takenHead, settingsHead, claimHead, passHead, runHead}

// Words reports whether column i holds words, which align left; numbers align right.
func (t Table) Words(i int) bool {
	return i < t.Lead || slices.Contains(wordHeads, t.Head[i]) || strings.HasPrefix(t.Head[i], "SHA-256")
}

// Box is the content of one table cell.
type Box struct {
	Spans  []Span
	Repeat bool        // repeats the box above
	Bar    float64     // a fraction to draw behind the text, −1 for none
	Pair   *[2]float64 // two fractions to draw, the undefended network's over the controlled one's
	Link   string      // id of the text's target on a page
	Value  string      // sort key on a page, if the text does not begin with it
	Anchor string      // of the marks' suite, in a table over several
}

// Span is a piece of text; Mark holds footnote marks, separated by commas.
type Span struct {
	Text  string
	Bold  bool
	Small bool // in smaller type than the text before it
	Mark  string
}

func text(s string) Box { return Box{Spans: []Span{{Text: s}}, Bar: -1} }

// boxes makes a row from texts, which are cleaned, counts, boxes and lists of these; nil adds none.
func boxes(cells ...any) (row []Box) {
	for _, c := range cells {
		switch c := c.(type) {
		case nil:
		case string:
			row = append(row, text(words.Clean(c)))
		case int:
			row = append(row, text(words.Thousands(c)))
		case int64:
			row = append(row, text(words.Thousands(c)))
		case []string:
			row = append(row, lists.Map(c, func(s string) Box { return text(words.Clean(s)) })...)
		case []Box:
			row = append(row, c...)
		default:
			row = append(row, c.(Box))
		}
	}
	return row
}

func shown(show bool, cell any) any {
	if show {
		return cell
	}
	return nil
}

func bold(s string, is bool) Box { return Box{Spans: []Span{{Text: s, Bold: is}}, Bar: -1} }

func small(s string) Box { return Box{Spans: []Span{{Text: s, Small: true}}, Bar: -1} }

func (b Box) mark(marks string) Box {
	b.Spans[0].Mark = marks
	return b
}

func (t *Table) head(show bool, heads ...string) {
	if show {
		t.Head = append(t.Head, heads...)
	}
}

func (t *Table) lead(head string, show bool) {
	if t.head(show, head); show {
		t.Lead++
	}
}

func (t *Table) add(cells ...any) { t.Rows = append(t.Rows, boxes(cells...)) }

// note appends a footnote; without a mark it is about the whole table.
func (t *Table) note(mark, format string, args ...any) {
	t.Notes = append(t.Notes, Footnote{mark, fmt.Sprintf(format, args...)})
}

// timed writes a duration that sorts by its seconds.
func timed(seconds float64) Box {
	b := text(words.Duration(seconds))
	b.Value = strconv.FormatFloat(seconds, 'g', 6, 64)
	return b
}

func (b Box) Plain() (out string) {
	for _, s := range b.Spans {
		out += s.Text
	}
	return out
}

// Written returns the box with each span written by how; "" if it repeats the one above.
func (b Box) Written(how func(Span) string) (out string) {
	for _, s := range b.Spans {
		if !b.Repeat {
			out += how(s)
		}
	}
	return out
}

// versus explains in a caption the two sides of an entry.
func versus(controls []string) string {
	switch len(controls) {
	case 0:
		return ""
	case 1:
		return ": undefended / controlled (" + words.Clean(controls[0]) + ")"
	}
	return ": undefended / controlled"
}

// marked flags the row headings that repeat the line above. A plain table loses the column of its defenses.
func (t Table) marked() Table {
	i := slices.IndexFunc(t.Head, func(h string) bool { return h == defenseHead || h == controlHead })
	if t.plain && i >= 0 && i < t.Lead {
		t.Lead--
		t.Head = slices.Delete(slices.Clone(t.Head), i, i+1)
		t.Rows = lists.Map(t.Rows, func(r []Box) []Box { return slices.Delete(slices.Clone(r), i, i+1) })
	}
	for i := 1; i < len(t.Rows); i++ {
		for j := 0; j < t.Lead && t.Rows[i][j].Plain() == t.Rows[i-1][j].Plain(); j++ {
			t.Rows[i][j].Repeat = true
		}
	}
	return t
}

// Footnote is the text of a note; without a mark it is about the whole table.
type Footnote struct{ Mark, Text string }

func (n Footnote) Anchor() string { return MarkAnchor(n.Mark) }

// MarkAnchor returns the end of the id of a mark's target.
func MarkAnchor(mark string) string { return strings.ReplaceAll(mark, view.LoopMark, "loop") }

// footnotes writes the notes: id, messages with the cells that they concern, and what they do to the number.
func footnotes(s Suite) (out []Footnote) {
	const most = 4
	some := func(all []string) string {
		text := strings.Join(all[:min(len(all), most)], "; ")
		if more := len(all) - most; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		return text
	}
	for _, n := range s.Notes {
		said := words.Clean(n.ID) + ": " + strings.Join(lists.Map(n.Said, func(one view.Said) string {
			return words.Clean(one.Message) + " (" + some(one.Where) + ")"
		}), "; ")
		if effect := result.Effect(n.ID); effect != "" {
			said += ". " + effect
		}
		out = append(out, Footnote{n.Mark, said})
	}
	return slices.Concat(out, titles(s), stored(s), agreement(s))
}

// stored reports how rounding to levels changed the results.
func stored(s Suite) (out []Footnote) {
	var all *result.Stored
	s.Each(func(c *result.Cell, _ words.Column) {
		if c.Stored != nil {
			if all == nil {
				all = &result.Stored{}
			}
			all.Regained, all.Lost = all.Regained+c.Stored.Regained, all.Lost+c.Stored.Lost
		}
	})
	if all != nil {
		out = append(out, Footnote{"", fmt.Sprintf("8bit: adversarial images lie on the levels k/255 of stored "+
			"images; of those that rounding undid, a search among the levels broke %d again and %d stand", all.Regained,
			all.Lost)})
	}
	return out
}

// agreement reports how attacks in another precision than the judge's agree with the same attacks in float32.
func agreement(s Suite) (out []Footnote) {
	var all result.Agreement
	s.Each(func(c *result.Cell, _ words.Column) {
		if c.Agreement != nil {
			all.N, all.Agree = all.N+c.Agreement.N, all.Agree+c.Agreement.Agree
		}
	})
	if all.N > 0 {
		out = append(out, Footnote{"", fmt.Sprintf("attacks' passes ran in less than float32, verdicts are of "+
			"float32; of %d images that stood and were attacked again in float32, %d stood again", all.N, all.Agree)})
	}
	return out
}

// titles describes single attacks whose columns' heads don't.
func titles(s Suite) []Footnote {
	single := lists.Only(s.Columns, func(c words.Column) bool {
		return c.AttackTitle != "" && c.AttackTitle != c.Short() && s.File.Made(c.Attack).Components == nil
	})
	return lists.Distinct(single, func(c words.Column) Footnote {
		return Footnote{"", c.Name() + ": " + words.Clean(c.AttackTitle)}
	})
}
