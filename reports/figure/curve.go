package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

const curveHeight = vg.Length(148)

func init() {
	figures[result.CurveFigure] = charts[view.Curves]{
		title: "accuracy in %", caption: "Accuracy in % against ε, with 95 % Wilson intervals",
		alt: "Robustness curves, accuracy in % against epsilon", attacked: true,
		note: func(s *view.Suite) string {
			if len(s.Smoothed()) < len(s.Certified) {
				return "vertical lines reach down to what bounds prove"
			}
			return ""
		},
		parts: (*view.Suite).Curves,
		fill: func(s *view.Suite, f *chart.Sheet, all []view.Curves) {
			for _, c := range all {
				p := chart.Plot{X: "ε", Y: c.Attack.Title(), XTicks: greyTicks(c, int((f.PanelWidth()-44)/44))}
				addCurves(s, f, p, c, c.Attack.Title(), true)
			}
			f.Legend = curveLegend(s, all)
		},
	}.row()
}

// addCurves adds a panel of curves: a step curve for each defense, with a marker at every cell. If proven is set,
// brackets reach down to the proved bounds.
func addCurves(s *view.Suite, f *chart.Sheet, p chart.Plot, c view.Curves, attack string, proven bool) {
	p.Title, p.High, p.Box, p.YTicks = words.Clean(c.Model), curveHeight, [4]float64{0, 0, c.End(), 1}, chart.PerCent()
	var marks []chart.Series
	for _, line := range c.Lines {
		steps, cells := stepped(line, s.N)
		p.Series, marks = append(p.Series, steps), append(marks, cells)
		f.Alt += fmt.Sprintf(" %s, %s, %s: %s", words.Clean(c.Model), words.DefenseName(line.Defense), attack,
			spokenCurve(c, line, s.N))
		if under := provenUnder(s, c, line); proven && len(under.X) > 0 {
			marks = append(marks, under)
			for i, y := range under.Low {
				f.Alt += fmt.Sprintf(", proven %s of %s", words.Percent(y, s.N), words.Percent(under.High[i], s.N))
			}
		}
		f.Alt += "."
	}
	p.Series = append(p.Series, marks...)
	f.Panels = append(f.Panels, p)
}

// curveLegend returns entries for the defenses: with a line if it has one somewhere, otherwise with the marker alone.
func curveLegend(s *view.Suite, all []view.Curves) []chart.Series {
	lines := slices.Concat(lists.Map(all, func(c view.Curves) []view.Curve { return c.Lines })...)
	shown := append([]string{}, lists.Map(lines, func(line view.Curve) string { return line.Defense })...)
	entries := legend(s, chart.Look{Line: true, Marks: true}, shown...)
	for i, e := range entries {
		entries[i].Line = slices.ContainsFunc(lines, func(line view.Curve) bool {
			return line.Index == e.Colour && line.Steps != nil
		})
	}
	return entries
}

// stepsOf returns a polyline that keeps each point's value until the next.
func stepsOf(points []view.Point) (s chart.Series) {
	for i, at := range points {
		if i > 0 {
			s.Add(at.Epsilon, points[i-1].Accuracy)
		}
		s.Add(at.Epsilon, at.Accuracy)
	}
	return s
}

// stepped returns a line's steps with the band of their intervals, and its cells, which have intervals if there are no
// steps.
func stepped(c view.Curve, n int) (steps, cells chart.Series) {
	steps = stepsOf(c.Steps)
	steps.Look, cells.Look = chart.LookOf(c.Index), chart.LookOf(c.Index)
	steps.Marks, cells.Line = false, false
	for _, at := range c.Points {
		cells.Add(at.Epsilon, at.Accuracy)
	}
	if c.Steps == nil {
		cells = cells.Banded(n, 1)
	}
	return steps.Banded(n, 1), cells
}

// provenUnder returns brackets of a line: from the accuracy that an attack leaves at an epsilon down to the accuracy
// that the suite's bounds prove there, the largest of several certificates.
func provenUnder(s *view.Suite, c view.Curves, line view.Curve) chart.Series {
	out := chart.Series{Look: chart.Look{Colour: line.Index}}
	for _, p := range line.Points {
		most := -1.0
		for _, by := range s.Certified {
			for _, col := range by.Columns {
				cell := by.Cell(c.Model, line.Defense, col)
				switch {
				case by.Of.Smooths() || cell == nil || col.Norm != c.Attack.Norm:
				case by.Of.Brackets():
					for _, b := range cell.Brackets {
						if b.Epsilon == p.Epsilon {
							most = max(most, float64(b.Proven)/float64(cell.N))
						}
					}
				case float64(col.Epsilon) == p.Epsilon:
					most = max(most, cell.Accuracy)
				}
			}
		}
		if most >= 0 {
			apart := (float64(line.Index) - float64(len(c.Lines)-1)/2) * c.End() / 100 // apart from other lines
			out.Add(p.Epsilon+apart, p.Accuracy)
			out.Low, out.High = append(out.Low, most), append(out.High, p.Accuracy)
		}
	}
	return out
}

// spokenCurve writes the value of a line at five epsilons.
func spokenCurve(c view.Curves, line view.Curve, n int) string {
	at := line.Points
	if line.Steps != nil {
		at = nil
		for i := range 5 {
			if e := c.End() * float64(i) / 4; e <= line.End()*(1+1e-9) {
				at = append(at, view.Point{Epsilon: e, Accuracy: view.At(line.Steps, e)})
			}
		}
	}
	return strings.Join(lists.Map(at, func(p view.Point) string {
		return words.Percent(p.Accuracy, n) + " at " + words.Strength(c.Attack.Norm, p.Epsilon)
	}), ", ")
}

// greyTicks returns at most so many ticks at multiples of 1, 2, 4, … grey levels; nil if some cell's epsilon is not a
// grey level.
func greyTicks(c view.Curves, most int) (ticks []plot.Tick) {
	points := slices.Concat(lists.Map(c.Lines, func(line view.Curve) []view.Point { return line.Points })...)
	if slices.ContainsFunc(points, func(p view.Point) bool {
		return p.Epsilon != 0 && !strings.HasSuffix(number.Format(p.Epsilon), "/255")
	}) {
		return nil
	}
	return levelTicks(c.End(), most)
}

// levelTicks returns at most so many ticks at multiples of 1, 2, 4, … grey levels up to an end.
func levelTicks(upTo float64, most int) (ticks []plot.Tick) {
	end, step := math.Round(255*upTo), 1.0
	for end/step > float64(max(most, 1)) {
		step *= 2
	}
	for v := 0.0; v <= end; v += step {
		ticks = append(ticks, plot.Tick{Value: v / 255, Label: number.Format(v / 255)})
	}
	return ticks
}

func init() {
	figures[result.CertifiedFigure] = charts[string]{
		title: "certified accuracy in %", caption: "Certified accuracy in % against the ℓ2 radius, with 95 % Wilson " +
			"intervals", alt: "Certified accuracy in % against the radius",
		names: func(s *view.Suite) string {
			names := lists.Map(s.Smoothed(), func(by *view.Apart) string { return words.Clean(by.Of.Title) })
			return " · " + strings.Join(names, "; ")
		},
		parts:  models,
		panels: func(s *view.Suite) int { return len(s.Smoothed()) }, wide: true,
		fill: fillCertified,
	}.row()
}

// fillCertified adds a panel for each certificate and model: the fraction of images that are proved robust against the
// radius.
func fillCertified(s *view.Suite, f *chart.Sheet, models []string) {
	var all []view.Curves
	smoothed := s.Smoothed()
	for _, by := range smoothed {
		for _, m := range models {
			c := by.Curves(s, m)
			if len(c.Lines) == 0 {
				continue
			}
			p := chart.Plot{X: "ℓ2 radius"}
			if len(smoothed) > 1 {
				p.X += ", " + words.Clean(by.Attack)
			}
			addCurves(s, f, p, c, words.Clean(by.Attack), false)
			all = append(all, c)
		}
	}
	f.Legend = curveLegend(s, all)
}
