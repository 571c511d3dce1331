package chart

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	txt "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"selfheal/control/theory"
	"selfheal/harness/stats"
	"selfheal/reports/words"
)

// Figure is a group of plots with one legend.
type Figure struct {
	Slug    string // in the files' names, theory-SLUG.png, .svg and .pdf
	Title   string
	Caption string
	Columns int // panels a row
	Panels  []Plot
}

// Plot is one chart. A Square one is a piece of the plane, with the same scale in both directions and no axes.
type Plot struct {
	Title          string
	X, Y           string // what the axes show
	LogX, LogY     bool
	XTicks, YTicks []plot.Tick // nil: chosen from the ranges
	Square         bool
	High           vg.Length       // height of the chart; 0: a fraction of its width
	Box            [4]float64      // least x, least y, largest x, largest y; all 0: the data's range
	Field          *theory.Field   // over the Box, in colours
	Classes        map[float64]int // the field's values that are classes; nil shades small values
	Bars           []Bar
	Series         []Series
	Texts          []Text
	Labels         []Text // placed where they hide least
	Note           string // text below the panel in a page
}

// Series is one line or set of points. Series with one label share an entry of the legend; a series without a label has
// none.
type Series struct {
	Look
	Label     string
	X, Y      []float64
	Low, High []float64 // ends of error bars, if not nil
	Band      bool      // they are the borders of a band around the line
}

// Banded adds 95 % Wilson intervals to fractions of n images in units of scale: a band around a line, error bars at
// marks.
func (s Series) Banded(n int, scale float64) Series {
	s.Band = s.Line
	for _, y := range s.Y {
		right := math.Round(y / scale * float64(n))
		ends := stats.Wilson(int(min(max(right, 0), float64(n))), n)
		s.Low, s.High = append(s.Low, scale*ends[0]), append(s.High, scale*ends[1])
	}
	return s
}

// Bar is a bar from 0 to Top, between X and X+Width.
type Bar struct {
	Look
	X, Width, Top float64
	Before        float64     // end of a paler bar above it; 0 for none
	Whisker       *[2]float64 // nil for none
	Text          string      // above it, if Room is wide enough
	Room          float64     // in units of X
}

// Text is written at a point of a panel, in units of its axes.
type Text struct {
	X, Y float64
	Text string
}

const (
	plotHead   = vg.Length(28)   // height of a panel's title and of the label of its vertical axis
	plotAspect = vg.Length(0.72) // height of a chart as a fraction of its width
)

// Sheet lays the figure out, as wide as two columns of print, or as one for a single panel.
func (f Figure) Sheet(head ...string) Sheet {
	out := Sheet{Width: twoColumns, Columns: max(f.Columns, 1), Margin: 8, Head: head, Alt: f.Title + ". " + f.Caption,
		Caption: f.Caption}
	if len(f.Panels) == 1 {
		out.Width, out.Columns = OneColumn, 1
	}
	var all []Series
	for _, p := range f.Panels {
		out.Panels, all = append(out.Panels, p), append(all, p.Series...)
		out.Alt += " " + p.Title + "."
	}
	out.Legend = Merged(all)
	return out
}

// Panes returns the figure's panels as sheets of a page, each with its own legend.
func (f Figure) Panes() (out []Sheet) {
	for _, p := range f.Panels {
		if p.empty() {
			continue
		}
		one := InPage()
		one.Panels, one.Legend, one.Caption = []Panel{p}, Merged(p.Series), p.Note
		one.Alt = f.Title + ", " + p.Title + ". " + f.Caption
		out = append(out, one)
	}
	return out
}

// empty reports whether a panel only fills a place in its row.
func (p Plot) empty() bool { return p.X == "" && p.Series == nil && p.Field == nil && p.Bars == nil }

func (p Plot) Height(width vg.Length) vg.Length {
	switch {
	case p.Square:
		return PanelTitle + width
	case p.High > 0:
		return plotHead + p.High
	}
	return plotHead + max(width*plotAspect, 110)
}

func (p Plot) Draw(pn Pen, left, top, width, height, titled vg.Length) {
	if p.empty() {
		return
	}
	pn.Write(Fit(p.Title, Strong, titled), Pt(left, top), Strong, pn.Ink, 0, -1)
	area := Rect(left, top-height, left+width, top-plotHead)
	if p.Bars == nil {
		area.Max.X -= 6
	}
	if p.Square {
		side := min(width, height-PanelTitle)
		area.Min.Y, area.Max = top-PanelTitle-side, Pt(left+side, top-PanelTitle)
	} else {
		pn.Write(Fit(p.Y, Small, width), Pt(left, top-14), Small, pn.Muted, 0, -1)
	}
	p.Chart(pn, area)
}

func (p Plot) Chart(pn Pen, area vg.Rectangle) {
	plt := p.axes(pn.theme)
	plt.Add(layer(func(c draw.Canvas, plt *plot.Plot) { p.data(Pen{c, pn.theme}, plt) }))
	plt.Draw(draw.Canvas{Canvas: pn.Canvas, Rectangle: area})
	if p.Square {
		pn.SetLineStyle(draw.LineStyle{Color: pn.Muted, Width: 0.5})
		pn.Stroke(area.Path())
	}
}

type layer func(c draw.Canvas, plt *plot.Plot)

func (l layer) Plot(c draw.Canvas, plt *plot.Plot) { l(c, plt) }

func (p Plot) data(pn Pen, plt *plot.Plot) {
	x, y := plt.Transforms(&pn.Canvas)
	if p.Field != nil {
		pn.DrawImage(pn.Rectangle, p.colours(pn.theme))
	}
	for _, t := range plt.Y.Tick.Marker.Ticks(plt.Y.Min, plt.Y.Max) {
		if t.Label != "" && !p.Square {
			pn.Segment(pn.Grid, 0.4, Pt(pn.Min.X, y(t.Value)), Pt(pn.Max.X, y(t.Value)))
		}
	}
	for _, b := range p.Bars {
		b.draw(pn, x, y)
	}
	for _, s := range p.Series {
		if s.Band {
			var border []vg.Point
			for i := range s.X {
				border = append(border, Pt(x(s.X[i]), y(s.High[i])))
			}
			for i := range slices.Backward(s.X) {
				border = append(border, Pt(x(s.X[i]), y(s.Low[i])))
			}
			pn.FillPolygon(Tint(pn.Colour(s.Colour)), border)
		}
	}
	for _, s := range p.Series {
		var at []vg.Point
		for i := range s.X {
			if (!p.LogX || s.X[i] > 0) && (!p.LogY || s.Y[i] > 0) { // a logarithmic axis shows only positive values
				at = append(at, Pt(x(s.X[i]), y(s.Y[i])))
			}
		}
		if s.Line {
			pn.StrokeLines(pn.Line(s.Look), pn.ClipLinesXY(at)...)
		}
		for i := range s.Low {
			if s.Band {
				break
			}
			pn.Segment(pn.Colour(s.Colour), 0.8, Pt(x(s.X[i]), y(s.Low[i])), Pt(x(s.X[i]), y(s.High[i])))
		}
		for _, q := range at {
			if s.Marks && pn.Contains(q) {
				pn.Mark(s.Look, q)
			}
		}
	}
	for _, t := range p.Texts {
		pn.Write(t.Text, Pt(x(t.X), y(t.Y)), Title, pn.Ink, -0.5, -0.5)
	}
	if p.Labels != nil {
		p.labels(pn, x, y)
	}
}

func (b Bar) draw(p Pen, x, y func(float64) vg.Length) {
	from, to, base, top := x(b.X), x(b.X+b.Width), y(0), y(b.Top)
	colour, middle := p.Colour(b.Colour), (from+to)/2
	if b.Top > 0 {
		p.Block(colour, Rect(from, base, to, top))
	}
	if before := y(b.Before); b.Before > b.Top {
		p.Block(Mix(colour, p.Paper, 0.75), Rect(from, top, to, before))
		if before-top < 12 { // no room for the value in the tinted bar
			top = before
		}
	}
	if w := b.Whisker; w != nil {
		p.Segment(p.Ink, 0.8, Pt(middle, y(w[0])), Pt(middle, y(w[1])))
		top = max(top, y(w[1]))
	}
	if Small.Width(b.Text) <= x(b.Room)-x(0) {
		p.Write(b.Text, Pt(middle, top+2), Small, p.Ink, -0.5, 0)
	}
}

// colours draws a field as an image: classes in tints with a dark line between them, or a scale from dark (0) to paper.
func (p Plot) colours(t theme) image.Image {
	f, n, largest := p.Field, p.Field.N, slices.Max(p.Field.Values)
	img := image.NewNRGBA(image.Rect(0, 0, n, n))
	value := func(i, j int) float64 { return f.Values[min(i, n-1)*n+min(j, n-1)] }
	for i := range n {
		for j := range n {
			v := value(i, j)
			var c color.Color
			switch {
			case p.Classes == nil:
				share := 1.0
				if largest > 0 {
					share = math.Sqrt(v / largest)
				}
				c = Mix(t.Muted, t.Paper, 0.45+0.55*share) // grey, so that points of any colour stand out
			case value(i+1, j) != v || value(i, j+1) != v:
				c = t.Muted
			default:
				c = Mix(t.Colour(p.Classes[v]), t.Paper, 0.72)
			}
			img.Set(j, n-1-i, c)
		}
	}
	return img
}

// Tint returns a translucent form of a colour.
func Tint(c color.Color) color.Color {
	k := color.NRGBAModel.Convert(c).(color.NRGBA)
	k.A = 0x1c
	return k
}

// Mix returns the colour at a fraction of the way from a to b.
func Mix(a, b color.Color, share float64) color.Color {
	r, g, bl, _ := a.RGBA()
	s, h, bm, _ := b.RGBA()
	between := func(x, y uint32) uint8 { return uint8((float64(x)*(1-share) + float64(y)*share) / 257) }
	return color.NRGBA{between(r, s), between(g, h), between(bl, bm), 0xff}
}

func Marked(label string, colour, marker int) Series {
	return Series{Label: label, Look: Look{Colour: colour, Marks: true, Marker: marker}}
}

func Lined(label string, colour, dash int) Series {
	return Series{Label: label, Look: Look{Colour: colour, Line: true, Dash: dash}}
}

func (s *Series) Add(x, y float64) { s.X, s.Y = append(s.X, x), append(s.Y, y) }

// Along returns s through points of the plane.
func (s Series) Along(at ...theory.Point) Series {
	for _, p := range at {
		s.Add(p[0], p[1])
	}
	return s
}

func (p Plot) labels(pn Pen, x, y func(float64) vg.Length) {
	var drawn []vg.Rectangle // areas that the labels should not hide
	for _, s := range p.Series {
		for i := range s.X {
			at := Pt(x(s.X[i]), y(s.Y[i]))
			drawn = append(drawn, centred(at, 6, 6))
			if s.Low != nil {
				drawn = append(drawn, Rect(at.X-0.5, y(s.Low[i]), at.X+0.5, y(s.High[i])))
			}
			for k := range linePieces {
				if s.Line && i > 0 {
					before := Pt(x(s.X[i-1]), y(s.Y[i-1]))
					drawn = append(drawn, centred(before.Add(at.Sub(before).Scale(vg.Length(k)/linePieces)), 2, 2))
				}
			}
		}
	}
	var points, sizes []vg.Point
	for _, label := range p.Labels {
		points = append(points, Pt(x(label.X), y(label.Y)))
		sizes = append(sizes, Pt(SmallBold.Width(label.Text)+1, SmallBold.Font.Size))
	}
	for i, at := range beside(points, sizes, drawn, pn.Rectangle) {
		d, w, h := at.Sub(points[i]), sizes[i].X, sizes[i].Y
		if far := w/2 + 10; d.Dot(d) > far*far {
			pn.Segment(pn.Muted, 0.4, points[i], at)
		}
		pn.Block(pn.Paper, centred(at, w, h-1))
		pn.Write(p.Labels[i].Text, at, SmallBold, pn.Ink, -0.5, -0.5)
	}
}

// linePieces is the number of places that stand for a line between two points.
const linePieces = 12

// around lists the places of a label beside its point: steps right and up, the nearer first.
var around = func() (out [][2]float64) {
	for _, r := range []float64{1, 1.5, 2, 3, 4} {
		for _, turn := range []float64{0.25, 0, 0.5, 0.75, 0.125, 0.375, 0.625, 0.875} {
			sin, cos := math.Sincos(2 * math.Pi * turn)
			out = append(out, [2]float64{r * cos, r * sin})
		}
	}
	return out
}()

// beside places labels near their points, each where it hides least, and returns their centres.
func beside(points, sizes []vg.Point, drawn []vg.Rectangle, within vg.Rectangle) (middles []vg.Point) {
	const further, label, outside = 0.02, 5, 100 // penalties of a place farther away, over a label, or outside
	var labels []vg.Rectangle
	for i, point := range points {
		w, h := sizes[i].X, sizes[i].Y
		best, least := point, math.Inf(1)
		for k, step := range around {
			at := Pt(point.X+vg.Length(step[0])*(w/2+5), point.Y+vg.Length(step[1])*(h/2+5))
			mine, bad := centred(at, w, h), further*float64(k)
			for _, r := range drawn {
				bad += overlap(mine, r)
			}
			for _, r := range labels {
				bad += label * overlap(mine, r)
			}
			if mine.Min.X < within.Min.X || mine.Max.X > within.Max.X || mine.Min.Y < within.Min.Y ||
				mine.Max.Y > within.Max.Y {
				bad += outside
			}
			if bad < least {
				best, least = at, bad
			}
		}
		middles, labels = append(middles, best), append(labels, centred(best, w, h))
	}
	return middles
}

func centred(at vg.Point, w, h vg.Length) vg.Rectangle {
	half := Pt(w/2, h/2)
	return vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)}
}

func overlap(a, b vg.Rectangle) float64 {
	w := min(a.Max.X, b.Max.X) - max(a.Min.X, b.Min.X)
	h := min(a.Max.Y, b.Max.Y) - max(a.Min.Y, b.Min.Y)
	return float64(max(w, 0) * max(h, 0))
}

// axes makes a panel's axes in the theme's colours, over its data's range.
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
	xs, ys := p.Reach()
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
	if p.Bars != nil { // they stand on the scale's lowest line, and need the axes' padding
		plt.X.Min, plt.X.Max, plt.Y.Min, plt.Y.Max = xs[0], xs[1], ys[0], ys[1]
		for _, a := range []*plot.Axis{&plt.X, &plt.Y} {
			a.LineStyle.Width, a.Tick.LineStyle.Width, a.Tick.Length, a.Padding = 0, 0, 2, 0
		}
		plt.X.Tick.Label.Color = t.Ink
	}
	return plt
}

// Reach returns the range of the values of all series, error bars included; [+Inf, −Inf] if there is none. A
// logarithmic scale has only positive values.
func (p Plot) Reach() (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	widen := func(of *[2]float64, values []float64, log bool) {
		for _, v := range values {
			if !log || v > 0 {
				of[0], of[1] = min(of[0], v), max(of[1], v)
			}
		}
	}
	for _, s := range p.Series {
		widen(&x, s.X, p.LogX)
		widen(&y, slices.Concat(s.Y, s.Low, s.High), p.LogY)
	}
	return x, y
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

// Named returns labels as ticks at 0, 1, 2, …; an empty label has no tick.
func Named(labels []string) (ticks []plot.Tick) {
	broken := slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(l, "\n") })
	for i, label := range labels {
		if broken && !strings.Contains(label, "\n") { // the first lines of all labels align
			label += "\n "
		}
		if label != "" {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: label})
		}
	}
	return ticks
}

// PerCent returns the ticks of a scale of fractions.
func PerCent() (ticks []plot.Tick) {
	for i := range 6 {
		ticks = append(ticks, plot.Tick{Value: float64(i) / 5, Label: fmt.Sprintf("%d %%", 20*i)})
	}
	return ticks
}

// linearTicks returns gonum's ticks, with a true minus sign.
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

// decades returns a logarithmic axis's ticks at powers of ten. Short axes also have ticks at 2 and 5, or those of a
// linear axis.
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
