package reports

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	txt "gonum.org/v1/plot/text"
)

// axes are a panel's, in the figure's colours and over its data's range.
func (f theoryPicture) axes(panel plotPanel) *plot.Plot {
	plt := plot.New()
	plt.BackgroundColor = nil
	for _, a := range []*plot.Axis{&plt.X, &plt.Y} {
		for _, s := range []*txt.Style{&a.Label.TextStyle, &a.Tick.Label} {
			s.Font, s.Color = style(small, false).Font, f.theme.muted
		}
		a.Color, a.Tick.Color = f.theme.muted, f.theme.muted
		a.Tick.Length, a.Padding = 4, 2
	}
	plt.X.Label.Text = panel.X
	plt.X.Label.Padding = 2
	xs, ys := [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, s := range panel.Series {
		widen(&xs, s.X, panel.LogX)
		for _, y := range [][]float64{s.Y, s.Low, s.High} {
			widen(&ys, y, panel.LogY)
		}
	}
	if panel.Box != [4]float64{} {
		xs, ys = [2]float64{panel.Box[0], panel.Box[2]}, [2]float64{panel.Box[1], panel.Box[3]}
	}
	set := func(a *plot.Axis, of [2]float64, log bool) {
		a.Min, a.Max = padded(of, log)
		a.Tick.Marker = linearTicks{}
		if log {
			a.Scale, a.Tick.Marker = plot.LogScale{}, decades{}
		}
	}
	set(&plt.X, xs, panel.LogX)
	set(&plt.Y, ys, panel.LogY)
	if panel.XTicks != nil {
		plt.X.Tick.Marker = namedTicks(panel.XTicks)
	}
	return plt
}

// widen takes values into a range; a logarithmic scale has only positive ones.
func widen(of *[2]float64, values []float64, log bool) {
	for _, v := range values {
		if !log || v > 0 {
			of[0], of[1] = min(of[0], v), max(of[1], v)
		}
	}
}

// padded leaves a little room around a range.
func padded(of [2]float64, log bool) (least, most float64) {
	if of[0] > of[1] { // no data
		of = [2]float64{1, 2}
	}
	if log {
		if !(math.Log10(of[1])-math.Log10(of[0]) <= mostDecades) { // room might be no number
			return max(of[0], math.SmallestNonzeroFloat64), min(of[1], math.MaxFloat64)
		}
		room := max(math.Pow(of[1]/of[0], 0.04), 1.05)
		return of[0] / room, of[1] * room
	}
	for i := range of { // far enough from the largest number to reckon with
		of[i] = min(max(of[i], -mostLinear), mostLinear)
	}
	room := max(0.04*(of[1]-of[0]), 1e-9*max(math.Abs(of[0]), math.Abs(of[1])), 1e-12)
	return of[0] - room, of[1] + room
}

const (
	mostDecades = 40    // that a logarithmic axis ticks
	mostLinear  = 1e300 // either end of a linear axis
)

// endTicks are those of a range that has no others: at both ends.
func endTicks(least, most float64) []plot.Tick {
	return []plot.Tick{{Value: least, Label: number(least)}, {Value: most, Label: number(most)}}
}

// namedTicks are labels at 0, 1, 2, …
type namedTicks []string

// Ticks implements [plot.Ticker].
func (n namedTicks) Ticks(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for i, label := range n {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: label})
	}
	return ticks
}

// linearTicks are gonum's, with a true minus.
type linearTicks struct{}

func (linearTicks) Ticks(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = number(t.Value)
			if t.Value == 0 || math.Abs(t.Value) < 1e-9*(most-least) {
				ticks[i].Label = "0"
			}
		}
	}
	return ticks
}

// decades ticks a logarithmic axis at powers of ten, on short axes at 2 and 5 times those too, and on
// shorter ones as a linear axis.
type decades struct{}

func (decades) Ticks(least, most float64) []plot.Tick {
	if span := math.Log10(most) - math.Log10(least); !(span <= mostDecades) { // absurd, or no number
		return endTicks(least, most)
	}
	low, high := int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	every, labels := (high-low)/6+1, 0
	var ticks []plot.Tick
	for e := low; e <= high; e++ {
		for _, m := range []float64{1, 2, 5} {
			if m > 1 && high-low > 6 {
				continue // the axis is dense enough
			}
			v := m * math.Pow(10, float64(e))
			if v < least || v > most {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 && (e-low)%every == 0 || high-low <= 2 {
				t.Label = strconv.FormatFloat(v, 'g', 3, 64)
				if e < -3 || e > 3 {
					t.Label = fmt.Sprintf("%.0fe%d", m, e)
				}
			}
			if t.Label != "" {
				labels++
			}
			ticks = append(ticks, t)
		}
	}
	if labels < 2 {
		return linearTicks{}.Ticks(least, most)
	}
	return ticks
}
