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

// margins collects the records of one cell, one value per image that has it.
type margins struct {
	Margin  []float64 // z_y − max other logit
	Clean   []float64 // the same on the clean image
	Norm    []float64 // of the perturbations that exist
	First   []float64 // iteration of the first success, if there was one
	Queries []float64 // forward passes until then
	// reach holds the smallest norm known to break each image that was right to begin with, +Inf if it is unbroken.
	// Images broken at an unknown distance are left out.
	Reach  []float64
	Pixels []float64 // number that broken images change, in ℓ0
	wrong  int       // images that were wrong to begin with
	found  bool      // some image has a known distance
	// classes counts the images of each class, and those classified right.
	classes map[int]tally
}

// AddMargins sorts the records into the suites' cells and skips records of unknown cells.
func (v *Report) AddMargins(records iter.Seq[result.Record]) {
	if records == nil {
		return
	}
	byName := map[string]*Suite{}
	for _, s := range v.Suites {
		byName[s.Name], s.margins = s, map[cellKey]*margins{}
	}
	for r := range records {
		s := byName[r.Suite]
		if s == nil {
			continue
		}
		for _, by := range s.Certified { // the records at other radii repeat those at the first
			key := cellKey{model: r.Model, defense: r.Defense}
			switch {
			case by.Attack != r.Attack:
			case r.Radius != nil && r.Epsilon == by.Columns[0].Epsilon:
				by.radii[key] = append(by.radii[key], *r.Radius)
			case r.Proven != nil:
				broken := result.Distance(math.Inf(1)) // it is null in a file
				by.radii[key] = append(by.radii[key], *r.Proven)
				by.broken[key] = append(by.broken[key], float64(*cmp.Or(r.Broken, &broken)))
			}
		}
		key := cellKey{r.Model, r.Defense, r.Column}
		if s.cells[key] == nil {
			continue
		}
		if s.margins[key] == nil {
			s.margins[key] = &margins{classes: map[int]tally{}}
		}
		s.margins[key].add(r)
	}
}

// MarginsOf returns the collected records of a cell; nil if there are none.
func (s *Suite) MarginsOf(c *result.Cell) *margins { return s.margins[keyOf(c)] }

func (m *margins) add(r result.Record) {
	class := m.classes[r.Label]
	m.classes[r.Label] = tally{class.right + r.Verdict, class.n + 1}
	if margin := float64(r.Margin); !math.IsNaN(margin) {
		m.Margin = append(m.Margin, margin)
	}
	if r.Norm > 0 {
		m.Norm = append(m.Norm, r.Norm)
	}
	m.Clean, m.First = known(m.Clean, r.CleanMargin), known(m.First, r.FirstSuccess)
	m.Queries = known(m.Queries, r.Queries)
	switch {
	case r.Verdict == 1:
		m.Reach = append(m.Reach, math.Inf(1))
	case r.FirstSuccess == nil: // it was wrong to begin with
		m.wrong++
	case r.Distance != nil:
		// Another component may have broken the image at a nearer point.
		d := float64(*r.Distance)
		if r.Pixels != nil {
			m.Pixels = append(m.Pixels, float64(*r.Pixels))
		}
		m.Reach, m.found = append(m.Reach, min(d, cmp.Or(r.Norm, d))), true
	}
}

func known[N int | float64](list []float64, v *N) []float64 {
	if v == nil {
		return list
	}
	return append(list, float64(*v))
}

type tally struct{ right, n int }

// Share returns the accuracy; −1 if there is no image.
func (t tally) Share() float64 {
	if t.n == 0 {
		return -1
	}
	return float64(t.right) / float64(t.n)
}

func (t tally) String() string {
	if t.n == 0 {
		return words.Dash
	}
	return words.Percent(t.Share(), t.n)
}

// Class holds a class's number of images in one row of the accuracy table, and its accuracy under each column on both
// sides.
type Class struct {
	Label, Images int
	Sides         [][2]tally
}

// Weight returns the mean accuracy over the columns on a side, by which classes are ordered.
func (c Class) Weight(side int) float64 {
	var sum, n float64
	for _, t := range c.Sides {
		if t[side].n > 0 {
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
			for label, t := range s.MarginsOf(c).classes {
				b, known := found[label]
				if !known {
					b = Class{Label: label, Sides: make([][2]tally, len(line))}
				}
				b.Sides[i][side], b.Images = t, max(b.Images, t.n)
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
	Index   int     // index in series
	Steps   []Point // by epsilon, from the clean images at 0 on; nil if only Points are known
	Points  []Point // the cells, at least one
}

// Point is an accuracy at an epsilon.
type Point struct{ Epsilon, Accuracy float64 }

// Curves is a panel of robustness curves: one model under one attack.
type Curves struct {
	Model  string
	Attack words.Column // without its epsilon
	Lines  []Curve
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
			c, stepped := Curves{Model: m, Attack: by[len(by)-1]}, false
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

// PatchCurves returns a panel for each model and patch: the accuracy against the side of the square.
func PatchCurves(s *Suite) (out []Curves) {
	base := func(col words.Column) string {
		name, _, _ := strings.Cut(col.Attack, ":")
		return name
	}
	patches := lists.Only(s.Columns, func(col words.Column) bool {
		return s.File.Made(col.Attack).Kind == attacks.PatchKind && col.Source == ""
	})
	for _, m := range s.Models {
		for _, name := range lists.Distinct(patches, base) {
			of := lists.Only(patches, func(col words.Column) bool { return base(col) == name })
			c := Curves{Model: m, Attack: words.ColumnOf(name)}
			c.Attack.AttackTitle = of[0].AttackTitle
			for i, d := range s.Defenses() {
				line := Curve{Defense: d, Index: i}
				for _, col := range append([]words.Column{words.ColumnOf(cell.None)}, of...) {
					_, text, _ := strings.Cut(col.Attack, ":")
					side, _ := strconv.Atoi(text) // 0 for clean images
					if cell := s.Cell(m, d, col); cell != nil {
						line.Points = append(line.Points, Point{float64(side), cell.Accuracy})
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

// Asked is a panel of accuracy against queries: a model under a defense, with a line for each attack whose queries are
// counted.
type Asked struct {
	Model, Defense string
	Lines          []Queried
}

// Queried is the accuracy that an attack leaves as a function of the queries per image.
type Queried struct {
	Attack words.Column
	Steps  []Point // by queries, from the clean images at 0 to the largest allowed number
}

// AskedOf returns the panels of black-box attacks, for networks that were attacked themselves. They need records.
func AskedOf(s *Suite) (out []Asked) {
	for _, of := range s.Lines() {
		one := Asked{Model: of.Model, Defense: of.Defense}
		for i, c := range of.Cells {
			a, m := s.File.Made(s.Columns[i].Attack), (*margins)(nil)
			most, counted := count(a.Parameters["queries"])
			if c != nil {
				m = s.MarginsOf(c)
			}
			if !counted || m == nil || len(c.Steps) == 0 || c.N == 0 {
				continue
			}
			left := c.Correct + len(m.Queries)
			q := Queried{Attack: s.Columns[i], Steps: []Point{{0, float64(left) / float64(c.N)}}}
			for _, at := range slices.Sorted(slices.Values(m.Queries)) {
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
	var found *margins // those of the largest epsilon with all distances
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
		c.Steps = found.steps(upTo)
		c.Steps = append(c.Steps, lists.Only(c.Points, func(p Point) bool { return p.Epsilon > upTo })...)
	case cells > 1:
		c.Steps = c.Points
	}
	return c
}

// Distances reports whether the records contain the smallest norms that break a cell's images. They don't if an attack
// that does not minimise the norm broke an image, if attacks ended at the first success, or if the images were made on
// another network.
func (m *margins) Distances(c *result.Cell) bool {
	// An image that another attack broke counts neither in Reach nor as wrong from the start.
	return m != nil && m.found && len(c.Steps) > 0 && !c.VerdictOnly && len(m.Reach)+m.wrong == c.N
}

// steps returns the fraction of images that no perturbation up to an epsilon is known to break: its value at 0, and a
// step at each image's distance up to the end. There it equals the cell's accuracy.
func (m *margins) steps(end float64) []Point {
	n, left := float64(len(m.Reach)+m.wrong), len(m.Reach)
	out := []Point{{0, float64(left) / n}}
	for _, d := range slices.Sorted(slices.Values(m.Reach)) {
		if math.IsInf(d, 1) {
			break
		}
		left--
		at := Point{min(d, end), float64(left) / n} // the judge allows a slightly larger perturbation, for rounding
		if last := &out[len(out)-1]; last.Epsilon == at.Epsilon {
			*last = at
		} else {
			out = append(out, at)
		}
	}
	if out[len(out)-1].Epsilon < end {
		out = append(out, Point{end, float64(left) / n})
	}
	return out
}

// At returns the accuracy at an epsilon by the steps of a curve; there must be at least one.
func At(steps []Point, epsilon float64) float64 {
	reached := lists.Count(steps, func(p Point) bool { return p.Epsilon <= epsilon })
	return steps[max(reached-1, 0)].Accuracy
}
