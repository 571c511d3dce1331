package view

import (
	"fmt"
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Waterfall is what the components of one attack on one model took, one after another.
type Waterfall struct {
	Model      string
	Attack     words.Column
	Components []string
	Lines      []waterfallLine
}

// waterfallLine is a defense that was attacked on its own.
type waterfallLine struct {
	Defense string
	Index   int        // as in series
	Left    []*float64 // accuracy on the clean images and after each component; nil where nothing was run
	n       int        // images
}

// mostWaterfalls is how many charts the figure has at most, as many as a printed page has
// room for. The table of the components stands for those of a larger suite.
const mostWaterfalls = 12

// Waterfalls are the suite's charts, one a model and attack of several components, or none where they are too many. An
// oblivious suite attacks the undefended network only; in a white-box suite each control has its own.
func (s *Suite) Waterfalls() (out []Waterfall) {
	for _, m := range s.Models {
		for _, col := range s.Columns {
			w := Waterfall{Model: m, Attack: col, Components: components(s, col)}
			for i, d := range s.Defenses() {
				c := s.Cell(m, d, col)
				if c == nil || len(c.Steps) == 0 || len(w.Components) < 2 {
					continue
				}
				line := waterfallLine{d, i, make([]*float64, 1+len(w.Components)), c.N}
				if clean := s.Cell(m, d, s.Columns[0]); clean != nil {
					line.Left[0] = &clean.Accuracy
				}
				for j, name := range componentNames(c.Steps) {
					if k := slices.Index(w.Components, name); k >= 0 {
						line.Left[1+k] = &c.Steps[j].Robust
					}
				}
				w.Lines = append(w.Lines, line)
			}
			if w.Lines != nil {
				out = append(out, w)
			}
		}
	}
	if len(out) > mostWaterfalls {
		return nil
	}
	return out
}

// components are those of an attack that some cell of the suite has run, in their order: a
// component that found no image left to attack has no step.
func components(s *Suite, col words.Column) (longest []string) {
	s.Each(func(c *result.Cell, of words.Column) {
		if of.Same(col) && len(c.Steps) > len(longest) {
			longest = componentNames(c.Steps)
		}
	})
	return longest
}

// componentNames are a cell's components as figures call them: "APGD-CE", "FAB-T". One that runs again is numbered.
func componentNames(steps []result.Step) (out []string) {
	seen := map[string]int{}
	for _, st := range steps {
		name, known := words.AttackNames[st.Attack]
		if !known {
			name = words.Clean(st.Attack)
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		out = append(out, name)
	}
	return out
}

// Value is what stands at a bar: a dash where a component had no image left to attack.
func (l waterfallLine) Value(i int) string {
	if l.Left[i] == nil {
		return words.Dash
	}
	return words.Percent(*l.Left[i], l.n)
}
