package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"selfheal/harness/result"
)

// view is a result file arranged for reading: every format renders this and
// nothing else, so that no two of them can disagree.
type view struct {
	File   *result.File
	Suites []*suite
	// Quoted: the cells are numbers that were published, nothing was run; the figures are then of radars.
	Quoted bool
	radars []*suite
}

// suite is one suite's cells by row and column.
type suite struct {
	result.Suite
	Slug    string // Name made safe for file names and anchors, unique in the file
	N       int    // images scored
	Columns []column
	Notes   []note

	classNames []string // of the data set, by label; nil where it has none

	attacks   map[string]result.Attack // how they were made; empty in files of older versions
	controls  map[string]result.Control
	cells     map[cellKey]*result.Cell
	corrupted []*corruptedBy // whose cells are not among cells; their means are
	certified []*certifiedBy // whose cells are not among cells
	failed    []*result.Cell // cells with an error and no verdicts
	studies   []study
	margins   map[cellKey]*margins
	Quoted    bool      // as the view's
	sides     [2]string // the defenses on both sides of every entry; "" where they are none and each control
}

// cellKey identifies a cell within its suite.
type cellKey struct {
	model, defense, attack string
	epsilon                float64 // −1 for null
}

// row is one line of the accuracy table: a model with one controller (or none to compare with).
type row struct {
	Model, Control string // Control is "" when the suite has none
	Entries        []entry
}

// entry is a table cell: both sides of `baseline / controlled`, nil where not (yet) measured.
type entry struct{ Baseline, Controlled *result.Cell }

// better says which side is ahead: −1 the baseline, +1 the controlled, 0 equal or not comparable.
func (e entry) better() int {
	if e.Baseline == nil || e.Controlled == nil {
		return 0
	}
	return cmp.Compare(score(e.Controlled), score(e.Baseline))
}

// series is one model under one defense over the suite's columns, nil where a cell is missing.
type series struct {
	Model, Defense string
	Index          int // 0 for the baseline, 1… for the controls in their order
	Cells          []*result.Cell
}

// derive arranges f. Suites, models, controls and attacks come in the order of
// f.Suites; whatever only the cells mention is appended in the cells' order.
func derive(f *result.File) *view {
	sound := *f
	sound.Cells = slices.DeleteFunc(slices.Clone(f.Cells), func(c result.Cell) bool { return c.Error != "" })
	v := &view{File: &sound}
	byName := map[string]*suite{}
	add := func(rs result.Suite) *suite {
		for _, names := range []*[]string{&rs.Models, &rs.Controls, &rs.Attacks} {
			*names = slices.Clone(*names)
		}
		s := &suite{Suite: rs, cells: map[cellKey]*result.Cell{}, attacks: f.Attacks,
			controls: f.Controls}
		byName[rs.Name] = s
		v.Suites = append(v.Suites, s)
		return s
	}
	for _, rs := range f.Suites {
		if byName[rs.Name] == nil {
			add(rs)
		}
	}
	for i := range f.Cells {
		c := &f.Cells[i]
		s := byName[c.Suite]
		if s == nil {
			s = add(result.Suite{Name: c.Suite, Dataset: c.Dataset, Mode: c.Mode})
		}
		s.include(c)
	}
	slugs := map[string]bool{}
	for _, s := range v.Suites {
		s.Slug = uniqueSlug(s.Name, slugs)
		if s.N == 0 {
			s.N = f.Datasets[s.Dataset].N
		}
		s.classNames = f.Datasets[s.Dataset].ClassNames
		s.addMeans()
		s.arrangeColumns()
		s.collectNotes()
		s.studies = studies(f, s.Name)
	}
	return v
}

func (s *suite) include(c *result.Cell) {
	apart := s.sortOut(c) || s.certificate(c)
	switch {
	case c.Error != "":
		s.failed = append(s.failed, c)
	case !apart:
		s.cells[keyOf(c)] = c
	}
	s.N = max(s.N, c.N)
	s.Models = once(s.Models, c.Model)
	if c.Defense != "none" {
		s.Controls = once(s.Controls, c.Defense)
	}
	if c.Attack != "none" && !apart {
		s.Attacks = once(s.Attacks, c.Attack)
	}
}

// once appends v to a list that lacks it.
func once[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// distinct are the values that of gives for a list, each once, in their order.
func distinct[T any, V comparable](list []T, of func(T) V) (out []V) {
	for _, one := range list {
		out = once(out, of(one))
	}
	return out
}

func keyOf(c *result.Cell) cellKey {
	return cellKey{c.Model, c.Defense, c.Attack, orMinusOne(c.Epsilon)}
}

func orMinusOne(e *float64) float64 {
	if e == nil {
		return -1
	}
	return *e
}

// arrangeColumns lists None, then each attack with its epsilons in ascending
// order. An attack without any cell keeps its columns, so that a partial result
// shows what is still to come.
func (s *suite) arrangeColumns() {
	s.Columns = []column{{Attack: "none"}}
	for _, attack := range s.Attacks {
		if attack == "none" || s.attacks[attack].Proves() {
			continue
		}
		of, as := map[float64]column{}, s.attacks[attack]
		for key, c := range s.cells {
			if c.Attack == attack {
				col := of[key.epsilon]
				col.Epsilon = c.Epsilon
				col.learn(c)
				of[key.epsilon] = col
			}
		}
		if len(of) == 0 {
			of[-1] = column{}
			for _, e := range as.Epsilons { // none of corruptions, and of older versions' files
				of[e] = column{Epsilon: new(e), norm: *as.Norm}
				delete(of, -1)
			}
		}
		for _, e := range slices.Sorted(maps.Keys(of)) {
			col := of[e]
			col.Attack, col.title, col.recipe = attack, as.Title, cmp.Or(col.recipe, as.Recipe)
			s.Columns = append(s.Columns, col)
		}
	}
	heads := s.heads()
	for i, head := range heads {
		s.Columns[i].ambiguous = slices.Contains(heads[:i], head) || slices.Contains(heads[i+1:], head)
	}
}

// same reports whether two columns are one attack at one strength.
func (c column) same(as column) bool {
	return c.Attack == as.Attack && orMinusOne(c.Epsilon) == orMinusOne(as.Epsilon)
}

// heads are the columns' titles.
func (s *suite) heads() (out []string) {
	for _, c := range s.Columns {
		out = append(out, c.Title())
	}
	return out
}

// Cell returns the cell of a model, a defense ("none" or a control) and a column, or nil.
func (s *suite) Cell(model, defense string, col column) *result.Cell {
	return s.cells[cellKey{model, defense, col.Attack, orMinusOne(col.Epsilon)}]
}

// Defenses returns "none" and the suite's controls.
func (s *suite) Defenses() []string { return append([]string{"none"}, s.Controls...) }

// Rows returns the accuracy table: a row a model, or one per control where there are several.
func (s *suite) Rows() []row {
	controls := s.Controls
	switch {
	case s.sides[0] != "":
		controls = []string{s.sides[1]}
	case len(controls) == 0:
		controls = []string{""}
	}
	left := cmp.Or(s.sides[0], "none")
	var rows []row
	for _, m := range s.Models {
		for _, control := range controls {
			r := row{Model: m, Control: control}
			for _, col := range s.Columns {
				r.Entries = append(r.Entries, entry{s.Cell(m, left, col), s.Cell(m, control, col)})
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// Series returns a model's lines: the baseline, then each control.
func (s *suite) Series(model string) []series {
	var out []series
	for i, d := range s.Defenses() {
		one := series{Model: model, Defense: d, Index: i}
		for _, col := range s.Columns {
			one.Cells = append(one.Cells, s.Cell(model, d, col))
		}
		out = append(out, one)
	}
	return out
}

// each calls fn for every cell there is, by model, defense and column.
func (s *suite) each(fn func(c *result.Cell, col column)) {
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
func (s *suite) Heading() string {
	if s.Title != "" {
		return clean(s.Title)
	}
	return clean(s.Name)
}

// Sample is what was scored: data set and number of images, where that is known.
func (s *suite) Sample() string {
	if s.N == 0 {
		return clean(s.Dataset)
	}
	return fmt.Sprintf("%s · n = %d", clean(s.Dataset), s.N)
}

// Facts is the line under a heading: data set, number of images, mode.
func (s *suite) Facts() string { return s.Sample() + " · " + s.Attacker().Name }

// Missing counts the cells that the suite's table leaves open, but for those that failed.
func (s *suite) Missing() (n int) {
	if s.Quoted {
		return 0
	}
	n = len(s.Models) * len(s.Defenses()) * len(s.Columns)
	s.each(func(*result.Cell, column) { n-- })
	return max(n-len(s.failed), 0)
}
