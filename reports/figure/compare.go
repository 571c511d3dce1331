package figure

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"selfheal/harness/cell"
	"selfheal/harness/compare"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// Limits of the figures' sizes.
const (
	figureEntries = 30
	mostHistories = 24 // number of figures
	historyLines  = 6  // lines in one of them
	markedRuns    = 40 // largest number of runs with markers
)

// Scatter draws clean accuracy against the accuracy that the ranking uses; it has no panels if there is no attack.
func Scatter(g *view.Group, page bool) chart.Sheet {
	f, by := chart.InFile(1, false), g.RankedBy
	if page {
		f.Width, f.Margin = 4.4*vg.Inch, 6
	}
	if len(by) == 0 || !g.Attacked() || g.Columns[0].Attack != cell.None {
		return f
	}
	what := strings.Join(g.Attacks(by), "")
	if len(by) > 1 {
		what = fmt.Sprintf("worst of %d attacks", len(by))
	}
	p := chart.Plot{X: "accuracy on clean images", Y: "accuracy under attack: " + what, High: f.PanelWidth() * 0.75}
	f.Alt = "Accuracy on clean images and under attack, " + g.Heading() + "."
	for i, e := range g.Entries {
		first := e.Cells[0].Score
		if e.Worst == nil || first == nil || len(f.Legend) == figureEntries {
			continue
		}
		one := chart.Look{Colour: i, Marks: true, Marker: i}.Labelled(g.Labels[i], f.PanelWidth()-20)
		one.Add(first.Accuracy, e.Worst.Accuracy)
		one.Low, one.High = []float64{e.Worst.CI95[0]}, []float64{e.Worst.CI95[1]}
		p.Series, f.Legend = append(p.Series, one), append(f.Legend, one)
		p.Labels = append(p.Labels, chart.Text{X: first.Accuracy, Y: e.Worst.Accuracy, Text: view.EntryKey(i)})
		f.Alt += fmt.Sprintf(" %s: %s %%, %s %%.", g.Labels[i], view.ScoreText(first), view.ScoreText(e.Worst))
	}
	if p.Series == nil {
		return f
	}
	clean, robust := p.Reach()
	p.XTicks, p.Box[0], p.Box[2] = tens(clean)
	p.YTicks, p.Box[1], p.Box[3] = tens(robust)
	f.Panels = []chart.Panel{p}
	f.Caption = "Accuracy on clean images and under attack, with 95 % intervals of the latter: up and to the right " +
		"is better."
	if g.Ranked() > figureEntries {
		f.Caption += fmt.Sprintf(" The first %d.", figureEntries)
	}
	return f
}

// tens returns the ticks of a scale of fractions for a range, and the range padded at its ends.
func tens(of [2]float64) (ticks []plot.Tick, from, to float64) {
	step, least, most := 0.1, min(of[0], 1), max(of[1], 0)
	if most-least > 0.55 {
		step = 0.2
	}
	from, to = math.Floor(least/step)*step, math.Ceil(most/step)*step
	if to-from < step/2 {
		from, to = from-step, to+step
	}
	for i := range int(math.Round((to-from)/step)) + 1 {
		v := from + step*float64(i)
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f %%", 100*v)})
	}
	return ticks, from, to
}

// Histories draws accuracy from run to run, one figure per history.
func Histories(g *view.Group) (out []chart.Sheet) {
	for _, s := range g.History[:min(len(g.History), mostHistories)] {
		f, name, times := chart.InPage(), view.EntryName(compare.Entry{Row: s.Row}), timesOf(s)
		p := chart.Plot{Title: name, Y: "accuracy, " + s.Attacker + " attacker", High: curveHeight}
		p.XTicks, p.X = dates(s, times, f.PanelWidth())
		f.Alt = g.HistoryName(s) + "."
		for k, l := range s.Lines[:min(len(s.Lines), historyLines)] {
			one := chart.LookOf(k).Labelled(g.Attack(l.Column), f.PanelWidth()-40)
			one.Marks = len(s.Points) <= markedRuns
			f.Alt += " " + g.Attack(l.Column) + ":"
			for at, point := range s.Points {
				score := g.Entries[point.Entry].Cells[l.Column].Score
				if score == nil {
					continue
				}
				one.Add(times[at], score.Accuracy)
				one.Low, one.High = append(one.Low, score.CI95[0]), append(one.High, score.CI95[1])
				f.Alt += " " + view.ScoreText(score)
				for _, step := range l.Steps {
					if step.To == at && step.Test != nil && step.Test.Significant {
						change := words.Points(step.Test.Difference, 1)
						p.Labels = append(p.Labels, chart.Text{X: times[at], Y: score.Accuracy, Text: change})
						f.Alt += " (" + change + ")"
					}
				}
			}
			f.Alt += "."
			p.Series = append(p.Series, one)
		}
		_, accuracies := p.Reach()
		p.YTicks, p.Box[1], p.Box[3] = tens(accuracies)
		p.Box[0], p.Box[2] = times[0], max(times[len(times)-1], times[0]+1e-9)
		f.Panels, f.Legend = []chart.Panel{p}, chart.Merged(p.Series)
		f.Caption = name + ", attacker: " + s.Attacker
		if more := len(s.Lines) - historyLines; more > 0 {
			f.Caption += fmt.Sprintf("; %d more attacks stand in the table", more)
		}
		out = append(out, f)
	}
	return out
}

// timesOf returns a history's times in days since its first run, or the runs' numbers if all times are equal.
func timesOf(s compare.Series) (out []float64) {
	first, last := s.Points[0].Created, s.Points[len(s.Points)-1].Created
	for i, p := range s.Points {
		days := p.Created.Sub(first).Hours() / 24
		if !last.After(first) {
			days = float64(i)
		}
		out = append(out, days)
	}
	return out
}

// dates returns ticks for a history's runs, as many as fit, and the axis's label.
func dates(s compare.Series, times []float64, width vg.Length) (ticks []plot.Tick, axis string) {
	layout, axis := "2006-01-02", "date of the run (UTC)"
	first, last := s.Points[0].Created.UTC(), s.Points[len(s.Points)-1].Created.UTC()
	if last.Sub(first) < 36*time.Hour {
		layout, axis = "15:04", "time of the run (UTC), "+first.Format("2006-01-02")
	}
	label := chart.Small.Width(first.Format(layout)) + 8
	span, at := cmp.Or(times[len(times)-1]-times[0], 1), math.Inf(-1)
	for i, t := range times {
		tick := plot.Tick{Value: t}
		if vg.Length((t-at)/span)*(width-50) >= label {
			tick.Label, at = s.Points[i].Created.UTC().Format(layout), t
		}
		ticks = append(ticks, tick)
	}
	return ticks, axis
}
