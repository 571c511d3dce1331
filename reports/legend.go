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

// legend breaks the legend's items into lines that are no wider than the figure.
func (f figure) legend() [][]legendItem {
	const between = vg.Length(18)
	st := style(normal, false)
	most := f.width - 2*f.margin
	var lines [][]legendItem
	var x vg.Length
	for i, d := range f.s.Defenses() {
		if f.legends != nil && !f.legends[d] {
			continue
		}
		name := defenseName(d)
		if i > 0 {
			name = "controlled: " + name
		}
		if f.s.Looped(d) {
			name += " (optimisation loop)"
		}
		name = fit(name, st, most-swatch-4)
		w := swatch + 4 + st.Width(name)
		if lines == nil || x+w > most {
			lines, x = append(lines, nil), 0
		}
		last := len(lines) - 1
		lines[last] = append(lines[last], legendItem{i, name, x})
		x += w + between
	}
	for _, line := range lines { // centred
		end := line[len(line)-1]
		shift := (most - end.x - swatch - 4 - st.Width(end.text)) / 2
		for i := range line {
			line[i].x += f.margin + shift
		}
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
	p.DrawGlyphNoClip(marker, vg.Point{X: x + w/2, Y: y})
}

// drawValues writes the table under a panel: a line a column of the suite, a
// column a defense, headed by the defense's marker.
func (f figure) drawValues(p pen, lines []series, left, top vg.Length) {
	st, bold := style(small, false), style(small, true)
	width := f.panelWidth()
	titles := f.valueTitles()
	var label vg.Length
	for i := range titles {
		titles[i] = fit(titles[i], st, width*0.45)
		label = max(label, st.Width(titles[i]))
	}
	label += 8
	col := min(84, (width-label)/vg.Length(len(lines)))
	left += (width - label - col*vg.Length(len(lines))) / 2
	right := left + label + col*vg.Length(len(lines))
	const sampleWidth = vg.Length(7)
	for j, one := range lines {
		name := fit(defenseName(one.Defense), bold, col-sampleWidth-7)
		end := left + label + col*vg.Length(j+1) - 2
		p.write(name, vg.Point{X: end, Y: top - lineStep/2}, bold, p.ink, -1, -0.5)
		f.sample(p, one.Index, end-bold.Width(name)-sampleWidth-3, top-lineStep/2, sampleWidth)
	}
	for i := range titles {
		y := top - lineStep*vg.Length(i+1)
		p.SetLineDash(nil, 0)
		p.SetLineWidth(0.4)
		p.SetColor(p.grid)
		p.Stroke(vg.Path{{Type: vg.MoveComp, Pos: vg.Point{X: left, Y: y}}, {Type: vg.LineComp, Pos: vg.Point{X: right, Y: y}}})
		p.write(titles[i], vg.Point{X: left, Y: y - lineStep/2}, st, p.ink, 0, -0.5)
		for j, one := range lines {
			p.write(accuracy(one.Cells[i]), vg.Point{X: left + label + col*vg.Length(j+1) - 2, Y: y - lineStep/2}, st, p.ink, -1, -0.5)
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
	fmt.Fprintf(&sb, "%s of accuracy in %%, %s (%s).", kind, f.s.Heading(), f.s.Facts())
	for _, m := range f.models {
		for _, one := range f.s.Series(m) {
			fmt.Fprintf(&sb, " %s, %s:", clean(m), defenseName(one.Defense))
			for i, c := range one.Cells {
				sep := ""
				if i > 0 {
					sep = ","
				}
				fmt.Fprintf(&sb, "%s %s %s", sep, f.s.Columns[i].Title(), accuracy(c))
			}
			sb.WriteString(".")
		}
	}
	return sb.String()
}
