// Package view arranges results and comparisons for reading. Tables and figures are made of what it arranges.
package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Report is a result file arranged for reading: every format renders this and
// nothing else, so that no two of them can disagree.
type Report struct {
	File   *result.File
	Suites []*Suite
	// Quoted: the cells are numbers that were published, nothing was run; the figures are then of radars.
	Quoted bool
	radars []*Suite
}

// Drawn are the suites that figures are of.
func (v *Report) Drawn() []*Suite {
	if v.Quoted {
		return v.radars
	}
	return v.Suites
}

// Suite is one suite's cells by row and column.
type Suite struct {
	result.Suite
	Slug    string // Name made safe for file names and anchors, unique in the file
	N       int    // images scored
	Columns []words.Column
	Notes   []note

	File      *result.File
	cells     map[cellKey]*result.Cell
	Corrupted []*Corruptions // whose cells are not among cells; their means are
	Certified []*Certificate // whose cells are not among cells
	failed    []*result.Cell // cells with an error and no verdicts
	Studies   []Study
	margins   map[cellKey]*margins
	Quoted    bool      // as the view's
	Sides     [2]string // the defenses on both sides of every entry; "" where they are none and each control
}

// cellKey identifies a cell within its suite.
type cellKey struct {
	model, defense, attack string
	epsilon                float64 // −1 for null
}

// Row is one line of the accuracy table: a model with one controller (or none to compare with).
type Row struct {
	Model, Control string // Control is "" when the suite has none
	Entries        []Entry
}

// Entry is a table cell: both sides of `baseline / controlled`, nil where not (yet) measured.
type Entry struct{ Baseline, Controlled *result.Cell }

// Better says which side is ahead: −1 the baseline, +1 the controlled, 0 equal or not comparable.
func (e Entry) Better() int {
	if e.Baseline == nil || e.Controlled == nil {
		return 0
	}
	return cmp.Compare(Score(e.Controlled), Score(e.Baseline))
}

// Series is one model under one defense over the suite's columns, nil where a cell is missing.
type Series struct {
	Model, Defense string
	Index          int // 0 for the baseline, 1… for the controls in their order
	Cells          []*result.Cell
}

// Of arranges f. Suites, models, controls and attacks come in the order of
// f.Suites; whatever only the cells mention is appended in the cells' order.
func Of(f *result.File) *Report {
	sound := *f
	sound.Cells = slices.DeleteFunc(slices.Clone(f.Cells), func(c result.Cell) bool { return c.Error != "" })
	v := &Report{File: &sound}
	byName := map[string]*Suite{}
	add := func(rs result.Suite) *Suite {
		for _, names := range []*[]string{&rs.Models, &rs.Controls, &rs.Attacks} {
			*names = slices.Clone(*names)
		}
		s := &Suite{Suite: rs, File: f, cells: map[cellKey]*result.Cell{}}
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
		s.Slug = words.UniqueSlug(s.Name, slugs)
		if s.N == 0 {
			s.N = f.Datasets[s.Dataset].N
		}
		s.addMeans()
		s.arrangeColumns()
		s.collectNotes()
		s.Studies = studies(f, s.Name)
	}
	return v
}

func (s *Suite) include(c *result.Cell) {
	apart := s.sortOut(c) || s.certificate(c)
	switch {
	case c.Error != "":
		s.failed = append(s.failed, c)
	case !apart:
		s.cells[keyOf(c)] = c
	}
	s.N = max(s.N, c.N)
	s.Models = Once(s.Models, c.Model)
	if c.Defense != "none" {
		s.Controls = Once(s.Controls, c.Defense)
	}
	if c.Attack != "none" && !apart {
		s.Attacks = Once(s.Attacks, c.Attack)
	}
}

// Once appends v to a list that lacks it.
func Once[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// Distinct are the values that of gives for a list, each once, in their order.
func Distinct[T any, V comparable](list []T, of func(T) V) (out []V) {
	for _, one := range list {
		out = Once(out, of(one))
	}
	return out
}

func keyOf(c *result.Cell) cellKey {
	return cellKey{c.Model, c.Defense, c.Attack, words.OrMinusOne(c.Epsilon)}
}

// arrangeColumns lists None, then each attack with its epsilons in ascending
// order. An attack without any cell keeps its columns, so that a partial result
// shows what is still to come.
func (s *Suite) arrangeColumns() {
	s.Columns = []words.Column{{Attack: "none"}}
	for _, attack := range s.Attacks {
		if attack == "none" || s.File.Attacks[attack].Proves() {
			continue
		}
		of, as := map[float64]words.Column{}, s.File.Attacks[attack]
		for key, c := range s.cells {
			if c.Attack == attack {
				col := of[key.epsilon]
				col.Epsilon = c.Epsilon
				col.Learn(c)
				of[key.epsilon] = col
			}
		}
		if len(of) == 0 {
			of[-1] = words.Column{}
			for _, e := range as.Epsilons { // none of corruptions, and of older versions' files
				of[e] = words.Column{Epsilon: new(e), Norm: *as.Norm}
				delete(of, -1)
			}
		}
		for _, e := range slices.Sorted(maps.Keys(of)) {
			col := of[e]
			col.Attack, col.AttackTitle, col.Recipe = attack, as.Title, cmp.Or(col.Recipe, as.Recipe)
			s.Columns = append(s.Columns, col)
		}
	}
	heads := s.Heads()
	for i, head := range heads {
		s.Columns[i].Ambiguous = slices.Contains(heads[:i], head) || slices.Contains(heads[i+1:], head)
	}
}

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
func (s *Suite) Rows() []Row {
	controls := s.Controls
	switch {
	case s.Sides[0] != "":
		controls = []string{s.Sides[1]}
	case len(controls) == 0:
		controls = []string{""}
	}
	left := cmp.Or(s.Sides[0], "none")
	var rows []Row
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
func (s *Suite) Series(model string) []Series {
	var out []Series
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
func (s *Suite) Heading() string {
	if s.Title != "" {
		return words.Clean(s.Title)
	}
	return words.Clean(s.Name)
}

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
func (s *Suite) Missing() (n int) {
	if s.Quoted {
		return 0
	}
	n = len(s.Models) * len(s.Defenses()) * len(s.Columns)
	s.Each(func(*result.Cell, words.Column) { n-- })
	return max(n-len(s.failed), 0)
}
