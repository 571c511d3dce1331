package reports

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"
)

// legendItem is one sample and its text in a line of the legend.
type legendItem struct {
	index int
	text  string
	x     vg.Length // of the sample's left end
}

// between is the room between two entries of a legend.
const between = vg.Length(18)

// flow breaks entries of these widths into lines no wider than most: as few as possible, and
// those of about the same length.
func flow(widths []vg.Length, most vg.Length) [][]int {
	lines := func(most vg.Length) (out [][]int) {
		var x vg.Length
		for i, w := range widths {
			if out == nil || x+w > most {
				out, x = append(out, nil), 0
			}
			out[len(out)-1] = append(out[len(out)-1], i)
			x += w + between
		}
		return out
	}
	best := lines(most)
	for w := most; w > 0; w -= 6 {
		if narrower := lines(w); len(narrower) == len(best) {
			best = narrower
		} else {
			break
		}
	}
	return best
}

// legend breaks the legend's items into centred lines that are no wider than the figure.
func (f figure) legend() [][]legendItem {
	st := style(normal, false)
	most := f.width - 2*f.margin
	var items []legendItem
	var widths []vg.Length
	for i, d := range f.s.Defenses() {
		if f.legends != nil && !f.legends[d] {
			continue
		}
		name, loop := defenseName(d), ""
		if i > 0 {
			name = "controlled: " + name
		}
		if f.s.Looped(d) {
			loop = " (optimisation loop)"
		}
		name = fit(name, st, most-swatch-4-st.Width(loop)) + loop
		items = append(items, legendItem{index: i, text: name})
		widths = append(widths, swatch+4+st.Width(name))
	}
	var lines [][]legendItem
	for _, of := range flow(widths, most) {
		total := between * vg.Length(len(of)-1)
		for _, i := range of {
			total += widths[i]
		}
		x := f.margin + (most-total)/2
		var line []legendItem
		for _, i := range of {
			items[i].x = x
			line = append(line, items[i])
			x += widths[i] + between
		}
		lines = append(lines, line)
	}
	return lines
}

func (f figure) drawLegend(p pen, top vg.Length) {
	st := style(normal, false)
	for i, line := range f.legend() {
		y := top - lineStep*(vg.Length(i)+0.5)
		for _, it := range line {
			f.sample(p, it.index, it.x, y, swatch)
			p.write(it.text, vg.Point{X: it.x + swatch + 4, Y: y}, st, p.ink, 0, -0.5)
		}
	}
}

// sample draws how a series looks: its line and marker, or its bar's colour.
func (f figure) sample(p pen, index int, x, y, w vg.Length) {
	marker := p.marker(index)
	switch {
	case !f.lined():
		p.SetColor(marker.Color)
		p.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - 4}, Max: vg.Point{X: x + w, Y: y + 4}}.Path())
		marker.Color = p.paper
		marker.Radius = min(marker.Radius, w*0.35)
	case w >= swatch: // room for the line too
		p.SetLineStyle(p.line(index))
		p.Stroke(vg.Path{{Type: vg.MoveComp, Pos: vg.Point{X: x, Y: y}}, {Type: vg.LineComp, Pos: vg.Point{X: x + w, Y: y}}})
	}
	if at := (vg.Point{X: x + w/2, Y: y}); f.lined() {
		p.glyph(index, at)
	} else {
		p.DrawGlyphNoClip(marker, at)
	}
}

// valueColumns lays out the table under a panel: the width of its titles, shortened, and of
// each defense's column, at most 84 points.
func (f figure) valueColumns() (titles []string, label, column vg.Length) {
	st, width := style(small, false), f.panelWidth()
	titles = f.valueTitles()
	for i := range titles {
		titles[i] = fit(titles[i], st, width*0.45)
		label = max(label, st.Width(titles[i]))
	}
	label += 8
	return titles, label, min(84, (width-label)/vg.Length(len(f.s.Defenses())))
}

// valuesFit reports whether a column of that table has room for a value.
func (f figure) valuesFit() bool {
	_, _, column := f.valueColumns()
	return column >= style(small, false).Width("100.00")+3
}

// drawValues writes the table under a panel: a line a column of the suite, a
// column a defense, headed by the defense's marker. Where there are too many defenses it
// is the key of the axes' numbers only.
func (f figure) drawValues(p pen, lines []series, left, top vg.Length) {
	st, bold := style(small, false), style(small, true)
	titles, label, col := f.valueColumns()
	if !f.valuesFit() {
		lines, col = nil, 0
	}
	left += (f.panelWidth() - label - col*vg.Length(len(lines))) / 2
	right := left + label + col*vg.Length(len(lines))
	const sampleWidth = vg.Length(7)
	for j, one := range lines {
		name, end := defenseName(one.Defense), left+label+col*vg.Length(j+1)-2
		if room := col - sampleWidth - 7; room >= bold.Width("baseline") {
			name = fit(name, bold, room)
			p.write(name, vg.Point{X: end, Y: top - lineStep/2}, bold, p.ink, -1, -0.5)
			end -= bold.Width(name) + 3
		} // else the marker says it, as the legend does
		f.sample(p, one.Index, end-sampleWidth, top-lineStep/2, sampleWidth)
	}
	for i := range titles {
		y := top - lineStep*vg.Length(i+1)
		p.SetLineDash(nil, 0)
		p.SetLineWidth(0.4)
		p.SetColor(p.grid)
		p.Stroke(vg.Path{{Type: vg.MoveComp, Pos: vg.Point{X: left, Y: y}}, {Type: vg.LineComp, Pos: vg.Point{X: right, Y: y}}})
		p.write(titles[i], vg.Point{X: left, Y: y - lineStep/2}, st, p.ink, 0, -0.5)
		for j, one := range lines {
			p.write(value(one.Cells[i]), vg.Point{X: left + label + col*vg.Length(j+1) - 2, Y: y - lineStep/2}, st, p.ink, -1, -0.5)
		}
	}
}

func (f figure) valueTitles() []string {
	numbered := f.radar() && f.axes().numbered
	var out []string
	for i, c := range f.s.Columns {
		t := c.Title()
		if numbered {
			t = fmt.Sprintf("%d  %s", i+1, t)
		}
		out = append(out, t)
	}
	return out
}

// describe says in words what the figure shows, for readers who do not see it.
func (f figure) describe() string {
	kind := "Bars"
	if f.radar() {
		kind = "Radar plot"
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s of accuracy in %%%s, %s (%s).", kind, f.seeds(), f.s.Heading(), f.s.Facts())
	for _, m := range f.models {
		for _, one := range f.s.Series(m) {
			fmt.Fprintf(&sb, " %s, %s:", clean(m), defenseName(one.Defense))
			for i, c := range one.Cells {
				sep := ""
				if i > 0 {
					sep = ","
				}
				fmt.Fprintf(&sb, "%s %s %s", sep, f.s.Columns[i].Title(), value(c))
			}
			sb.WriteString(".")
		}
	}
	return sb.String()
}
