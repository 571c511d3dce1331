package reports

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const barsHeight = vg.Length(170)

// drawBars draws a model's lines as grouped bars: a group a column, a bar a
// defense with its whiskers, on a scale from 0 to 100 %.
func (f figure) drawBars(p pen, lines []series, chart vg.Rectangle) {
	const left, below, above = vg.Length(30), 2*labelStep + 6, vg.Length(14)
	if spare := chart.Max.X - chart.Min.X - left - 340; spare > 0 {
		chart.Min.X, chart.Max.X = chart.Min.X+spare/2, chart.Max.X-spare/2
	}
	base, full := chart.Min.Y+below, chart.Max.Y-above
	height := func(share float64) vg.Length { return base + (full-base)*vg.Length(inUnit(share)) }
	p.percentScale(chart.Min.X+left, chart.Max.X, height)
	group := (chart.Max.X - chart.Min.X - left) / vg.Length(len(f.s.Columns))
	width := min(34, group*0.8/vg.Length(len(lines)))
	for i, col := range f.s.Columns {
		middle := chart.Min.X + left + group*(vg.Length(i)+0.5)
		for j, l := range col.Lines() {
			c := p.ink
			if j > 0 {
				c = p.muted
			}
			p.write(fit(l, style(normal, false), group-4), vg.Point{X: middle, Y: base - 4 - labelStep*vg.Length(j)}, style(normal, false), c, -0.5, -1)
		}
		for j, one := range lines {
			f.drawBar(p, one, i, middle+width*(vg.Length(j)-vg.Length(len(lines))/2), width, height)
		}
	}
}

// percentScale draws the lines of a scale from 0 to 100 % between left and right,
// each with its value on the left.
func (p pen) percentScale(left, right vg.Length, height func(share float64) vg.Length) {
	p.SetLineDash(nil, 0)
	for tick := 0; tick <= 5; tick++ {
		y := height(float64(tick) / 5)
		p.SetColor(p.grid)
		p.SetLineWidth(0.5)
		p.Stroke(vg.Path{{Type: vg.MoveComp, Pos: vg.Point{X: left, Y: y}}, {Type: vg.LineComp, Pos: vg.Point{X: right, Y: y}}})
		p.write(fmt.Sprintf("%d %%", 20*tick), vg.Point{X: left - 4, Y: y}, style(small, false), p.muted, -1, -0.5)
	}
}

// drawBar draws one bar between x and x+width, its whiskers, marker and value.
func (f figure) drawBar(p pen, one series, i int, x, width vg.Length, height func(float64) vg.Length) {
	c, st := one.Cells[i], style(small, false)
	x, width = x+width*0.06, width*0.88
	middle, top := x+width/2, height(0)
	if c != nil {
		top = height(score(c))
		p.SetColor(p.line(one.Index).Color)
		p.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: height(0)}, Max: vg.Point{X: x + width, Y: top}}.Path())
		if marker := p.marker(one.Index); top-height(0) > 14 && width > 8 {
			marker.Color = p.paper
			p.DrawGlyphNoClip(marker, vg.Point{X: middle, Y: height(0) + 7})
		}
		if from, to, ok := f.s.whiskers(c); ok {
			low, high := height(from), height(to)
			p.SetLineStyle(draw.LineStyle{Color: p.ink, Width: 0.8})
			p.Stroke(vg.Path{{Type: vg.MoveComp, Pos: vg.Point{X: middle, Y: low}}, {Type: vg.LineComp, Pos: vg.Point{X: middle, Y: high}}})
			top = max(top, high)
		}
	}
	if v := value(c); st.Width(v) <= width+2 {
		p.write(v, vg.Point{X: middle, Y: top + 2}, st, p.ink, -0.5, 0)
	}
}
