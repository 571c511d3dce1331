package table

import (
	"fmt"
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// layerTable has a line for each layer, a column for each kind of images.
func (s Suite) layerTable(all []view.Traced, caption string, of func(result.SolverLayer) float64) Table {
	t := Table{Anchor: s.Slug, Lead: 3, Head: []string{"Model", "Control", "Layer"},
		Caption: s.Caption(caption + s.OfFirstSeed())}
	t.Head = append(t.Head, s.Heads()...)
	for _, one := range all {
		for i, layer := range one.Layers {
			if len(one.Layers) > 1 { // as a figure counts them
				layer = fmt.Sprintf("%d: %s", i+1, layer)
			}
			line := boxes(words.Clean(one.Model), words.DefenseName(one.Control), layer)
			for _, col := range s.Columns {
				value := words.Dash
				if k := slices.IndexFunc(one.Columns, col.Same); k >= 0 {
					value = words.ThreeDigits(of(one.Solvers[k].Layers[i]))
				}
				line = append(line, text(value))
			}
			t.Rows = append(t.Rows, line)
		}
	}
	return t.marked()
}

// sweepTable follows the objective from the greedy start through the sweeps, by its difference from that.
func (s Suite) sweepTable(all []view.Traced) Table {
	t := Table{Anchor: s.Slug, Lead: 3, Head: []string{"Model", "Control", "Images", "Traced", "Greedy start"},
		Caption: s.Caption("Objective at the greedy start, and its difference from that after each sweep, mean over " +
			"the first images" + s.OfFirstSeed())}
	most := 0
	for _, one := range all {
		most = max(most, one.Sweeps())
	}
	shown := view.ShownSweeps(most)
	for _, k := range shown {
		t.Head = append(t.Head, fmt.Sprintf("Sweep %d", k))
	}
	for _, one := range all {
		if one.Sweeps() == 0 {
			continue
		}
		for i, v := range one.Solvers {
			line := boxes(words.Clean(one.Model), words.DefenseName(one.Control), one.Columns[i].Title(), words.Thousands(v.Traced),
				words.FourDigits(v.Sweeps[0]))
			for _, k := range shown {
				value := words.Dash
				if k < len(v.Sweeps) {
					value = words.Signed(v.Sweeps[k] - v.Sweeps[0])
				}
				line = append(line, text(value))
			}
			t.Rows = append(t.Rows, line)
		}
	}
	return t.marked()
}

// TraceTables are norms and losses by layer, and the objective from sweep to sweep.
func (s Suite) TraceTables() []Table {
	all := s.Traced()
	norm := func(l result.SolverLayer) float64 { return l.ControlNorm }
	loss := func(l result.SolverLayer) float64 { return l.Loss }
	return filled(s.layerTable(all, "Control norm ‖u_t‖ by layer", norm),
		s.layerTable(all, "Running loss by layer, at the end", loss), s.sweepTable(all))
}
