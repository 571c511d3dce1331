package figure

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// axes is the layout of a radar plot's axes: one per column, clockwise from the top.
type axes struct {
	angles   []float64
	labels   [][]string
	boxes    []vg.Rectangle // of the labels, relative to the plot's centre
	radius   vg.Length
	numbered bool // labels would overlap: numbers replace them, and the table explains those
}

const (
	labelStep = vg.Length(9) // between the lines of an axis label
	labelGap  = vg.Length(5) // between the outer ring and a label

	narrowHalf = vg.Length(90) // largest half width of a panel of three abreast
)

// newAxes chooses the largest radius up to most that leaves room for the labels in a panel.
func newAxes(columns []words.Column, width, most vg.Length) axes {
	k := len(columns)
	a := axes{labels: make([][]string, k)}
	half := width / 2
	for i, c := range columns {
		a.angles = append(a.angles, math.Pi/2-2*math.Pi*float64(i)/float64(k))
		for _, l := range c.Lines() {
			if half < narrowHalf { // the letter would take room from the plot, and the suite's columns give it
				l = strings.TrimPrefix(l, "ε = ")
			}
			a.labels[i] = append(a.labels[i], chart.Fit(l, chart.Normal, half*0.55))
		}
	}
	if a.fit(half, most); a.collide() {
		a.numbered = true
		for i := range a.labels {
			a.labels[i] = []string{fmt.Sprint(i + 1)}
		}
		a.fit(half, most)
	}
	return a
}

// fit chooses the largest radius up to most with which the labels stay within half the panel's width on each side.
func (a *axes) fit(half, most vg.Length) {
	outside := func(b vg.Rectangle) bool { return b.Min.X < -half || b.Max.X > half }
	for a.radius = most; ; a.radius-- {
		a.boxes = nil
		for i, label := range a.labels {
			size := chart.Pt(slices.Max(lists.Map(label, chart.Normal.Width)), labelStep*vg.Length(len(label)))
			u, at := chart.Polar(1, a.angles[i]), chart.Polar(a.radius+labelGap, a.angles[i])
			lower := chart.Pt(at.X-size.X*(1-u.X)/2, at.Y-size.Y*(1-u.Y)/2)
			a.boxes = append(a.boxes, vg.Rectangle{Min: lower, Max: lower.Add(size)})
		}
		if a.radius <= 20 || !slices.ContainsFunc(a.boxes, outside) {
			return
		}
	}
}

func (a axes) collide() bool {
	for i, p := range a.boxes {
		for _, q := range a.boxes[:i] {
			if p.Min.X < q.Max.X+2 && q.Min.X < p.Max.X+2 && p.Min.Y < q.Max.Y && q.Min.Y < p.Max.Y {
				return true
			}
		}
	}
	return false
}

// extent returns how far labels and rings reach above and below the centre.
func (a axes) extent() (above, below vg.Length) {
	above, below = a.radius, a.radius
	for _, b := range a.boxes {
		above, below = max(above, b.Max.Y), max(below, -b.Min.Y)
	}
	return above, below
}

// drawRadar draws rings at every 20 %, an axis for each column and a polygon for each defense. A missing cell opens its
// polygon.
func (a accuracyPanel) drawRadar(p chart.Pen, area vg.Rectangle) {
	above, _ := a.axes.extent()
	centre := chart.Pt((area.Min.X+area.Max.X)/2, area.Max.Y-above)
	p.SetLineDash(nil, 0)
	p.SetColor(p.Grid)
	for ring := 1; ring <= 5; ring++ {
		p.SetLineWidth(0.5)
		if ring == 5 {
			p.SetLineWidth(0.9)
		}
		radius := a.axes.radius * vg.Length(ring) / 5
		var path vg.Path
		path.Move(centre.Add(vg.Point{X: radius}))
		path.Arc(centre, radius, 0, 2*math.Pi)
		path.Close()
		p.Stroke(path)
	}
	for _, angle := range a.axes.angles {
		p.Segment(p.Grid, 0.5, centre, centre.Add(chart.Polar(a.axes.radius, angle)))
	}
	corner := func(one view.Series, i int) vg.Point {
		return centre.Add(chart.Polar(a.axes.radius*vg.Length(view.Score(one.Cells[i])), a.axes.angles[i]))
	}
	corners := func(one view.Series) (all []vg.Point) {
		for i, c := range one.Cells {
			if c != nil {
				all = append(all, corner(one, i))
			}
		}
		return all
	}
	for _, one := range a.lines {
		if all := corners(one); len(all) == len(one.Cells) && !a.bare {
			p.FillPolygon(chart.Tint(p.Colour(one.Index)), all)
		}
	}
	var drawn []edge
	stroke := func(style draw.LineStyle, along []edge) {
		var path vg.Path
		for i, e := range along {
			if i == 0 || along[i-1][1] != e[0] {
				path.Move(e[0])
			}
			path.Line(e[1])
		}
		p.SetLineStyle(style)
		p.Stroke(path)
		drawn = append(drawn, along...)
	}
	for _, one := range a.lines {
		stroke(p.Line(chart.LookOf(one.Index)), edges(len(one.Cells), func(i int) (vg.Point, bool) {
			if one.Cells[i] == nil {
				return vg.Point{}, false
			}
			return corner(one, i), true
		}))
	}
	for _, one := range a.lines {
		theirs := edges(len(one.Published), func(i int) (vg.Point, bool) {
			if one.Published[i] == nil || a.bare {
				return vg.Point{}, false
			}
			return centre.Add(chart.Polar(a.axes.radius*vg.Length(*one.Published[i]), a.axes.angles[i])), true
		})
		stroke(p.Line(chart.Look{Colour: one.Index, Thin: true}), theirs)
	}
	for _, one := range a.lines {
		var marked []vg.Point // corners that coincide, such as all at 0 %, get one marker
		for _, at := range corners(one) {
			if !slices.ContainsFunc(marked, func(q vg.Point) bool { return near(q, at, 5) }) {
				p.Mark(chart.LookOf(one.Index), at)
				marked = append(marked, at)
			}
		}
	}
	a.ringLabels(p, centre, drawn)
	for i, label := range a.axes.labels {
		b := a.axes.boxes[i]
		x := (chart.Polar(1, a.axes.angles[i]).X - 1) / 2
		for j, l := range label {
			at := centre.Add(chart.Pt(b.Min.X-x*(b.Max.X-b.Min.X), b.Max.Y-labelStep*vg.Length(j)))
			p.Write(l, at, chart.Normal, []color.Color{p.Ink, p.Muted}[min(j, 1)], float64(x), -1)
		}
	}
}

type edge [2]vg.Point

// ringLabels writes the rings' values in the emptiest sector, or in the next one without a line nearby, or not at all.
func (a accuracyPanel) ringLabels(p chart.Pen, centre vg.Point, drawn []edge) {
	const clear = 7 // distance from edges, in points
	first := emptiest(a.s)
	sector := 2 * math.Pi / float64(len(a.axes.angles))
	var taken []vg.Point
	for _, ring := range []int{5, 3, 1, 4, 2} { // small plots have room for only some
		s := fmt.Sprint(20 * ring)
		if ring == 5 && a.axes.radius > 65 {
			s += "%"
		}
		half := chart.Pt(chart.Tiny.Width(s)/2+0.5, 3.2)
		for c := range 7 * len(a.axes.angles) {
			share := []float64{0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78}[c%7] + float64(c/7)
			at := centre.Add(chart.Polar(a.axes.radius*vg.Length(ring)/5-4.5, a.axes.angles[first]-share*sector))
			meets := func(t vg.Point) bool { return max(t.X-at.X, at.X-t.X) < 14 && max(t.Y-at.Y, at.Y-t.Y) < 8 }
			if slices.ContainsFunc(taken, meets) ||
				slices.ContainsFunc(drawn, func(e edge) bool { return e.distance(at) < clear }) {
				continue
			}
			taken = append(taken, at)
			p.Block(p.Paper, vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)})
			p.Write(s, at, chart.Tiny, p.Muted, -0.5, -0.5)
			break
		}
	}
}

func (e edge) distance(at vg.Point) float64 {
	d, v := e[1].Sub(e[0]), at.Sub(e[0])
	share := min(max(d.Dot(v)/max(d.Dot(d), 1e-9), 0), 1)
	off := v.Sub(d.Scale(share))
	return math.Hypot(float64(off.X), float64(off.Y))
}

// emptiest returns the index of the axis before the sector with the lowest accuracies, where values hide least.
func emptiest(s *view.Suite) int {
	k := len(s.Columns)
	sum := make([]float64, k)
	for _, one := range s.Lines() {
		for i, c := range one.Cells {
			if c != nil {
				sum[i] += view.Score(c)
				sum[(i+k-1)%k] += view.Score(c)
			}
		}
	}
	return floats.MinIdx(sum)
}

// edges joins the neighbours of n corners, as far as they are there. It leaves out an edge that runs back over another:
// two dashed lines would make a solid one.
func edges(n int, corner func(i int) (at vg.Point, there bool)) (out []edge) {
	for i := range n {
		from, here := corner(i)
		to, there := corner((i + 1) % n)
		if here && there &&
			!slices.ContainsFunc(out, func(e edge) bool { return near(e[0], to, 2) && near(e[1], from, 2) }) {
			out = append(out, edge{from, to})
		}
	}
	return out
}

func near(a, b vg.Point, apart float64) bool {
	return math.Hypot(float64(a.X-b.X), float64(a.Y-b.Y)) < apart
}
