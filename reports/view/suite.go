package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// about holds what headings and captions say of a suite.
type about struct {
	result.Suite
	N      int  // number of images scored
	Seeds  int  // largest number of seeds of a cell
	Quoted bool // as in [Report]
	sides  []Side
}

// Side is a control and what the attacker knows of it, in a suite of several modes. [Suite.Controls] has the sides'
// names there, and the suite's cells have them as their defenses.
type Side struct {
	Name, Control, Mode string
	Again               bool // its row repeats another mode's answers to all images that no attacker made
}

// sidesOf lists the sides of a suite; nil if it has a single mode.
func sidesOf(s result.Suite) (sides []Side) {
	for _, control := range s.Controls {
		for _, mode := range s.Modes {
			sides = append(sides, Side{control + ", " + mode, control, mode, mode != s.Mode})
		}
	}
	return sides
}

// Side returns the control of a row and the mode of its attacker.
func (s about) Side(defense string) Side {
	if side := lists.Find(s.sides, func(of Side) bool { return of.Name == defense }); side != nil {
		return *side
	}
	return Side{defense, defense, s.Mode, false}
}

// Repeats reports whether a row has another mode's answers in a column, as no attacker made its images.
func Repeats(s *Suite, defense string, col words.Column) bool {
	return s.Side(defense).Again && s.Kind(col) != "attacked"
}

// Named returns a cell's defense as the suite's rows have it. Clean images, certificates and corruptions belong to
// the rows of every mode.
func (s *Suite) Named(id cell.ID) []string {
	if s.sides == nil || id.Defense == cell.None {
		return []string{id.Defense}
	}
	_, of, _ := result.AttackOf(s.File.Attacks, id.Attack)
	crafted := id.Attack != cell.None && of.Crafted()
	own := lists.Only(s.sides, func(one Side) bool {
		return one.Control == id.Defense && (one.Mode == id.Mode || !crafted)
	})
	return lists.Map(own, func(one Side) string { return one.Name })
}

// Heading returns the suite's title, or its name if it has none.
func (s about) Heading() string { return words.Clean(cmp.Or(s.Title, s.Name)) }

// Sample returns the data set and the number of images scored, as far as they are known.
func (s about) Sample() string {
	if s.N == 0 {
		return words.Clean(s.Dataset)
	}
	return fmt.Sprintf("%s · n = %d", words.Clean(s.Dataset), s.N)
}

// Plain reports whether the suite has no control, and its networks are attacked themselves: reports then speak of
// neither controls nor attackers.
func (s about) Plain() bool { return len(s.Controls) == 0 && s.Attacker().Name == result.Whitebox }

// Facts returns the line under a heading: data set, number of images, and the mode unless the suite is plain.
func (s about) Facts() string { return s.Sample() + words.If(!s.Plain(), " · "+s.Attacker().Name) }

// Attacker returns the mode of the suite's attacker. For an unknown mode, and for a paper's table that calls an attack
// through controls white-box, it has only a name.
func (s about) Attacker() result.Mode {
	if len(s.sides) > 0 {
		of := func(text func(m result.Mode) string) string {
			return strings.Join(lists.Map(s.attackers(), text), ", ")
		}
		return result.Mode{Name: of(func(m result.Mode) string { return m.Name }),
			Title: of(func(m result.Mode) string { return m.Title }),
			Made:  of(func(m result.Mode) string { return m.Name + " ones " + m.Made })}
	}
	if s.Mode == result.Whitebox && len(s.Controls) > 0 {
		return result.Mode{Name: s.Mode}
	}
	m, _ := result.ModeOf(words.Clean(s.Mode))
	return m
}

// attackers returns the modes of the attackers of a suite with several.
func (s about) attackers() []result.Mode {
	return lists.Map(s.Modes, func(name string) result.Mode {
		m, _ := result.ModeOf(words.Clean(name))
		return m
	})
}

// AttackerOf returns the mode of the attacker on a row.
func (s about) AttackerOf(defense string) result.Mode {
	if s.sides == nil || defense == cell.None || defense == "" {
		return s.Attacker()
	}
	m, _ := result.ModeOf(words.Clean(s.Side(defense).Mode))
	return m
}

// Made says how the suite's adversarial images were made, if that is known and the suite is not plain.
func (s about) Made() string {
	made := s.Attacker().Made
	return words.If(made != "" && !s.Plain(), "adversarial images"+words.If(s.sides != nil, ":")+" "+made)
}

// OtherAttacker reports whether the attacker of the published numbers knew something else of the controls.
func (s about) OtherAttacker() bool {
	return s.Published.Mode != "" && len(s.Controls) > 0 && !strings.HasPrefix(s.Mode, s.Published.Mode)
}

// Caption adds the suite's attacker to a caption, unless the suite is plain.
func (s about) Caption(what string) string {
	return what + words.If(!s.Plain(), "; attacker: "+s.Attacker().Name)
}

// Knows describes what a suite's attacker knows; "" for an unknown mode, for a plain suite, and for a paper's table,
// which need not explain it again.
func (s about) Knows() string { return words.If(!s.Quoted && !s.Plain(), s.Attacker().Knows) }

// OverSeeds says in a caption that its accuracies are means over seeds; "" for a single seed.
func (s about) OverSeeds() string {
	return words.If(s.Seeds > 1, fmt.Sprintf(", mean ± standard deviation over %d seeds", s.Seeds))
}

// OfFirstSeed says in a caption that its numbers are for the first seed; "" for a single seed.
func (s about) OfFirstSeed() string { return words.If(s.Seeds > 1, ", of the first seed") }

// Defenses returns cell.None and the suite's controls.
func (s about) Defenses() []string { return append([]string{cell.None}, s.Controls...) }

func (s *Suite) Heads() []string { return lists.Map(s.Columns, words.Column.Title) }

// Series is one model under one defense over the suite's columns; missing cells are nil.
type Series struct {
	Model, Defense string
	Index          int // 0 for the undefended network, 1… for the controls in their order
	Cells          []*result.Cell
	Published      []*float64 // by column, for the same attacker, as fractions; nil for what the source lacks
}

// Quoted reports whether numbers are published for the series.
func (one Series) Quoted() bool {
	return slices.ContainsFunc(one.Published, func(p *float64) bool { return p != nil })
}

// Lines returns the series of all models: for each undefended, then under each control.
func (s *Suite) Lines() []Series { return slices.Concat(lists.Map(s.Models, s.Series)...) }

func (s *Suite) Series(model string) (out []Series) {
	for i, d := range s.Defenses() {
		one := Series{model, d, i, s.line(model, d), make([]*float64, len(s.Columns))}
		if s.Published != nil && !s.OtherAttacker() {
			for _, p := range s.Published.Cells {
				k := slices.IndexFunc(s.Columns, func(col words.Column) bool { return col.Column == p.Column })
				if k >= 0 && p.Model == model && p.Defense == d {
					one.Published[k] = &p.Accuracy
				}
			}
		}
		out = append(out, one)
	}
	return out
}

func (s *Suite) line(model, defense string) []*result.Cell {
	return lists.Map(s.Columns, func(col words.Column) *result.Cell { return s.Cell(model, defense, col) })
}

// Each calls fn for every cell there is, by model, defense and column.
func (s *Suite) Each(fn func(c *result.Cell, col words.Column)) {
	for _, one := range s.Lines() {
		for i, c := range one.Cells {
			if c != nil {
				fn(c, s.Columns[i])
			}
		}
	}
}

// Row is one line of the accuracy table: a model with one control (or none to compare with).
type Row struct {
	Model, Control string            // Control is "" if the suite has none
	Sides          [2][]*result.Cell // the undefended and the controlled, one cell per column
}

// Entry is a table cell: both sides of `undefended / controlled`, nil if not (yet) measured.
type Entry [2]*result.Cell

func (r Row) Entry(i int) Entry { return Entry{r.Sides[0][i], r.Sides[1][i]} }

// Better returns which side is ahead: −1 the undefended, +1 the controlled, 0 equal or not comparable.
func (e Entry) Better() int {
	if e[0] == nil || e[1] == nil {
		return 0
	}
	return cmp.Compare(Score(e[1]), Score(e[0]))
}

// Rows returns the accuracy table: a row for each model, or for each of its controls if there are several.
func (s *Suite) Rows() (rows []Row) {
	left, controls := cell.None, s.Controls
	switch {
	case s.Sides[0] != "":
		left, controls = s.Sides[0], s.Sides[1:]
	case len(controls) == 0:
		controls = []string{""}
	}
	for _, m := range s.Models {
		for _, control := range controls {
			rows = append(rows, Row{m, control, [2][]*result.Cell{s.line(m, left), s.line(m, control)}})
		}
	}
	return rows
}

// Missing counts the empty cells of the suite's table, except those that failed.
func (s *Suite) Missing() int {
	if s.Quoted {
		return 0
	}
	n := len(s.Models) * len(s.Defenses()) * len(s.Columns)
	s.Each(func(*result.Cell, words.Column) { n-- })
	return max(n-len(s.failed), 0)
}

// Kind returns how the images of a column were made.
func (s *Suite) Kind(col words.Column) string {
	switch {
	case col.Attack == cell.None:
		return "clean"
	case slices.ContainsFunc(s.Corrupted(), func(by *Apart) bool { return by.Attack == col.Attack }):
		return "corrupted"
	}
	return "attacked"
}

// Lowest returns the lowest accuracy of a line under attack, or under corruption if the suite has no attacks, and its
// column; among equals, the first. It is nil while nothing is measured.
func (s *Suite) Lowest(line []*result.Cell) (low *result.Cell, column words.Column) {
	hardest := "corrupted"
	if slices.ContainsFunc(s.Columns, func(col words.Column) bool { return s.Kind(col) == "attacked" }) {
		hardest = "attacked"
	}
	for i, c := range line {
		if c != nil && s.Kind(s.Columns[i]) == hardest && (low == nil || Score(c) < Score(low)) {
			low, column = c, s.Columns[i]
		}
	}
	return low, column
}

// Scored writes a cell's accuracy in per cent: for several seeds their mean ± standard deviation.
func Scored(c *result.Cell) string {
	if c != nil {
		if s, ok := c.Spread(); ok {
			return words.If(c.GradientFailures > 0, words.AtMost) + words.Percent(s.Mean, c.N) + words.Nbsp + "±" +
				words.Nbsp + words.Percent(s.Deviation, c.N)
		}
	}
	return words.Accuracy(c)
}

// Score returns the accuracy by which a cell is compared: for several seeds their mean.
func Score(c *result.Cell) float64 {
	if s, ok := c.Spread(); ok {
		return s.Mean
	}
	return c.Accuracy
}

// Whiskers returns a bar's 95 % interval or, in a suite of several seeds, its mean ± deviation if it depends on the
// seed.
func (s *Suite) Whiskers(c *result.Cell) (low, high float64, ok bool) {
	if s.Seeds > 1 {
		v, several := c.Spread()
		return max(v.Mean-v.Deviation, 0), min(v.Mean+v.Deviation, 1), several
	}
	return c.CI95[0], c.CI95[1], words.Interval(c) != ""
}

// LoopID is the warning about a defense that solves an optimisation problem at inference. It concerns every number of
// the defense, so its mark stands at the head of the row.
const (
	LoopID   = "optimisation-loop"
	LoopMark = "†"
)

// note is a footnote: the warnings of one kind, each with the cells or rows it was raised in.
type note struct {
	ID   string
	Mark string // "1", "2", … or [LoopMark]
	Said []Said
}

// Said is a warning's message, and the cells or rows it was raised in.
type Said struct {
	Message string
	Where   []string
}

type notes []note

// Who names a network and, in a suite with controls, its defense.
func (s about) Who(model, defense string) []string {
	if len(s.Controls) == 0 {
		return []string{words.Clean(model)}
	}
	return []string{words.Clean(model), words.DefenseName(defense)}
}

// notesOf numbers the kinds of warning of the suite's cells in the order of the cells, with that of optimisation loops
// last.
func notesOf(s *Suite) (all notes) {
	raise := func(w result.Warning, where ...string) {
		i := slices.IndexFunc(all, func(n note) bool { return n.ID == w.ID })
		if i < 0 {
			i, all = len(all), append(all, note{ID: w.ID})
		}
		n := &all[i]
		k := slices.IndexFunc(n.Said, func(said Said) bool { return said.Message == w.Message })
		if k < 0 {
			k, n.Said = len(n.Said), append(n.Said, Said{Message: w.Message})
		}
		n.Said[k].Where = lists.Once(n.Said[k].Where, strings.Join(where, ", "))
	}
	s.Each(func(c *result.Cell, col words.Column) {
		for _, w := range c.Warnings {
			where := s.Who(c.Model, c.Defense)
			if w.ID != LoopID {
				where = append(where, col.Title())
			}
			raise(w, where...)
		}
	})
	for _, c := range s.failed {
		attack := words.Clean(c.Attack)
		if c.Epsilon != 0 {
			attack += " (" + c.Epsilon.String() + ")"
		}
		said := result.Warning{ID: "error", Message: words.Clean(c.Error)}
		raise(said, append(s.Who(c.Model, c.Defense), attack)...)
	}
	isLoop := func(n note) bool { return n.ID == LoopID }
	loops := lists.Only(all, isLoop)
	all = slices.DeleteFunc(all, isLoop)
	for i := range all {
		all[i].Mark = fmt.Sprint(i + 1)
	}
	for _, n := range loops {
		n.Mark = LoopMark
		all = append(all, n)
	}
	return all
}

// marks returns the marks of the notes about loops, or of all others, that concern some cells: "1,3" or "".
func (all notes) marks(loops bool, of ...*result.Cell) string {
	marked := lists.Only(all, func(n note) bool {
		warned := func(w result.Warning) bool { return w.ID == n.ID }
		concerned := func(c *result.Cell) bool { return c != nil && slices.ContainsFunc(c.Warnings, warned) }
		return loops == (n.ID == LoopID) && slices.ContainsFunc(of, concerned)
	})
	return strings.Join(lists.Map(marked, func(n note) string { return n.Mark }), ",")
}

// Marks returns the marks of a cell's footnotes, "1,3" or "", except those at the head of its row.
func (s *Suite) Marks(c *result.Cell) string { return s.Notes.marks(false, c) }

// RowMarks returns the marks at the head of the row of a model under a defense.
func (s *Suite) RowMarks(model, defense string) string {
	return s.Notes.marks(true, s.line(model, defense)...)
}

// Looped reports whether a defense of the suite is an optimisation loop.
func (s *Suite) Looped(defense string) bool {
	return slices.ContainsFunc(s.Models, func(m string) bool { return s.RowMarks(m, defense) != "" })
}
