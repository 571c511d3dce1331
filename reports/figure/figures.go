// Package figure draws the reports' figures: it takes suites, studies, comparisons and the theory as package view
// arranges them and returns sheets for package chart. [Files] and [Page] return a suite's figures, which each file of
// the package adds to one table.
package figure

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// figure is a row of the table of figures.
type figure struct {
	// file returns a suite's figure as a file of its own. It has no panels if there is nothing to draw.
	file func(s *view.Suite) chart.Sheet
	// page returns the figure's parts for a page of the suite, one sheet each; nil for a figure with its own section.
	page func(s *view.Suite) []chart.Sheet
}

func models(s *view.Suite) []string { return s.Models }

// figures is the table, by the names and in the order of [result.Figures]. Each figure's file adds its row.
var figures = map[string]figure{}

// Files yields a suite's figures as files, and the names of these without their extensions.
func Files(s *view.Suite) iter.Seq2[string, chart.Sheet] {
	return func(yield func(string, chart.Sheet) bool) {
		for _, f := range result.Figures {
			if draw := figures[f].file; draw != nil { // the theory's figures belong to no suite
				if sheet := draw(s); sheet.Panels != nil && !yield(f+"-"+s.Slug, sheet) {
					return
				}
			}
		}
	}
}

// Page returns a suite's figures on a page, one group per figure. accuracies says whether its models' accuracies are
// included. A single model's figures form one group, so that they stand side by side.
func Page(s *view.Suite, accuracies bool) (groups [][]chart.Sheet) {
	for _, f := range result.Figures {
		draw := figures[f].page
		if draw == nil || f == result.RadarFigure && (!accuracies || s.Mode == result.Transfer) {
			continue
		}
		if parts := draw(s); len(parts) > 0 {
			groups = append(groups, parts)
		}
	}
	if len(s.Models) == 1 && len(groups) > 0 {
		groups = [][]chart.Sheet{slices.Concat(groups...)}
	}
	return groups
}

// charts describes a figure with several parts: a file shows all of them in one sheet, a page one sheet each.
type charts[T any] struct {
	title    string                                         // names the numbers, above a file
	caption  string                                         // the same, below a part in a page
	alt      string                                         // the same, for readers who do not see it
	seeds    func(s *view.Suite) string                     // names the seeds; nil: the first seed
	names    func(s *view.Suite) string                     // other parts of the title; nil: none
	note     func(s *view.Suite) string                     // a remark on the figure; nil: none
	attacked bool                                           // the numbers depend on the suite's attacker
	parts    func(s *view.Suite) []T                        // if there are none, nothing is drawn
	panels   func(s *view.Suite) int                        // number of panels of a part; nil: one
	wide     bool                                           // the panels are wide
	fill     func(s *view.Suite, f *chart.Sheet, parts []T) // adds panels and legend, and describes the values
}

func (c charts[T]) row() figure { return figure{c.file, c.page} }

func said(of func(s *view.Suite) string, s *view.Suite) string {
	if of == nil {
		return ""
	}
	return of(s)
}

func (c charts[T]) on(s *view.Suite, f chart.Sheet, parts []T) chart.Sheet {
	f.Alt = fmt.Sprintf("%s%s, %s (%s).", c.alt, c.over(s), s.Heading(), c.of(s))
	if f.Caption = c.caption + c.over(s); c.attacked {
		f.Caption = s.Caption(f.Caption)
	}
	if note := said(c.note, s); note != "" {
		f.Caption += "; " + note
	}
	c.fill(s, &f, parts)
	return f
}

func (c charts[T]) over(s *view.Suite) string {
	if c.seeds == nil {
		return s.OfFirstSeed()
	}
	return c.seeds(s)
}

func (c charts[T]) of(s *view.Suite) string {
	if c.attacked {
		return s.Facts()
	}
	return s.Sample()
}

// file returns the figure with its title, description and seeds, and the attacker's knowledge.
func (c charts[T]) file(s *view.Suite) chart.Sheet {
	parts, made := c.parts(s), ""
	n := len(parts)
	if c.panels != nil {
		n *= c.panels(s)
	}
	f := c.on(s, chart.InFile(n, c.wide), parts)
	if c.attacked {
		made = s.Made()
	}
	f.Head = headlines(s.Heading(), c.title+said(c.names, s)+" · "+c.of(s), strings.TrimPrefix(c.over(s), ", "), made,
		said(c.note, s))
	return f
}

// page returns a sheet for each part that has something to draw.
func (c charts[T]) page(s *view.Suite) (out []chart.Sheet) {
	parts := c.parts(s)
	for i := range parts {
		if f := c.on(s, chart.InPage(), parts[i:i+1]); f.Panels != nil {
			out = append(out, f)
		}
	}
	return out
}

func headlines(lines ...string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// legend returns an entry for each defense, drawn like like; if only is not empty, for those defenses alone. A suite
// without controls needs none.
func legend(s *view.Suite, like chart.Look, only ...string) (out []chart.Series) {
	if len(s.Controls) == 0 {
		return nil
	}
	for i, d := range s.Defenses() {
		if only != nil && !slices.Contains(only, d) {
			continue
		}
		name, loop := words.DefenseName(d), ""
		if i > 0 {
			name = "controlled: " + name
		}
		if s.Looped(d) {
			loop = " (optimisation loop)"
		}
		like.Colour, like.Dash, like.Marker = i, i, i
		room := chart.OneColumn - 2*8 - chart.Swatch - 4 - chart.Normal.Width(loop)
		out = append(out, chart.Series{Look: like, Label: chart.Fit(name, chart.Normal, room) + loop})
	}
	return out
}

// say adds values to a sheet's description, after the name of what they belong to.
func say(f *chart.Sheet, values []string, of ...string) {
	f.Alt += " " + strings.Join(lists.Map(of, words.Clean), ", ") + ": " + strings.Join(values, ", ") + "."
}

// value returns a cell's accuracy as a figure writes it: in per cent, for several seeds the mean.
func value(c *result.Cell) string {
	if c == nil {
		return words.Dash
	}
	return words.Percent(view.Score(c), c.N)
}
