package reports

import (
	"math"
	"slices"

	"selfheal/harness/result"
	"selfheal/internal/number"
)

// curve is the accuracy of one model under one defense against epsilon, under one
// attack: a step function, which holds a value until the next step.
type curve struct {
	Defense string
	Index   int     // as in series
	Steps   []point // by epsilon, from the clean images at 0 on; nil where only Points are known
	Points  []point // the cells, at least one
}

// point is an accuracy at an epsilon.
type point struct{ Epsilon, Accuracy float64 }

// curves is a panel of robustness curves: one model under one attack.
type curves struct {
	Model  string
	Attack column // without its epsilon
	Lines  []curve
}

// end is the largest epsilon at which something is known.
func (c curve) end() float64 {
	end := 0.0
	for _, known := range [][]point{c.Steps, c.Points} {
		if len(known) > 0 {
			end = max(end, known[len(known)-1].Epsilon)
		}
	}
	return end
}

// end is that of the longest line.
func (c curves) end() float64 {
	most := 0.0
	for _, line := range c.Lines {
		most = max(most, line.end())
	}
	return most
}

// Curves returns the robustness curves that the suite has data for, a panel a model
// and attack. The steps of a curve come from the records' distances, where those of a
// cell are whole, and otherwise from the cells of a list of epsilons. A defense without
// either adds its cells to a panel that others have a curve in.
func (s *suite) Curves() []curves {
	var out []curves
	for _, m := range s.Models {
		for _, attack := range s.Attacks {
			c := curves{Model: m}
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
			if stepped && c.end() > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

// curve is one line: without points where the attack has no cell.
func (s *suite) curve(model, defense, attack string) curve {
	c := curve{Defense: defense}
	var found *margins // of the largest epsilon whose distances are whole
	var upTo float64
	for _, col := range s.Columns { // epsilons ascend
		cell := s.Cell(model, defense, col)
		if col.Attack != attack || col.Epsilon == nil || cell == nil {
			continue
		}
		c.Points = append(c.Points, point{*col.Epsilon, cell.Accuracy})
		if m := s.distances(cell); m != nil {
			found, upTo = m, *col.Epsilon
		}
	}
	if len(c.Points) == 0 {
		return c
	}
	cells := len(c.Points)
	if start := s.Cell(model, defense, column{Attack: "none"}); start != nil {
		c.Points = slices.Insert(c.Points, 0, point{0, start.Accuracy})
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

// distances returns what the records say of the smallest norms that break a cell's
// images, or nil where they don't tell them all. They don't where an image was broken by
// an attack that does not minimise the norm, where attacks ended at the first success,
// and where the images were made on another network.
func (s *suite) distances(c *result.Cell) *margins {
	m := s.margins[keyOf(c)]
	// An image that another attack broke is neither in reach nor wrong from the start.
	if m == nil || !m.found || len(c.Steps) == 0 || c.VerdictOnly || len(m.reach)+m.wrong != c.N {
		return nil
	}
	return m
}

// steps is the share of images that no perturbation up to an epsilon is known to break:
// its value at 0, and a step at each image's distance up to the end. There it is the
// cell's accuracy.
func (m *margins) steps(end float64) []point {
	n, left := float64(len(m.reach)+m.wrong), len(m.reach)
	out := []point{{0, float64(left) / n}}
	for _, d := range slices.Sorted(slices.Values(m.reach)) {
		if math.IsInf(d, 1) {
			break
		}
		left--
		at := point{min(d, end), float64(left) / n} // the judge allows a perturbation a rounding error more
		if last := &out[len(out)-1]; last.Epsilon == at.Epsilon {
			*last = at
		} else {
			out = append(out, at)
		}
	}
	if out[len(out)-1].Epsilon < end {
		out = append(out, point{end, float64(left) / n})
	}
	return out
}

// at is a curve's value at an epsilon; steps are there.
func (c curve) at(epsilon float64) float64 {
	value := c.Steps[0].Accuracy
	for _, p := range c.Steps {
		if p.Epsilon <= epsilon {
			value = p.Accuracy
		}
	}
	return value
}

// distanceTable says how large the perturbations are that break the images, for the
// cells that tell: the curves in numbers.
func (s suiteTables) distanceTable() table {
	what := "Smallest perturbation found that breaks an image that is right" + s.ofFirstSeed()
	head := []string{"Right images", "Unbroken", "10 % below", "Median", "90 % below"}
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		m := s.distances(c)
		if m == nil {
			return
		}
		standing := 0
		for _, d := range m.reach {
			if math.IsInf(d, 1) {
				standing++
			}
		}
		said := []any{thousands(len(m.reach)), thousands(standing)}
		for _, q := range []float64{0.1, 0.5, 0.9} {
			if d := rankOf(m.reach, q); math.IsInf(d, 1) {
				said = append(said, "> "+number.Format(*c.Epsilon))
			} else {
				said = append(said, strength(*c.Norm, d))
			}
		}
		add(said...)
	})
}

// bounded reports whether the suite has certificates by bounds.
func (s *suite) bounded() bool {
	return slices.ContainsFunc(s.certified, func(by *certifiedBy) bool { return !by.of.Smooths() })
}
