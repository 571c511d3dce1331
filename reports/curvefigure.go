package reports

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/internal/number"
)

const curveHeight = vg.Length(148)

func init() {
	figures[result.CurveFigure] = charts[curves]{
		title: always("accuracy in %"), caption: "Accuracy in % against ε, with 95 % Wilson intervals",
		alt: always("Robustness curves, accuracy in % against epsilon"), seeds: (*suite).ofFirstSeed, attacked: true,
		note: func(s *suite) string {
			if s.bounded() {
				return "vertical lines reach down to what bounds prove"
			}
			return ""
		},
		parts:  (*suite).Curves,
		layout: func(_ *suite, n int) sheet { return inFile(n, false) },
		fill: func(s *suite, f *sheet, all []curves) {
			for _, c := range all {
				p := plotPanel{X: "ε", Y: c.Attack.Title(), XTicks: greyTicks(c, int((f.panelWidth()-44)/44))}
				addCurves(s, f, p, c, c.Attack.Title(), true)
			}
			f.Legend = curveLegend(s, all)
		},
	}
}

// addCurves adds a panel of curves: a step curve a defense, with a marker at every cell. What bounds prove is added
// where it is asked for.
func addCurves(s *suite, f *sheet, p plotPanel, c curves, attack string, proven bool) {
	p.Title, p.High, p.Box, p.YTicks = clean(c.Model), curveHeight, [4]float64{0, 0, c.end(), 1}, perCent()
	var marks []plotSeries
	for _, line := range c.Lines {
		steps, cells := stepped(line, s.N)
		p.Series, marks = append(p.Series, steps), append(marks, cells)
		f.Alt += fmt.Sprintf(" %s, %s, %s: %s", clean(c.Model), defenseName(line.Defense), attack,
			spokenCurve(c, line, s.N))
		if under := provenUnder(s, c, line); proven && len(under.X) > 0 {
			marks = append(marks, under)
			for i, y := range under.Low {
				f.Alt += fmt.Sprintf(", proven %s of %s", percent(y, s.N), percent(under.High[i], s.N))
			}
		}
		f.Alt += "."
	}
	p.Series = append(p.Series, marks...)
	f.Panels = append(f.Panels, p)
}

// curveLegend has the defenses that have a line somewhere, and a marker alone for those that have no steps.
func curveLegend(s *suite, all []curves) []plotSeries {
	shown, stepped := []string{}, map[int]bool{}
	for _, c := range all {
		for _, line := range c.Lines {
			shown = append(shown, line.Defense)
			stepped[line.Index] = stepped[line.Index] || line.Steps != nil
		}
	}
	entries := legend(s, look{Line: true, Marks: true}, shown...)
	for i, e := range entries {
		entries[i].Line = stepped[e.Colour]
	}
	return entries
}

// stepped are the steps of a line, with the band of their intervals over n images, and the cells, which have it where there are no
// steps.
func stepped(c curve, n int) (steps, cells plotSeries) {
	look := lookOf(c.Index)
	steps, cells = plotSeries{look: look}, plotSeries{look: look}
	steps.Marks, cells.Line = false, false
	for i, at := range c.Steps {
		if i > 0 {
			steps.add(at.Epsilon, c.Steps[i-1].Accuracy)
		}
		steps.add(at.Epsilon, at.Accuracy)
	}
	for _, at := range c.Points {
		cells.add(at.Epsilon, at.Accuracy)
	}
	if c.Steps == nil {
		cells = cells.banded(n, 1)
	}
	return steps.banded(n, 1), cells
}

// provenUnder are brackets of a line: from what an attack leaves at an epsilon down to what the suite's bounds prove
// there, of several certificates the most.
func provenUnder(s *suite, c curves, line curve) plotSeries {
	out := plotSeries{look: look{Colour: line.Index}}
	for _, p := range line.Points {
		most := -1.0
		for _, by := range s.certified {
			for _, col := range by.columns {
				cell := by.cell(c.Model, line.Defense, col)
				if !by.of.Smooths() && cell != nil && col.norm == c.Attack.norm && *col.Epsilon == p.Epsilon {
					most = max(most, cell.Accuracy)
				}
			}
		}
		if most >= 0 {
			apart := (float64(line.Index) - float64(len(c.Lines)-1)/2) * c.end() / 100 // from other defenses' lines
			out.add(p.Epsilon+apart, p.Accuracy)
			out.Low, out.High = append(out.Low, most), append(out.High, p.Accuracy)
		}
	}
	return out
}

// spokenCurve says the value of a line at five epsilons.
func spokenCurve(c curves, line curve, n int) string {
	at := line.Points
	if line.Steps != nil {
		at = nil
		for i := range 5 {
			if e := c.end() * float64(i) / 4; e <= line.end()*(1+1e-9) {
				at = append(at, point{e, line.at(e)})
			}
		}
	}
	var said []string
	for _, p := range at {
		said = append(said, percent(p.Accuracy, n)+" at "+strength(c.Attack.norm, p.Epsilon))
	}
	return strings.Join(said, ", ")
}

// greyTicks are steps of 1, 2, 4, … grey levels up to the panel's end, at most so many, where the
// cells' epsilons are such; else nil, for those that the range gives.
func greyTicks(c curves, most int) (ticks []plot.Tick) {
	for _, line := range c.Lines {
		for _, p := range line.Points {
			if p.Epsilon != 0 && !strings.HasSuffix(number.Format(p.Epsilon), "/255") {
				return nil
			}
		}
	}
	end, step := math.Round(255*c.end()), 1.0
	for end/step > float64(max(most, 1)) {
		step *= 2
	}
	for v := 0.0; v <= end; v += step {
		ticks = append(ticks, plot.Tick{Value: v / 255, Label: number.Format(v / 255)})
	}
	return ticks
}
