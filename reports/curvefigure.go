package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"selfheal/internal/number"
)

const curveHeight = vg.Length(148)

// fullCurves is the figure of a suite's robustness curves as a file: a panel a model and attack.
func fullCurves(s *suite) sheet {
	all := s.Curves()
	f := s.curveSheet(inFile(len(all), false), all)
	f.Head = s.head("accuracy in % · "+s.Facts(), s.ofFirstSeed())
	if s.bounded() {
		f.Head = append(f.Head, provenBelow)
	}
	return f
}

// curveSheet fills a sheet with curves: a step curve a defense, with a marker at every cell.
func (s *suite) curveSheet(f sheet, all []curves) sheet {
	var shown []string
	var stepped []int // the defenses of which some panel has a line
	f.Caption = s.caption("Accuracy in % against ε, with 95 % Wilson intervals" + s.ofFirstSeed())
	f.Alt = fmt.Sprintf("Robustness curves, accuracy in %% against epsilon%s, %s (%s).", s.ofFirstSeed(), s.Heading(),
		s.Facts())
	for _, c := range all {
		p := plotPanel{Title: clean(c.Model), X: "ε", Y: c.Attack.Title(), High: curveHeight,
			Box:    [4]float64{0, 0, c.end(), 1},
			YTicks: perCent(), XTicks: c.ticks(int((f.panelWidth() - 44) / 44))}
		var marks []plotSeries
		for _, line := range c.Lines {
			steps, cells := line.series(s.N)
			if line.Steps != nil {
				stepped = append(stepped, line.Index)
			}
			p.Series, marks = append(p.Series, steps), append(marks, cells)
			shown = append(shown, line.Defense)
			f.Alt += fmt.Sprintf(" %s, %s, %s: %s", clean(c.Model), defenseName(line.Defense), c.Attack.Title(),
				c.words(line, s.N))
			if proven := s.provenUnder(c, line); len(proven.X) > 0 {
				marks = append(marks, proven)
				for i, y := range proven.Low {
					f.Alt += fmt.Sprintf(", proven %s of %s", percent(y, s.N), percent(proven.High[i], s.N))
				}
			}
			f.Alt += "."
		}
		p.Series = append(p.Series, marks...)
		f.Panels = append(f.Panels, p)
	}
	if s.bounded() {
		f.Caption += "; " + provenBelow
	}
	f.Legend = s.legend(look{Line: true, Marks: true}, shown...)
	for i, e := range f.Legend {
		f.Legend[i].Line = slices.Contains(stepped, e.Colour)
	}
	return f
}

// series are the steps, with the band of their intervals over n images, and the cells, which have it where there are no
// steps.
func (c curve) series(n int) (steps, cells plotSeries) {
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

// provenBelow says what the brackets of the curves are.
const provenBelow = "vertical lines reach down to what bounds prove"

// bounded reports whether the suite has certificates by bounds.
func (s *suite) bounded() bool {
	return slices.ContainsFunc(s.certified, func(by *certifiedBy) bool { return !by.of.Smooths() })
}

// provenUnder are brackets of a line: from what an attack leaves at an epsilon down to what the suite's bounds prove
// there, of several certificates the most.
func (s *suite) provenUnder(c curves, line curve) plotSeries {
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

// words say the value of a line at five epsilons.
func (c curves) words(line curve, n int) string {
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

// ticks are steps of 1, 2, 4, … grey levels up to the panel's end, at most so many, where the
// cells' epsilons are such; else nil, for those that the range gives.
func (c curves) ticks(most int) (ticks []plot.Tick) {
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
