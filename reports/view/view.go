// Package view arranges results and comparisons for reading. Tables and figures are made of what it arranges.
package view

import (
	"cmp"
	"maps"
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Report is a result file arranged for reading. Every format renders it alone, so that no two can disagree.
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
	about
	cells            // means over corruptions among them
	Slug      string // Name made safe for file names and anchors, unique in the file
	Columns   []words.Column
	Notes     notes
	File      *result.File
	Corrupted []*Apart
	Certified []*Apart
	failed    []*result.Cell // cells with an error and no verdicts
	Studies   []Study
	margins   map[cellKey]*margins
	Sides     [2]string // the defenses on both sides of every row; "" where they are none and each control
}

type cellKey struct {
	model, defense, attack string
	epsilon                float64 // −1 for null
}

func keyOf(c *result.Cell) cellKey {
	return cellKey{c.Model, c.Defense, c.Attack, words.OrMinusOne(c.Epsilon)}
}

type cells map[cellKey]*result.Cell

// Cell returns the cell of a model, a defense ("none" or a control) and a column, or nil.
func (of cells) Cell(model, defense string, col words.Column) *result.Cell {
	return of[cellKey{model, defense, col.Attack, words.OrMinusOne(col.Epsilon)}]
}

// Of arranges f in the order of f.Suites. Names that only cells mention follow in the cells' order.
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
		s := &Suite{about: about{Suite: of}, File: f, cells: cells{}}
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
		s.arrangeColumns()
		s.Seeds = 1
		for _, c := range s.cells {
			s.Seeds = max(s.Seeds, len(c.Seeds))
		}
		s.Notes = notesOf(s)
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

// arrangeColumns lists None, then each attack by epsilon. An attack without any cell keeps its columns: they are to
// come. The mean over an attack's corruptions is a cell of the suite, where every one of them is there.
func (s *Suite) arrangeColumns() {
	for of := range s.Lines() {
		for _, by := range s.Corrupted {
			if c := by.Mean(of.Model, of.Defense, by.Names, by.Severities); c != nil {
				c.Attack = by.Attack
				s.cells[keyOf(c)] = c
			}
		}
	}
	s.Columns = []words.Column{{Attack: "none"}}
	for _, attack := range s.Attacks {
		as := s.File.Attacks[attack]
		if attack == "none" || as.Proves() {
			continue
		}
		of := map[float64]words.Column{}
		for key, c := range s.cells {
			if c.Attack == attack {
				col := of[key.epsilon]
				col.Epsilon = c.Epsilon
				col.Learn(c)
				of[key.epsilon] = col
			}
		}
		if len(of) == 0 {
			for _, e := range as.Epsilons {
				of[e] = words.Column{Epsilon: new(e), Norm: *as.Norm}
			}
		}
		if len(of) == 0 { // corruptions, and files of older versions, have no epsilons
			of[-1] = words.Column{}
		}
		for _, e := range slices.Sorted(maps.Keys(of)) {
			col := of[e]
			col.Attack, col.AttackTitle, col.Recipe = attack, as.Title, cmp.Or(col.Recipe, as.Recipe)
			s.Columns = append(s.Columns, col)
		}
	}
	heads := s.Heads()
	for i, head := range heads {
		s.Columns[i].Ambiguous = CountOf(heads, func(other string) bool { return other == head }) > 1
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

// CountOf counts what holds of a list.
func CountOf[T any](list []T, holds func(T) bool) (n int) {
	for _, v := range list {
		if holds(v) {
			n++
		}
	}
	return n
}

// Only are those of a list that something holds of.
func Only[T any](list []T, holds func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !holds(v) })
}
