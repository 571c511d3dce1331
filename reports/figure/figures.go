// Package figure draws the reports' figures: suites, studies, comparisons and the theory in, sheets of charts out.
package figure

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// figure is a row of the table of figures.
type figure struct {
	// file is a suite's figure as a file of its own. It has no panels where there is nothing to draw.
	file func(s *view.Suite) chart.Sheet
	// page are its parts among a page's figures of the suite, a sheet each; nil for a figure with a section of its own.
	page func(s *view.Suite) []chart.Sheet
}

func models(s *view.Suite) []string { return s.Models }

// figures is the table, by the names and in the order of [result.Figures]. Each figure's file adds its row.
var figures = map[string]figure{}

// Files yields a suite's figures as files, and the names of these without their extensions.
func Files(s *view.Suite) iter.Seq2[string, chart.Sheet] {
	return func(yield func(string, chart.Sheet) bool) {
		for _, f := range result.Figures {
			if draw := figures[f.Name].file; draw != nil { // the theory's are of no suite
				if sheet := draw(s); sheet.Panels != nil && !yield(f.Name+"-"+s.Slug, sheet) {
					return
				}
			}
		}
	}
}

// Page are a suite's figures on a page in groups, a figure each; accuracies says whether its models' accuracies are
// among them. A single model's figures are one group, so that they stand beside each other.
func Page(s *view.Suite, accuracies bool) (groups [][]chart.Sheet) {
	for _, f := range result.Figures {
		draw := figures[f.Name].page
		if draw == nil || f.Name == result.RadarFigure && (!accuracies || s.Mode == result.Transfer) {
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

// charts is a figure of parts: a file has all of them in one sheet, a page a sheet for each.
type charts[T any] struct {
	title    string                                         // what the numbers are, above a file
	caption  string                                         // the same, below a part in a page
	alt      string                                         // the same, for readers who do not see it
	seeds    func(s *view.Suite) string                     // of which seeds they are; nil: of the first
	names    func(s *view.Suite) string                     // what else a title says; nil: nothing
	note     func(s *view.Suite) string                     // what else is to be said of the figure; nil: nothing
	attacked bool                                           // they are of the suite's attacker
	parts    func(s *view.Suite) []T                        // nothing is drawn where there are none
	panels   func(s *view.Suite) int                        // of a part; nil: one
	wide     bool                                           // they need room
	fill     func(s *view.Suite, f *chart.Sheet, parts []T) // adds panels and legend, and says the values
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

// file is the figure with its title, what it says, of which seeds that is, and what the attacker knows.
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

// page has a sheet for each part of which there is something to draw.
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

// legend has an entry a defense, drawn as like says; of those that only names, if any.
func legend(s *view.Suite, like chart.Look, only ...string) (out []chart.Series) {
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

// say adds values to what a sheet says, and whose they are.
func say(f *chart.Sheet, values []string, of ...string) {
	for i := range of {
		of[i] = words.Clean(of[i])
	}
	f.Alt += " " + strings.Join(of, ", ") + ": " + strings.Join(values, ", ") + "."
}

// value is a cell's accuracy as a figure says it: in per cent, of several seeds their mean.
func value(c *result.Cell) string {
	if c == nil {
		return words.Dash
	}
	return words.Percent(view.Score(c), c.N)
}
