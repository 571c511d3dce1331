package figure

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// accuracyPanel is a model's accuracies: a radar plot, or bars for less than three axes, over a table of the values.
type accuracyPanel struct {
	s      *view.Suite
	model  string
	lines  []view.Series
	axes   axes // of a radar plot
	values bool // the table
	bare   bool // of many models, whose polygons have no fill
}

// pageHeight is the height of a printed page, A4 with margins of half an inch.
const pageHeight = 10.7 * vg.Inch

func init() { figures[result.RadarFigure] = figure{accuracyFile, accuracyCharts(false, false).page} }

// accuracyFile has a panel for each model, with the values below the plots where the page has room for them.
func accuracyFile(s *view.Suite) chart.Sheet {
	f := accuracyCharts(true, len(s.Defenses()) > 3).file(s)
	plots := f
	plots.Head = nil
	if _, height := plots.Size(); height > pageHeight {
		return accuracyCharts(false, false).file(s)
	}
	return f
}

func accuracyCharts(values, wide bool) charts[string] {
	return charts[string]{
		title: "accuracy in %", caption: "Accuracy in %", alt: " of accuracy in %", seeds: drawn, attacked: true,
		parts: func(s *view.Suite) []string { return s.Models },
		wide:  wide,
		fill:  func(s *view.Suite, f *chart.Sheet, models []string) { fillAccuracies(s, f, models, values) },
	}
}

func fillAccuracies(s *view.Suite, f *chart.Sheet, models []string, values bool) {
	like, kind := chart.Look{Line: true, Marks: true}, "Radar plot"
	if !radar(s) {
		like, kind = chart.Look{Bars: true}, "Bars"
	}
	f.Alt = kind + f.Alt
	f.Legend = legend(s, like)
	for _, m := range models {
		p := accuracyPanel{s: s, model: m, lines: s.Series(m)}
		if radar(s) {
			most := vg.Length(76)
			if f.Columns == 1 {
				most = 84
			}
			p.axes = newAxes(s.Columns, f.PanelWidth(), most)
		}
		_, _, column := p.valueColumns(f.PanelWidth())
		p.values = values && fits(column) || p.axes.numbered // the table is the numbers' key
		f.Panels = append(f.Panels, p)
		for _, one := range p.lines {
			say(f, spoken(s, one), m, words.DefenseName(one.Defense))
		}
	}
}

func spoken(s *view.Suite, one view.Series) (said []string) {
	for i, c := range one.Cells {
		said = append(said, s.Columns[i].Title()+" "+value(c))
	}
	return said
}

func radar(s *view.Suite) bool { return len(s.Columns) >= 3 }

// drawn says in a caption that the figure draws the mean over several seeds; bars have whiskers for the deviation.
func drawn(s *view.Suite) string {
	if s.Seeds > 1 && radar(s) {
		return fmt.Sprintf(", mean over %d seeds", s.Seeds)
	}
	return s.OverSeeds()
}

func (a accuracyPanel) chartHeight() vg.Length {
	if !radar(a.s) {
		return 170
	}
	above, below := a.axes.extent()
	return above + below + 4
}

func (a accuracyPanel) Height(vg.Length) vg.Length {
	h := chart.PanelTitle + a.chartHeight()
	if a.values {
		h += chart.LineStep*vg.Length(len(a.s.Columns)+1) + 6
	}
	return h
}

func (a accuracyPanel) Draw(p chart.Pen, left, top, width, _, _ vg.Length) {
	st := chart.Strong
	p.Write(chart.Fit(words.Clean(a.model), st, width), chart.Pt(left+width/2, top), st, p.Ink, -0.5, -1)
	area := chart.Rect(left, top-chart.PanelTitle-a.chartHeight(), left+width, top-chart.PanelTitle)
	if radar(a.s) {
		a.drawRadar(p, area)
	} else {
		a.bars(width).Chart(p, area)
	}
	if a.values {
		a.drawValues(p, left, area.Min.Y-6, width)
	}
}

// bars are grouped: a group a column, a bar a defense with its whiskers.
func (a accuracyPanel) bars(width vg.Length) chart.Plot {
	p := grouped(len(a.s.Columns), len(a.lines), width, 34, func(i int, room vg.Length) (label []string) {
		for _, l := range a.s.Columns[i].Lines() {
			label = append(label, chart.Fit(l, chart.Small, room-4))
		}
		return label
	})
	for k := range p.Bars {
		one, b := a.lines[k%len(a.lines)], &p.Bars[k]
		c := one.Cells[k/len(a.lines)]
		if b.Look, b.Text = chart.LookOf(one.Index), value(c); c != nil {
			b.Top = view.Score(c)
			if low, high, ok := a.s.Whiskers(c); ok {
				b.Whisker = &[2]float64{low, high}
			}
		}
	}
	return p
}

// grouped is a panel with groups of n bars each, one after another, on a scale from 0 to 100 %. No bar is wider than
// most; label is a group's, in lines.
func grouped(groups, n int, width, most vg.Length, label func(i int, room vg.Length) []string) chart.Plot {
	p := chart.Plot{Box: [4]float64{-0.5, 0, float64(groups) - 0.5, 1.08}, YTicks: chart.PerCent()}
	group := (width - 26) / vg.Length(groups) // without the labels on the left
	bar := min(0.84/float64(n), float64(most)/float64(group))
	var labels []string
	for i := range groups {
		labels = append(labels, strings.Join(label(i, group), "\n"))
		for j := range n {
			x := float64(i) + bar*(float64(j)-float64(n)/2+0.06)
			p.Bars = append(p.Bars, chart.Bar{X: x, Width: 0.88 * bar, Room: 1.05 * bar})
		}
	}
	p.XTicks = chart.Named(labels)
	return p
}

// valueColumns lays out the table under a panel: the widths of its titles and of each defense's column.
func (a accuracyPanel) valueColumns(width vg.Length) (titles []string, label, column vg.Length) {
	st := chart.Small
	for i, c := range a.s.Columns {
		t := c.Title()
		if a.axes.numbered {
			t = fmt.Sprintf("%d  %s", i+1, t)
		}
		titles = append(titles, chart.Fit(t, st, width*0.45))
		label = max(label, st.Width(titles[i]))
	}
	label += 8
	return titles, label, min(84, (width-label)/vg.Length(len(a.lines)))
}

func fits(column vg.Length) bool { return column >= chart.Small.Width("100.00")+3 }

// drawValues writes the table under a panel: a line a column of the suite, a column a defense, headed by the defense's
// marker. With too many defenses, or in a panel of many models, it is the key of the axes' numbers only.
func (a accuracyPanel) drawValues(p chart.Pen, left, top, width vg.Length) {
	st, bold, lines := chart.Small, chart.SmallBold, a.lines
	titles, label, col := a.valueColumns(width)
	if !fits(col) || a.bare {
		lines, col = nil, 0
	}
	left += (width - label - col*vg.Length(len(lines))) / 2
	right := left + label + col*vg.Length(len(lines))
	const sampleWidth = vg.Length(7)
	for j, one := range lines {
		name, end := words.DefenseName(one.Defense), left+label+col*vg.Length(j+1)-2
		if room := col - sampleWidth - 7; room >= bold.Width("baseline") {
			name = chart.Fit(name, bold, room)
			p.Write(name, chart.Pt(end, top-chart.LineStep/2), bold, p.Ink, -1, -0.5)
			end -= bold.Width(name) + 3
		} // else the marker says it, as the legend does
		l := chart.LookOf(one.Index)
		l.Bars = !radar(a.s)
		p.Sample(l, end-sampleWidth, top-chart.LineStep/2, sampleWidth)
	}
	for i := range titles {
		y := top - chart.LineStep*vg.Length(i+1)
		p.Segment(p.Grid, 0.4, chart.Pt(left, y), chart.Pt(right, y))
		p.Write(titles[i], chart.Pt(left, y-chart.LineStep/2), st, p.Ink, 0, -0.5)
		for j, one := range lines {
			p.Write(value(one.Cells[i]), chart.Pt(left+label+col*vg.Length(j+1)-2, y-chart.LineStep/2), st,
				p.Ink, -1, -0.5)
		}
	}
}
