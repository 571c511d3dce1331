package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	txt "gonum.org/v1/plot/text"

	"selfheal/reports/words"
)

// axes are a panel's, in the theme's colours and over its data's range.
func (p Plot) axes(t theme) *plot.Plot {
	plt := plot.New()
	plt.BackgroundColor = nil
	for _, a := range []*plot.Axis{&plt.X, &plt.Y} {
		for _, s := range []*txt.Style{&a.Label.TextStyle, &a.Tick.Label} {
			s.Font, s.Color = Small.Font, t.Muted
		}
		a.Color, a.Tick.Color = t.Muted, t.Muted
		a.Tick.Length, a.Padding = 4, 2
	}
	plt.X.Label.Text = p.X
	plt.X.Label.Padding = 2
	xs, ys := [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, s := range p.Series {
		Widen(&xs, s.X, p.LogX)
		for _, y := range [][]float64{s.Y, s.Low, s.High} {
			Widen(&ys, y, p.LogY)
		}
	}
	if p.Box != [4]float64{} {
		xs, ys = [2]float64{p.Box[0], p.Box[2]}, [2]float64{p.Box[1], p.Box[3]}
	}
	if p.Square {
		plt.HideAxes()
		plt.X.Padding, plt.Y.Padding = 0, 0
		plt.X.Min, plt.X.Max, plt.Y.Min, plt.Y.Max = xs[0], xs[1], ys[0], ys[1]
		return plt
	}
	set := func(a *plot.Axis, of [2]float64, log bool, ticks []plot.Tick) {
		a.Min, a.Max = padded(of, log)
		a.Tick.Marker = plot.TickerFunc(linearTicks)
		if log {
			a.Scale, a.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
		}
		if ticks != nil {
			a.Tick.Marker = plot.ConstantTicks(ticks)
		}
	}
	set(&plt.X, xs, p.LogX, p.XTicks)
	set(&plt.Y, ys, p.LogY, p.YTicks)
	if p.Bars != nil { // these stand on the scale's lowest line, and need the axes' room
		plt.X.Min, plt.X.Max, plt.Y.Min, plt.Y.Max = xs[0], xs[1], ys[0], ys[1]
		for _, a := range []*plot.Axis{&plt.X, &plt.Y} {
			a.LineStyle.Width, a.Tick.LineStyle.Width, a.Tick.Length, a.Padding = 0, 0, 2, 0
		}
		plt.X.Tick.Label.Color = t.Ink
	}
	return plt
}

// Widen takes values into a range; a logarithmic scale has only positive ones.
func Widen(of *[2]float64, values []float64, log bool) {
	for _, v := range values {
		if !log || v > 0 {
			of[0], of[1] = min(of[0], v), max(of[1], v)
		}
	}
}

func padded(of [2]float64, log bool) (least, most float64) {
	if of[0] > of[1] { // no data
		of = [2]float64{1, 2}
	}
	if log {
		room := max(math.Pow(of[1]/of[0], 0.04), 1.05)
		return of[0] / room, of[1] * room
	}
	room := max(0.04*(of[1]-of[0]), 1e-9*max(math.Abs(of[0]), math.Abs(of[1])), 1e-12)
	return of[0] - room, of[1] + room
}

// Named are labels at 0, 1, 2, …; an empty one has no tick.
func Named(labels []string) (ticks []plot.Tick) {
	broken := slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(l, "\n") })
	for i, label := range labels {
		if broken && !strings.Contains(label, "\n") { // first lines stand side by side
			label += "\n "
		}
		if label != "" {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: label})
		}
	}
	return ticks
}

// PerCent are the ticks of a scale of shares.
func PerCent() (ticks []plot.Tick) {
	for i := range 6 {
		ticks = append(ticks, plot.Tick{Value: float64(i) / 5, Label: fmt.Sprintf("%d %%", 20*i)})
	}
	return ticks
}

// linearTicks are gonum's, with a true minus.
func linearTicks(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = words.ThreeDigits(t.Value)
			if math.Abs(t.Value) < 1e-9*(most-least) {
				ticks[i].Label = "0"
			}
		}
	}
	return ticks
}

// decades ticks a logarithmic axis at powers of ten; short axes have ticks at 2 and 5 too, or those of a linear axis.
func decades(least, most float64) []plot.Tick {
	low, high := int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	every, labels := (high-low)/6+1, 0
	var ticks []plot.Tick
	for e := low; e <= high; e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, float64(e))
			if v < least || v > most || m > 1 && high-low > 6 || every > 6 && (e-low)%every > 0 { // dense enough
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 && (e-low)%every == 0 || high-low <= 2 {
				t.Label = strconv.FormatFloat(v, 'g', 3, 64)
				if e < -3 || e > 3 {
					t.Label = fmt.Sprintf("%.0fe%d", m, e)
				}
				labels++
			}
			ticks = append(ticks, t)
		}
	}
	if labels < 2 {
		return linearTicks(least, most)
	}
	return ticks
}
