package chart

import (
	"math"

	"gonum.org/v1/plot/vg"
)

// labels writes a panel's labels over what is drawn of it.
func (p Plot) labels(pn Pen, x, y func(float64) vg.Length) {
	var drawn []vg.Rectangle // what the labels should not hide
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

// linePieces is how many places stand for a line between two points.
const linePieces = 12

// around are the places of a label beside its point: steps right and up, of which the nearer come first.
var around = func() (out [][2]float64) {
	for _, r := range []float64{1, 1.5, 2, 3, 4} {
		for _, turn := range []float64{0.25, 0, 0.5, 0.75, 0.125, 0.375, 0.625, 0.875} {
			sin, cos := math.Sincos(2 * math.Pi * turn)
			out = append(out, [2]float64{r * cos, r * sin})
		}
	}
	return out
}()

// beside places labels of some sizes near their points, one after another, each where it hides least of what is drawn
// and of the labels before it. It returns their middles.
func beside(points, sizes []vg.Point, drawn []vg.Rectangle, within vg.Rectangle) (middles []vg.Point) {
	const further, label, outside = 0.02, 5, 100 // how bad a place further away is, over a label, or outside
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

// centred is a rectangle around a point.
func centred(at vg.Point, w, h vg.Length) vg.Rectangle {
	half := Pt(w/2, h/2)
	return vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)}
}

// overlap is the area that two rectangles have in common.
func overlap(a, b vg.Rectangle) float64 {
	w := min(a.Max.X, b.Max.X) - max(a.Min.X, b.Min.X)
	h := min(a.Max.Y, b.Max.Y) - max(a.Min.Y, b.Min.Y)
	return float64(max(w, 0) * max(h, 0))
}
