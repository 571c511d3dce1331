package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"selfheal/harness/compare"
)

// labelled is a chart whose points have short labels, which stand where they hide least.
type labelled struct {
	plotPanel
	Labels []pointLabel
}

// pointLabel is written beside a point, in units of the axes.
type pointLabel struct {
	X, Y float64
	Text string
}

func (l labelled) draw(p pen, left, top, width, height, titled vg.Length) {
	small := style(small, false)
	p.write(fit(l.Title, style(9, true), titled), vg.Point{X: left, Y: top}, style(9, true), p.ink, 0, -1)
	p.write(fit(l.Y, small, width), vg.Point{X: left, Y: top - 14}, small, p.muted, 0, -1)
	area := vg.Rectangle{Min: vg.Point{X: left, Y: top - height}, Max: vg.Point{X: left + width - 6, Y: top - plotHead}}
	plt := l.axes(p.theme)
	plt.Add(plotLayer{l.plotPanel, p.theme}, labelLayer{l, p.theme})
	plt.Draw(draw.Canvas{Canvas: p.Canvas, Rectangle: area})
}

// labelLayer is a panel's labels as a plotter.
type labelLayer struct {
	labelled
	theme theme
}

// around are the places of a label beside its point: steps right and up, of which the nearer come first.
var around = func() (out [][2]float64) {
	for _, r := range []float64{1, 1.9, 2.9} {
		for _, turn := range []float64{0.25, 0, 0.5, 0.75, 0.125, 0.375, 0.625, 0.875} {
			sin, cos := math.Sincos(2 * math.Pi * turn)
			out = append(out, [2]float64{r * cos, r * sin})
		}
	}
	return out
}()

func (l labelLayer) Plot(c draw.Canvas, plt *plot.Plot) {
	x, y := plt.Transforms(&c)
	p, st := pen{c, l.theme}, style(small, true)
	var taken []vg.Rectangle
	box := func(at vg.Point, w, h vg.Length) vg.Rectangle {
		return vg.Rectangle{Min: vg.Point{X: at.X - w/2, Y: at.Y - h/2}, Max: vg.Point{X: at.X + w/2, Y: at.Y + h/2}}
	}
	for _, s := range l.Series {
		for i := range s.X {
			at := vg.Point{X: x(s.X[i]), Y: y(s.Y[i])}
			taken = append(taken, box(at, 6, 6), vg.Rectangle{Min: vg.Point{X: at.X - 0.5, Y: y(s.Low[i])},
				Max: vg.Point{X: at.X + 0.5, Y: y(s.High[i])}})
			if s.Line && i > 0 {
				before := vg.Point{X: x(s.X[i-1]), Y: y(s.Y[i-1])}
				for k := range linePieces {
					taken = append(taken, box(before.Add(at.Sub(before).Scale(vg.Length(k)/linePieces)), 2, 2))
				}
			}
		}
	}
	for _, label := range l.Labels {
		point := vg.Point{X: x(label.X), Y: y(label.Y)}
		w, h := st.Width(label.Text)+1, st.Font.Size
		best, least := point, math.Inf(1)
		for i, step := range around {
			at := vg.Point{X: point.X + vg.Length(step[0])*(w/2+5), Y: point.Y + vg.Length(step[1])*(h/2+5)}
			hidden := 0.02 * float64(i)
			mine := box(at, w, h)
			for _, t := range taken {
				hidden += overlap(mine, t)
			}
			if mine.Min.X < c.Min.X || mine.Max.X > c.Max.X || mine.Min.Y < c.Min.Y || mine.Max.Y > c.Max.Y {
				hidden += 100
			}
			if hidden < least {
				best, least = at, hidden
			}
		}
		taken = append(taken, box(best, w, h))
		if d := best.Sub(point); d.Dot(d) > (w/2+10)*(w/2+10) {
			p.segment(p.muted, 0.4, point, best)
		}
		p.block(p.paper, box(best, w, h-1))
		p.write(label.Text, best, st, p.ink, -0.5, -0.5)
	}
}

// linePieces is how many places stand for a line between two points.
const linePieces = 12

// overlap is the area that two rectangles have in common.
func overlap(a, b vg.Rectangle) float64 {
	w := min(a.Max.X, b.Max.X) - max(a.Min.X, b.Min.X)
	h := min(a.Max.Y, b.Max.Y) - max(a.Min.Y, b.Min.Y)
	return float64(max(w, 0) * max(h, 0))
}

// figureEntries is how many entries a figure has room for.
const figureEntries = 30

// scatter draws clean accuracy against that which the ranking is by; it has no panels where there is no attack.
func (g *group) scatter(f sheet) sheet {
	by := g.Group.RankedBy
	if len(by) == 0 || g.Columns[by[0]].Attack == "none" || g.Columns[0].Attack != "none" {
		return f
	}
	what := strings.Join(g.attacks(by), "")
	if len(by) > 1 {
		what = fmt.Sprintf("worst of %d attacks", len(by))
	}
	p := labelled{plotPanel: plotPanel{X: "accuracy on clean images", Y: "accuracy under attack: " + what,
		High: f.panelWidth() * 0.75}}
	f.Alt = "Accuracy on clean images and under attack, " + g.Heading() + "."
	least, most := [2]float64{1, 1}, [2]float64{}
	reach := func(axis int, v ...float64) {
		least[axis], most[axis] = min(least[axis], slices.Min(v)), max(most[axis], slices.Max(v))
	}
	for i, e := range g.Entries {
		first := e.Cells[0].Score
		if e.Worst == nil || first == nil || len(f.Legend) == figureEntries {
			continue
		}
		one := plotSeries{look: look{Colour: i, Marks: true, Marker: i}, Label: fit(g.label(i), style(normal, false),
			f.panelWidth()-20), X: []float64{first.Accuracy}, Y: []float64{e.Worst.Accuracy},
			Low: []float64{e.Worst.CI95[0]}, High: []float64{e.Worst.CI95[1]}}
		reach(0, first.Accuracy)
		reach(1, e.Worst.CI95[0], e.Worst.CI95[1])
		p.Series, f.Legend = append(p.Series, one), append(f.Legend, one)
		p.Labels = append(p.Labels, pointLabel{first.Accuracy, e.Worst.Accuracy, key(i)})
		f.Alt += fmt.Sprintf(" %s: %s %%, %s %%.", g.label(i), scoreText(first), scoreText(e.Worst))
	}
	if p.Series == nil {
		return f
	}
	p.XTicks, p.Box[0], p.Box[2] = tens(least[0], most[0])
	p.YTicks, p.Box[1], p.Box[3] = tens(least[1], most[1])
	f.Panels = []panel{p}
	f.Caption = "Accuracy on clean images and under attack, with 95 % intervals of the latter: up and to the right " +
		"is better."
	if g.ranked() > figureEntries {
		f.Caption += fmt.Sprintf(" The first %d.", figureEntries)
	}
	return f
}

// tens are ticks of a scale of shares that holds a range, and the range with room at its ends.
func tens(least, most float64) (ticks []plot.Tick, from, to float64) {
	step := 0.1
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

// Scatter is the group's figure for a page.
func (g *group) Scatter() *sheet {
	f := g.scatter(sheet{Width: 4.4 * vg.Inch, Columns: 1, Margin: 6})
	if f.Panels == nil {
		return nil
	}
	return &f
}

// mostHistories bounds the figures of histories, and historyLines the lines of one.
const mostHistories, historyLines = 24, 6

// Histories draw accuracy from run to run, a figure a history.
func (g *group) Histories() (out []sheet) {
	for _, s := range g.History[:min(len(g.History), mostHistories)] {
		f := inPage()
		p := labelled{
			plotPanel: plotPanel{Title: name(compare.Entry{Model: s.Model, Defense: s.Defense}), Y: "accuracy, " +
				s.Attacker + " attacker", High: curveHeight},
		}
		times := timesOf(s)
		p.XTicks, p.X = dates(s, times, f.panelWidth())
		least, most := 1.0, 0.0
		f.Alt = g.historyName(s) + "."
		for k, l := range s.Lines[:min(len(s.Lines), historyLines)] {
			one := plotSeries{look: lookOf(k), Label: fit(g.attack(l.Column), style(normal, false), f.panelWidth()-40)}
			f.Alt += " " + g.attack(l.Column) + ":"
			for at, point := range s.Points {
				score := g.Entries[point.Entry].Cells[l.Column].Score
				if score == nil {
					continue
				}
				one.add(times[at], score.Accuracy)
				one.Low, one.High = append(one.Low, score.CI95[0]), append(one.High, score.CI95[1])
				least, most = min(least, score.CI95[0]), max(most, score.CI95[1])
				f.Alt += " " + scoreText(score)
				for _, step := range l.Steps {
					if step.To == at && step.Test != nil && step.Test.Significant {
						p.Labels = append(p.Labels, pointLabel{times[at], score.Accuracy, tenths(step.Test.Difference)})
						f.Alt += " (" + tenths(step.Test.Difference) + ")"
					}
				}
			}
			f.Alt += "."
			p.Series = append(p.Series, one)
		}
		p.YTicks, p.Box[1], p.Box[3] = tens(least, most)
		p.Box[0], p.Box[2] = times[0], max(times[len(times)-1], times[0]+1e-9)
		f.Panels, f.Legend = []panel{p}, merged(p.Series)
		f.Caption = name(compare.Entry{Model: s.Model, Defense: s.Defense}) + ", attacker: " + s.Attacker
		if more := len(s.Lines) - historyLines; more > 0 {
			f.Caption += fmt.Sprintf("; %d more attacks stand in the table", more)
		}
		out = append(out, f)
	}
	return out
}

// timesOf are a history's times in days since its first run; where all are one moment, the runs are counted.
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

// dates are the ticks of a history's runs, as many as have room, and what the axis shows.
func dates(s compare.Series, times []float64, width vg.Length) (ticks []plot.Tick, axis string) {
	layout, axis := "2006-01-02", "date of the run (UTC)"
	first, last := s.Points[0].Created.UTC(), s.Points[len(s.Points)-1].Created.UTC()
	if last.Sub(first) < 36*time.Hour {
		layout, axis = "15:04", "time of the run (UTC), "+first.Format("2006-01-02")
	}
	label := style(small, false).Width(first.Format(layout)) + 8
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
