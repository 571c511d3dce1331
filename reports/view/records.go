package view

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// AddMargins sorts the records into the suites' cells and skips records of unknown cells.
func (v *Report) AddMargins(records iter.Seq[result.Record]) {
	if records == nil {
		return
	}
	byName := map[string]*Suite{}
	for _, s := range v.Suites {
		byName[s.Name], s.margins = s, map[cell.ID]*result.Recorded{}
	}
	for r := range records {
		s := byName[r.Suite]
		if s == nil {
			continue
		}
		for _, r.Defense = range s.Named(r.ID) {
			addMargin(s, r)
		}
	}
}

func addMargin(s *Suite, r result.Record) {
	for _, by := range s.Sets {
		by.add(r)
	}
	key := keyOf(r.ID)
	if s.cells[key] == nil {
		return
	}
	if s.margins[key] == nil {
		s.margins[key] = &result.Recorded{}
	}
	s.margins[key].Add(r)
}

// MarginsOf returns the collected records of a cell; nil if there are none.
func (s *Suite) MarginsOf(c *result.Cell) *result.Recorded { return s.margins[keyOf(c.ID)] }

// Class holds a class's number of images in one row of the accuracy table, and its accuracy under each column on both
// sides.
type Class struct {
	Label, Images int
	Sides         [][2]result.Tally
}

// Weight returns the mean accuracy over the columns on a side, by which classes are ordered.
func (c Class) Weight(side int) float64 {
	var sum, n float64
	for _, t := range c.Sides {
		if t[side].N > 0 {
			sum, n = sum+t[side].Share(), n+1
		}
	}
	return sum / max(n, 1)
}

// Classes sorts the records of a row's cells by class, in the order of the labels; nil if there are none.
func (s *Suite) Classes(r Row) []Class {
	found := map[int]Class{}
	for side, line := range r.Sides {
		for i, c := range line {
			if c == nil || s.MarginsOf(c) == nil {
				continue
			}
			for label, t := range s.MarginsOf(c).Classes {
				b, known := found[label]
				if !known {
					b = Class{Label: label, Sides: make([][2]result.Tally, len(line))}
				}
				b.Sides[i][side], b.Images = t, max(b.Images, t.N)
				found[label] = b
			}
		}
	}
	return lists.Map(slices.Sorted(maps.Keys(found)), func(label int) Class { return found[label] })
}

// ClassName returns a class's name in the data set, or its number if it has none.
func (s *Suite) ClassName(label int) string {
	if names := s.File.Datasets[s.Dataset].ClassNames; label >= 0 && label < len(names) {
		return words.Clean(names[label])
	}
	return strconv.Itoa(label)
}

// Curve is an accuracy against epsilon under one attack: a step function, which keeps a value until the next step.
type Curve struct {
	Defense string
	Attack  words.Column // in a panel of several attacks
	Index   int          // index in series
	Steps   []Point      // by epsilon, from the clean images at 0 on; nil if only Points are known
	Points  []Point      // the cells, at least one
}

// Point is an accuracy at an epsilon.
type Point struct{ Epsilon, Accuracy float64 }

// Curves is a panel of robustness curves: one model under one attack.
type Curves struct {
	cell.Row              // of all its lines; without a defense unless it is a panel of several attacks
	Attack   words.Column // without its epsilon
	Lines    []Curve
}

// End returns the largest known epsilon.
func (c Curve) End() (end float64) {
	for _, p := range slices.Concat(c.Steps, c.Points) {
		end = max(end, p.Epsilon)
	}
	return end
}

// End returns the largest epsilon of all lines.
func (c Curves) End() (end float64) {
	for _, line := range c.Lines {
		end = max(end, line.End())
	}
	return end
}

// Curves returns a panel for each model and attack. Steps come from the records' distances, if a cell has all of them,
// or from the cells of a list of epsilons. A defense without either adds its cells to a panel that has a curve.
func (s *Suite) Curves() (out []Curves) {
	for _, m := range s.Models {
		for _, by := range attacked(s) {
			c, stepped := Curves{Row: cell.Row{Model: m}, Attack: by[len(by)-1]}, false
			if of := c.Attack.Source; of != "" && of != m { // another figure shows it
				continue
			}
			c.Attack.Epsilon, c.Attack.Source = 0, ""
			for i, d := range s.Defenses() {
				if line := s.curve(m, d, by); len(line.Points) > 0 {
					line.Index = i
					stepped = stepped || line.Steps != nil
					c.Lines = append(c.Lines, line)
				}
			}
			if stepped && c.End() > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

// VariantCurves returns a panel for each model and attack with a list of numbers, such as a patch's sides: the accuracy
// against the number, clean images at 0.
func VariantCurves(s *Suite) (out []Curves) {
	listed := func(col words.Column) bool {
		kind := s.File.Made(col.Attack).Kind
		return attacks.Variant(kind, "0") != "" && col.Source == ""
	}
	base := func(col words.Column) string { name, _, _ := strings.Cut(col.Attack, ":"); return name }
	for _, m := range s.Models {
		all := lists.Only(s.Columns, listed)
		for _, name := range lists.Distinct(all, base) {
			of := lists.Only(all, func(col words.Column) bool { return base(col) == name })
			c := Curves{Row: cell.Row{Model: m}, Attack: words.ColumnOf(name)}
			for i, d := range s.Defenses() {
				line := Curve{Defense: d, Index: i}
				for _, col := range append([]words.Column{s.Columns[0]}, of...) {
					_, text, _ := strings.Cut(col.Attack, ":")
					number, _ := strconv.Atoi(text) // 0 for clean images
					if cell := s.Cell(m, d, col); cell != nil {
						line.Points = append(line.Points, Point{float64(number), cell.Accuracy})
					}
				}
				slices.SortFunc(line.Points, func(a, b Point) int { return cmp.Compare(a.Epsilon, b.Epsilon) })
				if len(line.Points) > 1 {
					c.Lines = append(c.Lines, line)
				}
			}
			if len(of) > 1 && c.Lines != nil {
				out = append(out, c)
			}
		}
	}
	return out
}

// AskedOf returns panels of the accuracy against queries of an image, one for each network under a defense that was
// attacked itself, with a line for each attack whose queries are counted: from the clean images at 0 to the largest
// allowed number. They need records.
func AskedOf(s *Suite) (out []Curves) {
	for _, of := range s.Lines() {
		one := Curves{Row: cell.Row{Model: of.Model, Defense: of.Defense}}
		for i, c := range of.Cells {
			a, m := s.File.Made(s.Columns[i].Attack), (*result.Recorded)(nil)
			most, counted := count(a.Parameters["queries"])
			if c != nil {
				m = s.MarginsOf(c)
			}
			if !counted || m == nil || len(c.Steps) == 0 || c.N == 0 {
				continue
			}
			left := c.Correct + len(m.Values["queries"])
			q := Curve{Attack: s.Columns[i], Steps: []Point{{0, float64(left) / float64(c.N)}}}
			for _, at := range slices.Sorted(slices.Values(m.Values["queries"])) {
				left--
				q.Steps = append(q.Steps, Point{at, float64(left) / float64(c.N)})
			}
			q.Steps = append(q.Steps, Point{max(most, q.Steps[len(q.Steps)-1].Epsilon), c.Accuracy})
			one.Lines = append(one.Lines, q)
		}
		if one.Lines != nil {
			out = append(out, one)
		}
	}
	return out
}

// count reads a whole number of results, either as computed or as decoded from JSON.
func count(v any) (n float64, ok bool) {
	if i, is := v.(int); is {
		return float64(i), true
	}
	n, ok = v.(float64)
	return n, ok
}

// attacked returns the columns with an epsilon, grouped by attack and source, with ascending epsilons.
func attacked(s *Suite) (all [][]words.Column) {
	made := func(col words.Column) [2]string { return [2]string{col.Attack, col.Source} }
	strong := lists.Only(s.Columns, func(col words.Column) bool { return col.Epsilon != 0 })
	return lists.Map(lists.Distinct(strong, made), func(of [2]string) []words.Column {
		return lists.Only(strong, func(col words.Column) bool { return made(col) == of })
	})
}

// curve returns one line; it has no points if the columns' attack has no cell.
func (s *Suite) curve(model, defense string, columns []words.Column) Curve {
	c := Curve{Defense: defense}
	var found *result.Recorded // those of the largest epsilon with all distances
	var upTo float64
	for _, col := range columns {
		cell := s.Cell(model, defense, col)
		if cell == nil {
			continue
		}
		c.Points = append(c.Points, Point{float64(col.Epsilon), cell.Accuracy})
		if m := s.MarginsOf(cell); m.Distances(cell) {
			found, upTo = m, float64(col.Epsilon)
		}
	}
	if len(c.Points) == 0 {
		return c
	}
	cells := len(c.Points)
	if start := s.Cell(model, defense, words.ColumnOf(cell.None)); start != nil {
		c.Points = slices.Insert(c.Points, 0, Point{0, start.Accuracy})
	}
	switch {
	case found != nil:
		c.Steps = steps(found, upTo)
		c.Steps = append(c.Steps, lists.Only(c.Points, func(p Point) bool { return p.Epsilon > upTo })...)
	case cells > 1:
		c.Steps = c.Points
	}
	return c
}

// steps returns the fraction of images that no perturbation up to an epsilon is known to break: its value at 0, and a
// step at each image's distance up to the end. There it equals the cell's accuracy.
func steps(m *result.Recorded, end float64) []Point {
	reach := make([]float64, m.Wrong) // images that were wrong have a distance of 0
	for _, d := range m.Reach {
		if !math.IsInf(d, 1) {
			d = min(d, end) // the judge allows a slightly larger perturbation, for rounding
		}
		reach = append(reach, d)
	}
	return above(reach, end)
}

// At returns the accuracy at an epsilon by the steps of a curve; there must be at least one.
func At(steps []Point, epsilon float64) float64 {
	reached := lists.Count(steps, func(p Point) bool { return p.Epsilon <= epsilon })
	return steps[max(reached-1, 0)].Accuracy
}
