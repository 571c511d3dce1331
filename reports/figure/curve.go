package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"selfheal/attacks"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

const curveHeight = vg.Length(148)

func smooths(p attacks.Proof) bool { return p.Smooths }
func gaps(p attacks.Proof) bool    { return p.Gaps }

func init() {
	figures[result.CurveFigure] = charts[view.Curves]{
		title: "accuracy in %", caption: "Accuracy in % against ε, with 95 % Wilson intervals",
		alt: "Robustness curves, accuracy in % against epsilon", attacked: true,
		note: func(s *view.Suite) string {
			bounds := s.Certified(func(p attacks.Proof) bool { return !p.Smooths })
			return words.If(len(bounds) > 0, "vertical lines reach down to what bounds prove")
		},
		parts: (*view.Suite).Curves,
		fill: func(s *view.Suite, f *chart.Sheet, all []view.Curves) {
			for _, c := range all {
				p := fractions("ε", c.Attack.Title())
				p.XTicks = greyTicks(c, int((f.PanelWidth()-44)/44))
				addCurves(s, f, p, c, c.Attack.Title(), true)
			}
			f.Legend = curveLegend(s, all)
		},
	}.row()
	figures[result.CertifiedFigure] = charts[string]{
		title: "certified accuracy in %", caption: "Certified accuracy in % against the ℓ2 radius, with 95 % Wilson " +
			"intervals", alt: "Certified accuracy in % against the radius",
		names: func(s *view.Suite) string {
			names := lists.Map(s.Certified(smooths), func(by *view.Apart) string { return words.Clean(by.Of.Title) })
			return " · " + strings.Join(names, "; ")
		},
		parts:  models,
		panels: func(s *view.Suite) int { return len(s.Certified(smooths)) }, wide: true,
		fill: fillCertified,
	}.row()
	figures[result.QueriesFigure] = charts[view.Curves]{
		title: "accuracy in %", caption: "Accuracy in % against queries of an image, by attack",
		alt: "Accuracy in % against queries", attacked: true, parts: view.AskedOf, fill: fillQueries,
	}.row()
	figures[result.SidesFigure] = charts[view.Curves]{
		title: "accuracy in %", caption: "Accuracy in % against the side of the patch, with 95 % Wilson intervals",
		alt: "Accuracy in % against the side of the patch", attacked: true, parts: view.VariantCurves, fill: fillSides,
	}.row()
	figures[result.BracketFigure] = charts[string]{
		title: "images in %", caption: "Images in % against the radius: left by attacks above, proven by bounds below",
		alt: "Images left by attacks and proven by bounds, in %, against the radius", parts: models, wide: true,
		panels: func(s *view.Suite) int { return len(s.Certified(gaps)) }, fill: fillBrackets,
	}.row()
}

// fractions starts a panel of fractions against x.
func fractions(x, y string) chart.Plot {
	return chart.Plot{X: x, Y: y, High: curveHeight, YTicks: chart.PerCent()}
}

// addCurves adds a panel of curves: a step curve for each defense, with a marker at every cell. If proven is set,
// brackets reach down to the proved bounds.
func addCurves(s *view.Suite, f *chart.Sheet, p chart.Plot, c view.Curves, attack string, proven bool) {
	p.Title, p.Box = words.Clean(c.Model), [4]float64{0, 0, c.End(), 1}
	var marks []chart.Series
	for _, line := range c.Lines {
		steps, cells := stepped(line, s.N)
		p.Series, marks = append(p.Series, steps), append(marks, cells)
		f.Alt += fmt.Sprintf(" %s, %s: %s", strings.Join(s.Who(c.Model, line.Defense), ", "), attack,
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
	entries := legend(s, chart.Look{Line: true, Marks: true}, defensesOf(lines)...)
	for i, e := range entries {
		entries[i].Line = slices.ContainsFunc(lines, func(line view.Curve) bool {
			return line.Index == e.Colour && line.Steps != nil
		})
	}
	return entries
}

func defensesOf(lines []view.Curve) []string {
	return append([]string{}, lists.Map(lines, func(line view.Curve) string { return line.Defense })...)
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
		for _, by := range s.Certified(func(p attacks.Proof) bool { return !p.Smooths }) {
			for _, b := range by.Proofs(c.Model, line.Defense) {
				if b.Norm == c.Attack.Norm && float64(b.Epsilon) == p.Epsilon {
					most = max(most, b.Proven)
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

// five joins what is said at five places from 0 to an end.
func five(end float64, say func(x float64) string) string {
	said := lists.Map(lists.To(5), func(k int) string { return say(end * float64(k) / 4) })
	return strings.Join(said, ", ")
}

// spokenCurve writes the value of a line at five epsilons, or at its cells.
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

// fillCertified adds a panel for each certificate and model: the fraction of images that are proved robust against the
// radius.
func fillCertified(s *view.Suite, f *chart.Sheet, models []string) {
	var all []view.Curves
	sets := s.Certified(smooths)
	for _, by := range sets {
		for _, m := range models {
			if c := by.Curves(s, m); len(c.Lines) > 0 {
				x := "ℓ2 radius" + words.If(len(sets) > 1, ", "+words.Clean(by.Attack))
				addCurves(s, f, fractions(x, ""), c, words.Clean(by.Attack), false)
				all = append(all, c)
			}
		}
	}
	f.Legend = curveLegend(s, all)
}

// fillBrackets adds a panel for each bracket and model: two step curves per defense, with the open region between them
// shaded.
func fillBrackets(s *view.Suite, f *chart.Sheet, models []string) {
	var all []view.Curve
	for _, by := range s.Certified(gaps) {
		for _, m := range models {
			norm := by.Columns[0].Norm
			p, end := fractions("radius in "+words.NormName(norm), ""), 0.0
			p.Title = words.Clean(m)
			left, proven := by.Bracketed(s, m)
			for i, line := range left {
				above, below := stepsOf(line.Steps), stepsOf(proven[i].Steps)
				above.Look, below.Look = chart.LookOf(line.Index), chart.LookOf(line.Index)
				above.Marks, below.Marks = false, false
				above.Band, above.Low, above.High = true, below.Y, above.Y
				end = max(end, line.End())
				p.Series = append(p.Series, above, below)
				f.Alt += fmt.Sprintf(" %s, %s, %s.", strings.Join(s.Who(m, line.Defense), ", "),
					words.Clean(by.Of.Title), five(end, func(r float64) string {
						return fmt.Sprintf("%s to %s at %s", words.Percent(view.At(proven[i].Steps, r), s.N),
							words.Percent(view.At(line.Steps, r), s.N), words.Strength(norm, r))
					}))
			}
			if len(p.Series) > 0 {
				if p.Box = [4]float64{0, 0, max(end, 1e-9), 1}; norm == "linf" && end > 2./255 {
					p.XTicks = levelTicks(end, int((f.PanelWidth()-44)/44))
				}
				f.Panels = append(f.Panels, p)
			}
			all = append(all, left...)
		}
	}
	if len(all) > 0 {
		f.Legend = legend(s, chart.Look{Line: true}, defensesOf(all)...)
	}
}

// fillQueries adds a panel for each model and defense: one line per attack.
func fillQueries(s *view.Suite, f *chart.Sheet, all []view.Curves) {
	looks := map[words.Column]int{} // an attack has the same look in all panels
	for _, a := range all {
		p := fractions("queries", "")
		p.Title = words.Clean(a.Model) + words.If(len(s.Controls) > 0, ", "+words.DefenseName(a.Defense))
		for _, line := range a.Lines {
			col, title := line.Attack, line.Attack.Title()
			col.Epsilon, col.Norm, col.Recipe = 0, title, ""
			i, known := looks[col]
			if !known {
				i = len(looks)
				looks[col] = i
			}
			steps := stepsOf(line.Steps)
			steps.Look = chart.Look{Colour: i, Line: true, Dash: i}
			if p.Series = append(p.Series, steps); !known {
				f.Legend = append(f.Legend, steps.Look.Labelled(title, chart.OneColumn/2))
			}
			f.Alt += fmt.Sprintf(" %s, %s, %s.", strings.Join(s.Who(a.Model, a.Defense), ", "), title,
				five(line.End(), func(q float64) string {
					return words.Percent(view.At(line.Steps, q), s.N) + " at " + words.ThreeDigits(q)
				}))
		}
		p.Box = [4]float64{0, 0, max(a.End(), 1), 1}
		f.Panels = append(f.Panels, p)
	}
}

// fillSides adds a panel for each model and patch: one line per defense.
func fillSides(s *view.Suite, f *chart.Sheet, all []view.Curves) {
	for _, c := range all {
		p := fractions("side in pixels", words.Clean(c.Attack.Attack))
		p.Title, p.Box = words.Clean(c.Model), [4]float64{0, 0, c.End() * 1.04, 1}
		for _, line := range c.Lines {
			marks := chart.Series{Look: chart.LookOf(line.Index)}
			said := lists.Map(line.Points, func(at view.Point) string {
				marks.Add(at.Epsilon, at.Accuracy)
				return fmt.Sprintf("%s at %.0f", words.Percent(at.Accuracy, s.N), at.Epsilon)
			})
			p.Series = append(p.Series, marks.Banded(s.N, 1))
			f.Alt += fmt.Sprintf(" %s, %s.", strings.Join(s.Who(c.Model, line.Defense), ", "), strings.Join(said, ", "))
		}
		f.Panels = append(f.Panels, p)
	}
	lines := slices.Concat(lists.Map(all, func(c view.Curves) []view.Curve { return c.Lines })...)
	f.Legend = legend(s, chart.Look{Line: true, Marks: true}, defensesOf(lines)...)
}
