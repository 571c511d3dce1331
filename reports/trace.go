package reports

import (
	"fmt"
	"slices"
	"strconv"

	"selfheal/harness/result"
)

// traced is a model under a control whose cells tell what it does layer by layer.
type traced struct {
	Model, Control string
	Layers         []string
	Columns        []column
	Solvers        []*result.Solver // one a column
}

// Traced lists those of the suite, in its order.
func (s *suite) Traced() []traced {
	var out []traced
	for _, m := range s.Models {
		for _, d := range s.Controls {
			t := traced{Model: m, Control: d}
			for _, col := range s.Columns {
				c := s.Cell(m, d, col)
				if c == nil || c.Solver == nil || len(c.Solver.Layers) == 0 ||
					t.Solvers != nil && len(c.Solver.Layers) != len(t.Layers) {
					continue
				}
				if t.Solvers == nil {
					for _, l := range c.Solver.Layers {
						t.Layers = append(t.Layers, layerName(l.At))
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
func (t traced) Name() string { return clean(t.Model) + " · " + clean(t.Control) }

// layerName is how a layer reads; a config has boundaries as numbers.
func layerName(at string) string {
	if _, err := strconv.Atoi(at); err == nil {
		return "boundary " + at
	}
	return clean(at)
}

// sweeps is how many sweeps the solver was followed through on every column; 0 where it was not.
func (t traced) sweeps() int {
	n := len(t.Solvers[0].Sweeps)
	for _, s := range t.Solvers {
		if len(s.Sweeps) != n {
			return 0
		}
	}
	return max(n-1, 0)
}

// layerTable has a line for each layer, a column for each kind of images.
func (s suiteTables) layerTable(all []traced, caption string, of func(result.SolverLayer) float64) table {
	t := table{Anchor: s.Slug, Lead: 3, Head: []string{"Model", "Control", "Layer"},
		Caption: s.caption(caption + s.ofFirstSeed())}
	t.Head = append(t.Head, s.heads()...)
	for _, one := range all {
		for i, layer := range one.Layers {
			if len(one.Layers) > 1 { // as a figure counts them
				layer = fmt.Sprintf("%d: %s", i+1, layer)
			}
			line := boxes(clean(one.Model), defenseName(one.Control), layer)
			for _, col := range s.Columns {
				value := dash
				if k := slices.IndexFunc(one.Columns, col.same); k >= 0 {
					value = threeDigits(of(one.Solvers[k].Layers[i]))
				}
				line = append(line, text(value))
			}
			t.Rows = append(t.Rows, line)
		}
	}
	return t.marked()
}

// sweepTable follows the objective from the greedy start through the sweeps, by its difference from that.
func (s suiteTables) sweepTable(all []traced) table {
	t := table{Anchor: s.Slug, Lead: 3, Head: []string{"Model", "Control", "Images", "Traced", "Greedy start"},
		Caption: s.caption("Objective at the greedy start, and its difference from that after each sweep, mean over " +
			"the first images" + s.ofFirstSeed())}
	most := 0
	for _, one := range all {
		most = max(most, one.sweeps())
	}
	shown := shownSweeps(most)
	for _, k := range shown {
		t.Head = append(t.Head, fmt.Sprintf("Sweep %d", k))
	}
	for _, one := range all {
		if one.sweeps() == 0 {
			continue
		}
		for i, v := range one.Solvers {
			line := boxes(clean(one.Model), defenseName(one.Control), one.Columns[i].Title(), thousands(v.Traced),
				fourDigits(v.Sweeps[0]))
			for _, k := range shown {
				value := dash
				if k < len(v.Sweeps) {
					value = signed(v.Sweeps[k] - v.Sweeps[0])
				}
				line = append(line, text(value))
			}
			t.Rows = append(t.Rows, line)
		}
	}
	return t.marked()
}

// TraceTables are norms and losses by layer, and the objective from sweep to sweep.
func (s suiteTables) TraceTables() []table {
	all := s.Traced()
	norm := func(l result.SolverLayer) float64 { return l.ControlNorm }
	loss := func(l result.SolverLayer) float64 { return l.Loss }
	return filled(s.layerTable(all, "Control norm ‖u_t‖ by layer", norm),
		s.layerTable(all, "Running loss by layer, at the end", loss), s.sweepTable(all))
}
