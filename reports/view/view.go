// Package view arranges results and comparisons for reading. Tables and figures are made of what it arranges.
package view

import (
	"cmp"
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
	Corrupted []*Apart       // corruptions, whose means are among cells
	Certified []*Apart       // certificates
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

// Of arranges f. Suites, models, controls and attacks come in the order of f.Suites; names that only cells mention
// follow in the cells' order.
func Of(f *result.File) *Report {
	sound := *f
	sound.Cells = slices.DeleteFunc(slices.Clone(f.Cells), func(c result.Cell) bool { return c.Error != "" })
	v := &Report{File: &sound}
	byName := map[string]*Suite{}
	suite := func(of result.Suite) *Suite {
		if s := byName[of.Name]; s != nil {
			return s
		}
		for _, names := range []*[]string{&of.Models, &of.Controls, &of.Attacks} {
			*names = slices.Clone(*names)
		}
		s := &Suite{Suite: of, File: f, cells: map[cellKey]*result.Cell{}}
		byName[of.Name], v.Suites = s, append(v.Suites, s)
		return s
	}
	for _, s := range f.Suites {
		suite(s)
	}
	for i := range f.Cells {
		c := &f.Cells[i]
		suite(result.Suite{Name: c.Suite, Dataset: c.Dataset, Mode: c.Mode}).include(c)
	}
	slugs, anchors := map[string]bool{}, map[string]bool{}
	for _, s := range v.Suites {
		s.Slug = words.UniqueSlug(s.Name, slugs)
		s.N = cmp.Or(s.N, f.Datasets[s.Dataset].N)
		s.addMeans()
		s.arrangeColumns()
		s.collectNotes()
		s.addStudies(anchors)
	}
	return v
}

func (s *Suite) include(c *result.Cell) {
	apart := s.setApart(c)
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

// arrangeColumns lists None, then each attack with its epsilons in ascending order. An attack without any cell keeps
// its columns, so that a partial result shows what is still to come.
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
