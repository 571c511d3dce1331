package view

import (
	"math"
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Curve is an accuracy against epsilon under one attack: a step function, which holds a value until the next step.
type Curve struct {
	Defense string
	Index   int     // as in series
	Steps   []Point // by epsilon, from the clean images at 0 on; nil where only Points are known
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

// End is the largest epsilon at which something is known.
func (c Curve) End() (end float64) {
	for _, p := range slices.Concat(c.Steps, c.Points) {
		end = max(end, p.Epsilon)
	}
	return end
}

// End is that of the longest line.
func (c Curves) End() (end float64) {
	for _, line := range c.Lines {
		end = max(end, line.End())
	}
	return end
}

// Curves are panels of a model and attack each. Steps come from the records' distances, where a cell's are whole, or
// from the cells of a list of epsilons. A defense without either adds its cells to a panel with a curve.
func (s *Suite) Curves() (out []Curves) {
	for _, m := range s.Models {
		for _, attack := range s.Attacks {
			c := Curves{Model: m}
			for _, col := range s.Columns {
				if col.Attack == attack && col.Epsilon != nil {
					c.Attack = col
				}
			}
			c.Attack.Epsilon = nil
			stepped := false
			for i, d := range s.Defenses() {
				if line := s.curve(m, d, attack); len(line.Points) > 0 {
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

// curve is one line: without points where the attack has no cell.
func (s *Suite) curve(model, defense, attack string) Curve {
	c := Curve{Defense: defense}
	var found *margins // of the largest epsilon whose distances are whole
	var upTo float64
	for _, col := range s.Columns { // epsilons ascend
		cell := s.Cell(model, defense, col)
		if col.Attack != attack || col.Epsilon == nil || cell == nil {
			continue
		}
		c.Points = append(c.Points, Point{*col.Epsilon, cell.Accuracy})
		if m := s.MarginsOf(cell); m.Distances(cell) {
			found, upTo = m, *col.Epsilon
		}
	}
	if len(c.Points) == 0 {
		return c
	}
	cells := len(c.Points)
	if start := s.Cell(model, defense, words.Column{Attack: "none"}); start != nil {
		c.Points = slices.Insert(c.Points, 0, Point{0, start.Accuracy})
	}
	switch {
	case found != nil:
		c.Steps = found.steps(upTo)
		for _, p := range c.Points {
			if p.Epsilon > upTo {
				c.Steps = append(c.Steps, p)
			}
		}
	case cells > 1:
		c.Steps = c.Points
	}
	return c
}

// Distances reports whether the records tell the smallest norms that break a cell's images. They don't where an image
// was broken by an attack that does not minimise the norm, where attacks ended at the first success, and where the
// images were made on another network.
func (m *margins) Distances(c *result.Cell) bool {
	// An image that another attack broke is neither in reach nor wrong from the start.
	return m != nil && m.found && len(c.Steps) > 0 && !c.VerdictOnly && len(m.Reach)+m.wrong == c.N
}

// steps is the share of images that no perturbation up to an epsilon is known to break: its value at 0, and a step at
// each image's distance up to the end. There it is the cell's accuracy.
func (m *margins) steps(end float64) []Point {
	n, left := float64(len(m.Reach)+m.wrong), len(m.Reach)
	out := []Point{{0, float64(left) / n}}
	for _, d := range slices.Sorted(slices.Values(m.Reach)) {
		if math.IsInf(d, 1) {
			break
		}
		left--
		at := Point{min(d, end), float64(left) / n} // the judge allows a perturbation a rounding error more
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

// At is a curve's value at an epsilon; steps are there.
func (c Curve) At(epsilon float64) float64 {
	value := c.Steps[0].Accuracy
	for _, p := range c.Steps {
		if p.Epsilon <= epsilon {
			value = p.Accuracy
		}
	}
	return value
}
