package view

import (
	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Traced is a model under a control whose cells tell what it does layer by layer.
type Traced struct {
	Model, Control string
	Layers         []string
	Columns        []words.Column
	Solvers        []*result.Solver // one a column
}

// Traced lists those of the suite, in its order.
func (s *Suite) Traced() []Traced {
	var out []Traced
	for _, m := range s.Models {
		for _, d := range s.Controls {
			t := Traced{Model: m, Control: d}
			for _, col := range s.Columns {
				c := s.Cell(m, d, col)
				if c == nil || c.Solver == nil || len(c.Solver.Layers) == 0 ||
					t.Solvers != nil && len(c.Solver.Layers) != len(t.Layers) {
					continue
				}
				if t.Solvers == nil {
					for _, l := range c.Solver.Layers {
						t.Layers = append(t.Layers, words.LayerName(l.At))
					}
				}
				t.Columns, t.Solvers = append(t.Columns, col), append(t.Solvers, c.Solver)
			}
			if t.Solvers != nil {
				out = append(out, t)
			}
		}
	}
	return out
}

// Name is what a panel's title says.
func (t Traced) Name() string { return words.Clean(t.Model) + " · " + words.Clean(t.Control) }

// Sweeps is how many sweeps the solver was followed through on every column; 0 where it was not.
func (t Traced) Sweeps() int {
	n := len(t.Solvers[0].Sweeps)
	for _, s := range t.Solvers {
		if len(s.Sweeps) != n {
			return 0
		}
	}
	return max(n-1, 0)
}

// MostTraced is how many networks under a control a figure of traces shows.
const MostTraced = 6
