package reports

import (
	"fmt"
	"math"
	"strconv"
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
	f.Head = s.head("accuracy in % · "+s.Facts(), strings.TrimPrefix(s.ofFirstSeed(), ", "))
	return f
}

// curveSheet fills a sheet with curves: a step curve a defense, with a marker at every cell.
func (s *suite) curveSheet(f sheet, all []curves) sheet {
	var shown []string
	f.Caption = s.caption("Accuracy in % against ε" + s.ofFirstSeed())
	f.Alt = fmt.Sprintf("Robustness curves, accuracy in %% against epsilon%s, %s (%s).", s.ofFirstSeed(), s.Heading(),
		s.Facts())
	for _, c := range all {
		p := plotPanel{Title: clean(c.Model), X: "ε", Y: c.Attack.Title(), High: curveHeight,
			Box:    [4]float64{0, 0, c.end(), 1},
			YTicks: perCent(), XTicks: c.ticks(int((f.panelWidth() - 44) / 44))}
		var marks []plotSeries
		for _, line := range c.Lines {
			look := lookOf(line.Index)
			steps, cells := plotSeries{look: look}, plotSeries{look: look}
			steps.Marks, cells.Line = false, false
			for i, at := range line.Steps {
				if i > 0 {
					steps.add(at.Epsilon, line.Steps[i-1].Accuracy)
				}
				steps.add(at.Epsilon, at.Accuracy)
			}
			for _, at := range line.Points {
				cells.add(at.Epsilon, at.Accuracy)
			}
			p.Series, marks = append(p.Series, steps), append(marks, cells)
			shown = append(shown, line.Defense)
			f.Alt += fmt.Sprintf(" %s, %s, %s: %s.", clean(c.Model), defenseName(line.Defense), c.Attack.Title(),
				c.words(line, s.N))
		}
		p.Series = append(p.Series, marks...)
		f.Panels = append(f.Panels, p)
	}
	f.Legend = s.legend(look{Line: true, Marks: true}, shown...)
	return f
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
		said = append(said, percent(p.Accuracy, n)+" at "+threeDigits(p.Epsilon))
	}
	return strings.Join(said, ", ")
}

// ticks are at most so many steps of a round number up to the panel's end: of a number of
// grey levels where the cells' epsilons are such, else of 1, 2 or 5 times a power of ten.
func (c curves) ticks(most int) []plot.Tick {
	end := c.end()
	grey := true
	for _, line := range c.Lines {
		for _, p := range line.Points {
			grey = grey && (p.Epsilon == 0 || strings.HasSuffix(number.Format(p.Epsilon), "/255"))
		}
	}
	step := func(i int) float64 { return []float64{1, 2, 5}[(i%3+3)%3] * math.Pow(10, math.Floor(float64(i)/3)) }
	first := 3 * int(math.Floor(math.Log10(end/float64(max(most, 1))))) // at most one step too fine
	if grey {
		step, first = func(i int) float64 { return math.Pow(2, float64(i)) / 255 }, 0
	}
	for end/step(first) > float64(max(most, 1)) {
		first++
	}
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for i := 1; float64(i)*step(first) <= min(end*(1+1e-9), math.MaxFloat64); i++ {
		v := float64(i) * step(first)
		label := strconv.FormatFloat(v, 'g', 6, 64)
		if grey {
			label = fmt.Sprintf("%.0f/255", v*255)
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}
