// Package gate compares results with a baseline, cell by cell and image by image, and decides whether they pass;
// docs/gate.md explains how. [NewBaseline] makes a baseline of a run, [Read] and [Baseline.Write] keep it in a file,
// [Compare] makes a [Report], and the report writes itself as text, Markdown or JUnit XML. It refuses to compare
// numbers that were made with other settings. It needs no ONNX Runtime.
package gate

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/lists"
)

// Cell is a cell of a run, as a baseline file has it.
type Cell struct {
	cell.ID
	Norm     *string  `json:"norm"`   // null for "none"
	Recipe   string   `json:"recipe"` // "" for "none"
	N        int      `json:"n"`
	Correct  int      `json:"correct"`
	Verdicts verdicts `json:"verdicts"`
	// Near are the indices in Verdicts of the images whose margin is within rounding of the other verdict.
	Near []int `json:"near,omitempty"`
}

// agreed returns the cell's verdicts with those of an older cell in place of verdicts that another processor may have
// turned: on images within rounding in either cell.
func (c Cell) agreed(old Cell) string {
	verdicts := []byte(c.Verdicts)
	for _, i := range slices.Concat(c.Near, old.Near) {
		verdicts[i] = old.Verdicts[i]
	}
	return string(verdicts)
}

// most returns how many images may be right, counting wrong ones within rounding.
func (c Cell) most() int {
	return c.Correct + lists.Count(c.Near, func(i int) bool { return c.Verdicts[i] == '0' })
}

// String names the cell in messages.
func (c Cell) String() string { return plain(c.Suite) + "/" + c.name() }

// name returns the cell's name within its suite, as [config.CellPattern] has it.
func (c Cell) name() string { return plain(c.Name()) }

// check returns an error for a cell that no run writes.
func (c Cell) check(of made) error {
	for _, s := range []struct{ key, value string }{{"suite", c.Suite}, {"dataset", c.Dataset}, {"model", c.Model},
		{"defense", c.Defense}, {"attack", c.Attack}} {
		if s.value == "" {
			return fmt.Errorf("a cell lacks its %s", s.key)
		}
	}
	if !slices.Contains(result.ModeNames(), c.Mode) {
		return fmt.Errorf("cell %s: its mode is %q, not one of %s", c, c.Mode, strings.Join(result.ModeNames(), ", "))
	}
	_, made, attack := result.AttackOf(of.Attacks, c.Attack)
	clean := c.Attack == cell.None
	free := clean || made.Free() // has neither norm nor epsilon
	if free != (c.Norm == nil) || (free || made.Brackets()) != (c.Epsilon == 0) || clean != (c.Recipe == "") {
		return fmt.Errorf("cell %s: an attack has norm, epsilon and recipe, a corruption its recipe (as spatial and "+
			"patch), clean images have none of them", c)
	}
	if c.Norm != nil && (!slices.Contains(config.Norms, *c.Norm) || !(c.Epsilon >= 0)) {
		return fmt.Errorf("cell %s: norm %q or epsilon %v is none", c, *c.Norm, float64(c.Epsilon))
	}
	_, model := of.Models[c.Model]
	_, control := of.Controls[c.Defense]
	images, ok := of.Datasets[c.Dataset]
	const unsaid = "cell %s: nothing says how its %s %q was made; run it again with this version"
	switch {
	case !ok:
		return fmt.Errorf("cell %s: its dataset %q is not among the datasets", c, c.Dataset)
	case !model:
		return fmt.Errorf("cell %s: its model is not among the models", c)
	case c.N < 1 || c.N != images.N:
		return fmt.Errorf("cell %s: n is %d, its dataset %q has %d images", c, c.N, c.Dataset, images.N)
	case !attack && !clean:
		return fmt.Errorf(unsaid, c, "attack", c.Attack)
	case !control && c.Defense != cell.None:
		return fmt.Errorf(unsaid, c, "control", c.Defense)
	}
	if err := result.CheckVerdicts(string(c.Verdicts), c.N, c.Correct); err != nil {
		return fmt.Errorf("cell %s: %w", c, err)
	}
	for i, at := range c.Near {
		if at < 0 || at >= c.N || i > 0 && at <= c.Near[i-1] {
			return fmt.Errorf("cell %s: near is no list of places in its verdicts", c)
		}
	}
	return nil
}

// checkCells checks every cell, that there is at least one, and that none occurs twice.
func checkCells(cells []Cell, of made) error {
	if len(cells) == 0 {
		return fmt.Errorf("there are no cells")
	}
	seen := map[cell.ID]bool{}
	for _, c := range cells {
		if err := c.check(of); err != nil {
			return err
		}
		if seen[c.Key()] {
			return fmt.Errorf("cell %s is there twice", c)
		}
		seen[c.Key()] = true
	}
	return nil
}

func byKey(cells []Cell) map[cell.ID]Cell {
	of := map[cell.ID]Cell{}
	for _, c := range cells {
		of[c.Key()] = c
	}
	return of
}

// cellsOf returns the cells of a results file, in its order, after checking them.
func cellsOf(f *result.File) ([]Cell, error) {
	cells := make([]Cell, len(f.Cells))
	for i, c := range f.Cells {
		if c.Error != "" {
			return nil, fmt.Errorf("suite %s, model %s, defense %s, attack %s has no verdicts: %s", c.Suite, c.Model,
				c.Defense, c.Attack, c.Error)
		}
		cells[i] = Cell{c.ID, c.Norm, c.Recipe,
			c.N, c.Correct, verdicts(c.Verdicts), c.Near}
	}
	return cells, checkCells(cells, selected(cells, f))
}

// absent lists a suite's missing cells under an attack at an epsilon.
func absent(s result.Suite, have map[cell.ID]Cell, sources []string, attack string, epsilon float64,
	crafted bool) (list []string) {
	for _, m := range s.Models {
		for _, defense := range append([]string{cell.None}, s.Controls...) {
			for _, mode := range s.AttackersOf(defense, crafted) {
				for _, source := range sources {
					id := cell.Of(s.Name, m, defense, attack, cell.Epsilon(epsilon)).In("", mode)
					id.Source = source
					if _, ok := have[id]; !ok {
						list = append(list, plain(strings.Join([]string{s.Name, m, defense, attack}, "/")))
					}
				}
			}
		}
	}
	return list
}

// missing lists the cells that a results file plans and lacks.
func missing(f *result.File, cells []Cell) (list []string) {
	have := byKey(cells)
	for _, s := range f.Suites {
		for _, attack := range append([]string{cell.None}, s.Attacks...) {
			epsilons := f.Attacks[attack].Strengths()
			if len(epsilons) == 0 { // clean images, corruptions, moved images and patches have none
				epsilons = []float64{0}
			}
			sources := []string{""}
			crafted := attack != cell.None && f.Attacks[attack].Crafted()
			if s.Mode == result.Transfer && crafted {
				sources = s.Models
			}
			for _, under := range f.Attacks[attack].Cells(attack) {
				for _, e := range epsilons {
					list = append(list, absent(s, have, sources, under, e, crafted)...)
				}
			}
		}
	}
	return list
}
