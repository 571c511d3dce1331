package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"selfheal/internal/number"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Heads are the columns' titles.
func (s *Suite) Heads() (out []string) {
	for _, c := range s.Columns {
		out = append(out, c.Title())
	}
	return out
}

// Cell returns the cell of a model, a defense ("none" or a control) and a column, or nil.
func (s *Suite) Cell(model, defense string, col words.Column) *result.Cell {
	return s.cells[cellKey{model, defense, col.Attack, words.OrMinusOne(col.Epsilon)}]
}

// Defenses returns "none" and the suite's controls.
func (s *Suite) Defenses() []string { return append([]string{"none"}, s.Controls...) }

// Rows returns the accuracy table: a row a model, or one per control where there are several.
func (s *Suite) Rows() (rows []Row) {
	left, controls := "none", s.Controls
	switch {
	case s.Sides[0] != "":
		left, controls = s.Sides[0], s.Sides[1:]
	case len(controls) == 0:
		controls = []string{""}
	}
	for _, m := range s.Models {
		for _, control := range controls {
			r := Row{Model: m, Control: control}
			for _, col := range s.Columns {
				r.Entries = append(r.Entries, Entry{s.Cell(m, left, col), s.Cell(m, control, col)})
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// Series returns a model's lines: the baseline, then each control.
func (s *Suite) Series(model string) (out []Series) {
	for i, d := range s.Defenses() {
		one := Series{Model: model, Defense: d, Index: i}
		for _, col := range s.Columns {
			one.Cells = append(one.Cells, s.Cell(model, d, col))
		}
		out = append(out, one)
	}
	return out
}

// Each calls fn for every cell there is, by model, defense and column.
func (s *Suite) Each(fn func(c *result.Cell, col words.Column)) {
	for _, m := range s.Models {
		for _, one := range s.Series(m) {
			for i, c := range one.Cells {
				if c != nil {
					fn(c, s.Columns[i])
				}
			}
		}
	}
}

// Heading is the suite's title, or its name where it has none.
func (s *Suite) Heading() string { return words.Clean(cmp.Or(s.Title, s.Name)) }

// Sample is what was scored: data set and number of images, where that is known.
func (s *Suite) Sample() string {
	if s.N == 0 {
		return words.Clean(s.Dataset)
	}
	return fmt.Sprintf("%s · n = %d", words.Clean(s.Dataset), s.N)
}

// Facts is the line under a heading: data set, number of images, mode.
func (s *Suite) Facts() string { return s.Sample() + " · " + s.Attacker().Name }

// Missing counts the cells that the suite's table leaves open, but for those that failed.
func (s *Suite) Missing() int {
	if s.Quoted {
		return 0
	}
	n := len(s.Models) * len(s.Defenses()) * len(s.Columns)
	s.Each(func(*result.Cell, words.Column) { n-- })
	return max(n-len(s.failed), 0)
}

// Made says how the suite's adversarial images were made, where that is known.
func (s *Suite) Made() string {
	if m := s.Attacker(); m.Made != "" {
		return "adversarial images " + m.Made
	}
	return ""
}

// Attacker is what a suite's numbers are of; of a mode that is not known it has the name only.
func (s *Suite) Attacker() result.Mode {
	return result.AttackerOf(words.Clean(s.Mode), len(s.Controls) > 0)
}

// Caption says in a suite's caption which attacker its numbers are of.
func (s *Suite) Caption(what string) string { return what + "; attacker: " + s.Attacker().Name }

// Knows says in words what a suite's attacker knows; "" for a mode that is not known.
func (s *Suite) Knows() string {
	if s.Quoted { // a table of a paper is not the place to explain it again
		return ""
	}
	return s.Attacker().Knows
}

// Kind is what is done to the images of a column.
func (s *Suite) Kind(col words.Column) string {
	switch {
	case col.Attack == "none":
		return "clean"
	case slices.ContainsFunc(s.Corrupted, func(by *Apart) bool { return by.Attack == col.Attack }):
		return "corrupted"
	}
	return "attacked"
}

// standing is a side of a row at its worst: the lowest accuracy under the suite's
// attacks. Cell is nil while none is measured.
type standing struct {
	Cell   *result.Cell
	Column words.Column
}

// Lowest finds a side's lowest accuracy under attack, or under corruption where the suite has no attacks; of equal
// ones, the first column's.
func (s *Suite) Lowest(r Row, side func(Entry) *result.Cell) standing {
	var low standing
	hardest := "corrupted"
	if slices.ContainsFunc(s.Columns, func(col words.Column) bool { return s.Kind(col) == "attacked" }) {
		hardest = "attacked"
	}
	for i, e := range r.Entries {
		c := side(e)
		if c != nil && s.Kind(s.Columns[i]) == hardest && (low.Cell == nil || Score(c) < Score(low.Cell)) {
			low = standing{c, s.Columns[i]}
		}
	}
	return low
}

// BaselineOf is an entry's left side, ControlledOf its right one.
func BaselineOf(e Entry) *result.Cell { return e.Baseline }

// ControlledOf is an entry's right side.
func ControlledOf(e Entry) *result.Cell { return e.Controlled }

// Attack names the attack; a dash while nothing is measured.
func (low standing) Attack() string {
	if low.Cell == nil {
		return words.Dash
	}
	return low.Column.Title()
}

// Scored is a cell's accuracy in per cent: of several seeds their mean ± standard deviation.
func Scored(c *result.Cell) string {
	if c != nil {
		if s, ok := c.Spread(); ok {
			return words.Percent(s.Mean, c.N) + words.Nbsp + "±" + words.Nbsp + words.Percent(s.Deviation, c.N)
		}
	}
	return words.Accuracy(c)
}

// Score is the accuracy that a cell is compared by: of several seeds their mean.
func Score(c *result.Cell) float64 {
	if s, ok := c.Spread(); ok {
		return s.Mean
	}
	return c.Accuracy
}

// Seeds is how many seeds the suite's cells have at most: 1 where they have one.
func (s *Suite) Seeds() int {
	n := 1
	for _, c := range s.cells {
		n = max(n, len(c.Seeds))
	}
	return n
}

// OverSeeds says in a caption that its accuracies are means; "" where there is one seed.
func (s *Suite) OverSeeds() string {
	if n := s.Seeds(); n > 1 {
		return fmt.Sprintf(", mean ± standard deviation over %d seeds", n)
	}
	return ""
}

// Whiskers are the ends of a bar's: its 95 % interval, or the mean ± the deviation over the seeds if the suite has
// several. A cell that does not depend on the seed then has none.
func (s *Suite) Whiskers(c *result.Cell) (low, high float64, ok bool) {
	if s.Seeds() > 1 {
		v, several := c.Spread()
		return max(v.Mean-v.Deviation, 0), min(v.Mean+v.Deviation, 1), several
	}
	return c.CI95[0], c.CI95[1], words.Interval(c) != ""
}

// OfFirstSeed says in a caption that its numbers are the first seed's; "" where there is one.
func (s *Suite) OfFirstSeed() string {
	if s.Seeds() > 1 {
		return ", of the first seed"
	}
	return ""
}

// LoopID is the warning about a defense that solves an optimisation problem at
// inference, which RobustBench's rules ask to be told apart. It concerns every number
// of the defense, so its mark stands at the head of the row instead of in each cell.
const (
	LoopID   = "optimisation-loop"
	LoopMark = "†"
)

// note is a footnote: a warning, and the cells or rows it was raised in.
type note struct {
	result.Warning
	Mark  string // "1", "2", …; [LoopMark] with a number behind it where there are several
	Where []string
}

// collectNotes numbers the warnings of the suite's cells: in the order of the cells,
// those about optimisation loops last.
func (s *Suite) collectNotes() {
	raise := func(w result.Warning, where ...string) {
		i := slices.IndexFunc(s.Notes, func(n note) bool { return n.Warning == w })
		if i < 0 {
			i, s.Notes = len(s.Notes), append(s.Notes, note{Warning: w})
		}
		s.Notes[i].Where = Once(s.Notes[i].Where, strings.Join(where, ", "))
	}
	s.Each(func(c *result.Cell, col words.Column) {
		for _, w := range c.Warnings {
			where := []string{words.Clean(c.Model), words.DefenseName(c.Defense), col.Title()}
			if w.ID == LoopID {
				where = where[:2]
			}
			raise(w, where...)
		}
	})
	for _, c := range s.failed {
		attack := words.Clean(c.Attack)
		if c.Epsilon != nil {
			attack += " (" + number.Format(*c.Epsilon) + ")"
		}
		said := result.Warning{ID: "error", Message: words.Clean(c.Error)}
		raise(said, words.Clean(c.Model), words.DefenseName(c.Defense), attack)
	}
	loops := slices.DeleteFunc(slices.Clone(s.Notes), func(n note) bool { return n.ID != LoopID })
	others := slices.DeleteFunc(s.Notes, func(n note) bool { return n.ID == LoopID })
	for i := range others {
		others[i].Mark = fmt.Sprint(i + 1)
	}
	for i := range loops {
		if loops[i].Mark = LoopMark; len(loops) > 1 {
			loops[i].Mark += fmt.Sprint(i + 1)
		}
	}
	s.Notes = append(others, loops...)
}

// Marks returns the marks of the footnotes of a cell, "1,3" or "", but for those at the head of its row.
func (s *Suite) Marks(c *result.Cell) string {
	return s.marks(func(n note) bool { return n.ID != LoopID && c != nil && slices.Contains(c.Warnings, n.Warning) })
}

// RowMarks returns the marks at the head of a row: of a model under a defense.
func (s *Suite) RowMarks(model, defense string) string {
	return s.marks(func(n note) bool {
		return n.ID == LoopID && slices.ContainsFunc(s.Columns, func(col words.Column) bool {
			c := s.Cell(model, defense, col)
			return c != nil && slices.Contains(c.Warnings, n.Warning)
		})
	})
}

func (s *Suite) marks(of func(n note) bool) string {
	var marks []string
	for _, n := range s.Notes {
		if of(n) {
			marks = append(marks, n.Mark)
		}
	}
	return strings.Join(marks, ",")
}

// Looped reports whether a defense of the suite is an optimisation loop.
func (s *Suite) Looped(defense string) bool {
	return slices.ContainsFunc(s.Models, func(m string) bool { return s.RowMarks(m, defense) != "" })
}
