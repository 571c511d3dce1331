package reports

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
)

// accuracyPanel is a model's accuracies under every attack: a radar plot, or bars when there
// are fewer than three axes, over a table of its values.
type accuracyPanel struct {
	s      *suite
	model  string
	lines  []series
	axes   axes // of a radar plot
	values bool // the table
	bare   bool // of many models, whose polygons have no fill
}

// pageHeight is the height of a printed page, A4 with margins of half an inch.
const pageHeight = 10.7 * vg.Inch

// accuracyFigure has a panel for each model. In a file the values stand below the plots, where the page has room for
// them.
type accuracyFigure struct{}

func init() { figures[result.RadarFigure] = accuracyFigure{} }

func (accuracyFigure) File(s *suite) sheet {
	f := accuracyCharts(true).File(s)
	plots := f
	plots.Head = nil
	if _, height := plots.size(); height > pageHeight {
		return accuracyCharts(false).File(s)
	}
	return f
}

func (accuracyFigure) Page(s *suite) []sheet { return accuracyCharts(false).Page(s) }

// accuracyCharts are the figure with values below the plots or without.
func accuracyCharts(values bool) charts[string] {
	return charts[string]{
		title: always("accuracy in %"), caption: "Accuracy in %", seeds: drawn, note: always(""), attacked: true,
		alt: func(s *suite) string {
			if radar(s) {
				return "Radar plot of accuracy in %"
			}
			return "Bars of accuracy in %"
		},
		parts:  func(s *suite) []string { return s.Models },
		layout: func(s *suite, models int) sheet { return inFile(models, values && len(s.Defenses()) > 3) },
		fill:   func(s *suite, f *sheet, models []string) { fillAccuracies(s, f, models, values) },
	}
}

// pageAccuracies is one model's panel for a page.
func pageAccuracies(s *suite, model string) sheet {
	return accuracyCharts(false).on(s, inPage(), []string{model})
}

func fillAccuracies(s *suite, f *sheet, models []string, values bool) {
	like := look{Line: true, Marks: true}
	if !radar(s) {
		like = look{Bars: true}
	}
	f.Legend = legend(s, like)
	for _, m := range models {
		p := accuracyPanel{s: s, model: m, lines: s.Series(m)}
		if radar(s) {
			most := vg.Length(76)
			if f.Columns == 1 {
				most = 84
			}
			p.axes = newAxes(s.Columns, f.panelWidth(), most)
		}
		_, _, column := p.valueColumns(f.panelWidth())
		p.values = values && fits(column) || p.axes.numbered // the table is the numbers' key
		f.Panels = append(f.Panels, p)
		for _, one := range p.lines {
			f.Alt += spoken(s, m, one)
		}
	}
}

// spoken says a series' values.
func spoken(s *suite, model string, one series) string {
	var said []string
	for i, c := range one.Cells {
		said = append(said, s.Columns[i].Title()+" "+value(c))
	}
	return fmt.Sprintf(" %s, %s: %s.", clean(model), defenseName(one.Defense), strings.Join(said, ", "))
}

// radar reports whether the suite has axes enough for one.
func radar(s *suite) bool { return len(s.Columns) >= 3 }

// drawn says in a caption what the figure of accuracies draws of several seeds: the mean, with bars'
// deviation as whiskers. "" where there is one seed.
func drawn(s *suite) string {
	if n := s.seeds(); n > 1 && radar(s) {
		return fmt.Sprintf(", mean over %d seeds", n)
	}
	return s.overSeeds()
}

func (a accuracyPanel) titled() bool { return true }

const barsHeight = vg.Length(170)

func (a accuracyPanel) chartHeight() vg.Length {
	if !radar(a.s) {
		return barsHeight
	}
	above, below := a.axes.extent()
	return above + below + 4
}

func (a accuracyPanel) height(vg.Length) vg.Length {
	h := panelTitle + a.chartHeight()
	if a.values {
		h += lineStep*vg.Length(len(a.s.Columns)+1) + 6
	}
	return h
}

func (a accuracyPanel) draw(p pen, left, top, width, _, _ vg.Length) {
	st := style(9, true)
	p.write(fit(clean(a.model), st, width), vg.Point{X: left + width/2, Y: top}, st, p.ink, -0.5, -1)
	chart := vg.Rectangle{Min: vg.Point{X: left, Y: top - panelTitle - a.chartHeight()}, Max: vg.Point{X: left + width,
		Y: top - panelTitle}}
	if radar(a.s) {
		a.drawRadar(p, chart)
	} else {
		a.bars(width).chart(p, chart)
	}
	if a.values {
		a.drawValues(p, left, chart.Min.Y-6, width)
	}
}

// bars are grouped: a group a column, a bar a defense with its whiskers.
func (a accuracyPanel) bars(width vg.Length) plotPanel {
	out := barPanel(len(a.s.Columns))
	group := (width - 26) / vg.Length(len(a.s.Columns)) // without the labels on the left
	var labels []string
	for i, col := range a.s.Columns {
		labels = append(labels, strings.Join(fitted(col.Lines(), group-4), "\n"))
		for j, one := range a.lines {
			c := one.Cells[i]
			b := groupedBar(one.Index, i, j, len(a.lines), 34/float64(group), value(c))
			if c != nil {
				b.Top = score(c)
				if low, high, ok := a.s.whiskers(c); ok {
					b.Whisker = &[2]float64{low, high}
				}
			}
			out.Bars = append(out.Bars, b)
		}
	}
	out.XTicks = named(labels)
	return out
}

// fitted shortens each of some lines.
func fitted(lines []string, w vg.Length) (out []string) {
	for _, l := range lines {
		out = append(out, fit(l, style(small, false), w))
	}
	return out
}

// barPanel is a panel for n groups of bars, on a scale from 0 to 100 %.
func barPanel(n int) plotPanel {
	return plotPanel{Box: [4]float64{-0.5, 0, float64(n) - 0.5, 1.08}, YTicks: perCent()}
}

// groupedBar is bar j of n in group i, at most so wide; defense is the index of its look.
func groupedBar(defense, i, j, n int, most float64, text string) plotBar {
	room := min(0.84/float64(n), most)
	b := plotBar{look: lookOf(defense), Text: text, Width: 0.88 * room, Room: 1.05 * room}
	b.X = float64(i) + room*(float64(j)-float64(n)/2+0.06)
	return b
}

// valueColumns lays out the table under a panel: the width of its titles, shortened, and of
// each defense's column, at most 84 points.
func (a accuracyPanel) valueColumns(width vg.Length) (titles []string, label, column vg.Length) {
	st := style(small, false)
	for i, c := range a.s.Columns {
		t := c.Title()
		if a.axes.numbered {
			t = fmt.Sprintf("%d  %s", i+1, t)
		}
		titles = append(titles, fit(t, st, width*0.45))
		label = max(label, st.Width(titles[i]))
	}
	label += 8
	return titles, label, min(84, (width-label)/vg.Length(len(a.lines)))
}

// fits reports whether a column of that table has room for a value.
func fits(column vg.Length) bool { return column >= style(small, false).Width("100.00")+3 }

// drawValues writes the table under a panel: a line a column of the suite, a
// column a defense, headed by the defense's marker. Where there are too many defenses, or the
// panel is of many models, it is the key of the axes' numbers only.
func (a accuracyPanel) drawValues(p pen, left, top, width vg.Length) {
	st, bold, lines := style(small, false), style(small, true), a.lines
	titles, label, col := a.valueColumns(width)
	if !fits(col) || a.bare {
		lines, col = nil, 0
	}
	left += (width - label - col*vg.Length(len(lines))) / 2
	right := left + label + col*vg.Length(len(lines))
	const sampleWidth = vg.Length(7)
	for j, one := range lines {
		name, end := defenseName(one.Defense), left+label+col*vg.Length(j+1)-2
		if room := col - sampleWidth - 7; room >= bold.Width("baseline") {
			name = fit(name, bold, room)
			p.write(name, vg.Point{X: end, Y: top - lineStep/2}, bold, p.ink, -1, -0.5)
			end -= bold.Width(name) + 3
		} // else the marker says it, as the legend does
		l := lookOf(one.Index)
		l.Bars = !radar(a.s)
		p.sample(l, end-sampleWidth, top-lineStep/2, sampleWidth)
	}
	for i := range titles {
		y := top - lineStep*vg.Length(i+1)
		p.segment(p.grid, 0.4, vg.Point{X: left, Y: y}, vg.Point{X: right, Y: y})
		p.write(titles[i], vg.Point{X: left, Y: y - lineStep/2}, st, p.ink, 0, -0.5)
		for j, one := range lines {
			p.write(value(one.Cells[i]), vg.Point{X: left + label + col*vg.Length(j+1) - 2, Y: y - lineStep/2}, st,
				p.ink, -1, -0.5)
		}
	}
}
