package reports

import (
	"fmt"
	"slices"

	"selfheal/harness/result"
)

// waterfall is what the components of one attack on one model took, one after another.
type waterfall struct {
	Model      string
	Attack     column
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

// Waterfalls are the suite's charts, one a model and attack of several components, or none
// where they are too many. An oblivious suite attacks the undefended network only; in a
// white-box suite each control has its own.
func (s *suite) Waterfalls() []waterfall {
	var out []waterfall
	for _, m := range s.Models {
		for _, col := range s.Columns {
			w := waterfall{Model: m, Attack: col, Components: s.components(col)}
			for i, d := range s.Defenses() {
				c := s.Cell(m, d, col)
				if c == nil || len(c.Steps) == 0 || len(w.Components) < 2 {
					continue
				}
				line := waterfallLine{d, i, make([]*float64, 1+len(w.Components)), c.N}
				if clean := s.Cell(m, d, column{Attack: "none"}); clean != nil {
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
func (s *suite) components(col column) []string {
	var longest []string
	s.each(func(c *result.Cell, of column) {
		if of.same(col) && len(c.Steps) > len(longest) {
			longest = componentNames(c.Steps)
		}
	})
	return longest
}

// componentNames are a cell's components as figures call them: "APGD-CE", "FAB-T". One that
// runs again is numbered.
func componentNames(steps []result.Step) []string {
	var out []string
	seen := map[string]int{}
	for _, st := range steps {
		name, known := attackNames[st.Attack]
		if !known {
			name = clean(st.Attack)
		}
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[name])
		}
		out = append(out, name)
	}
	return out
}

// value is what stands at a bar: a dash where a component had no image left to attack.
func (l waterfallLine) value(i int) string {
	if l.Left[i] == nil {
		return dash
	}
	return percent(*l.Left[i], l.n)
}
