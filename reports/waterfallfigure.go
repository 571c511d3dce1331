package reports

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

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

const waterfallHeight = vg.Length(118)

// fullWaterfalls is the figure of a suite's waterfalls as a file.
func fullWaterfalls(s *suite) sheet {
	charts := s.Waterfalls()
	f := s.waterfallSheet(inFile(len(charts), false), charts)
	f.Head = s.head("accuracy in % · "+s.Facts(), s.ofFirstSeed())
	return f
}

// waterfallSheet fills a sheet with charts. Each has a group of bars for the clean images and
// one for every component, a bar a defense.
func (s *suite) waterfallSheet(f sheet, charts []waterfall) sheet {
	var shown []string
	f.Caption = s.caption("Accuracy in % after each component" + s.ofFirstSeed())
	f.Alt = fmt.Sprintf("Accuracy in %% on the clean images and after each attack component%s, %s (%s).",
		s.ofFirstSeed(), s.Heading(), s.Facts())
	for _, w := range charts {
		f.Panels = append(f.Panels, w.panel(f.panelWidth()))
		for _, line := range w.Lines {
			shown = append(shown, line.Defense)
			var said []string
			for i, name := range append([]string{"None"}, w.Components...) {
				said = append(said, name+" "+line.value(i))
			}
			f.Alt += fmt.Sprintf(" %s, %s, %s: %s.", clean(w.Model), defenseName(line.Defense), w.Attack.Title(),
				strings.Join(said, ", "))
		}
	}
	f.Legend = s.legend(look{Bars: true}, shown...)
	return f
}

// panel draws one chart: every bar is the accuracy left after a component, with what the
// component took in a tint above it.
func (w waterfall) panel(width vg.Length) plotPanel {
	names := append([]string{"None"}, w.Components...)
	p := barPanel(len(names))
	p.Title, p.Y, p.High = clean(w.Model), w.Attack.Title(), waterfallHeight
	group := (width - 26) / vg.Length(len(names)) // without the labels on the left
	var labels []string
	for i, name := range names {
		labels = append(labels, strings.Join(broken(name, group), "\n"))
		for j, line := range w.Lines {
			b := groupedBar(line.Index, i, j, len(w.Lines), 26/float64(group), line.value(i))
			if len(w.Lines) == 1 { // no neighbour on either side
				b.Room = 1
			}
			if after := line.Left[i]; after != nil {
				b.Top = *after
				if i > 0 && line.Left[i-1] != nil {
					b.Before = *line.Left[i-1]
				}
			}
			p.Bars = append(p.Bars, b)
		}
	}
	p.XTicks = named(labels)
	return p
}

// value is what stands at a bar: a dash where a component had no image left to attack.
func (l waterfallLine) value(i int) string {
	if l.Left[i] == nil {
		return dash
	}
	return percent(*l.Left[i], l.n)
}

// broken is a name for a group of this width: in two lines, at its dash, where it is wider.
// Without a dash it may reach a little beyond, as its neighbours' are then broken.
func broken(name string, w vg.Length) []string {
	st := style(small, false)
	parts := []string{name}
	if head, tail, found := strings.Cut(name, "-"); found && st.Width(name) > w-3 {
		parts = []string{head, tail}
	}
	for i := range parts {
		parts[i] = fit(parts[i], st, w+1)
	}
	return parts
}
