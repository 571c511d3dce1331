package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// accuracyPanel shows a model's accuracies: a radar plot, or bars for fewer than three axes, over a table of the
// values.
type accuracyPanel struct {
	s      *view.Suite
	model  string
	lines  []view.Series
	axes   axes // of a radar plot; numbered may be those of bars too
	values bool // the table
	bare   bool // polygons have no fill, as in a panel of many models
}

func init() { figures[result.RadarFigure] = figure{accuracyFile, accuracyCharts(false, false).page} }

// accuracyFile has a panel for each model, with the values below the plots if the page has room for them.
func accuracyFile(s *view.Suite) chart.Sheet {
	f := accuracyCharts(true, len(s.Defenses()) > 3).file(s)
	plots := f
	plots.Head = nil
	if _, height := plots.Size(); height > 10.7*vg.Inch { // A4 with margins of half an inch
		return accuracyCharts(false, false).file(s)
	}
	return f
}

func accuracyCharts(values, wide bool) charts[string] {
	return charts[string]{
		title: "accuracy in %", caption: "Accuracy in %", alt: " of accuracy in %", seeds: drawn, attacked: true,
		parts: models,
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
	quoted := func(m string) bool { return slices.ContainsFunc(s.Series(m), view.Series.Quoted) }
	if radar(s) && slices.ContainsFunc(models, quoted) {
		thin := chart.Look{Colour: chart.Ink, Line: true, Thin: true}
		f.Legend = append(f.Legend, thin.Labelled("published", chart.OneColumn))
	}
	for _, m := range models {
		p := accuracyPanel{s: s, model: m, lines: s.Series(m)}
		if radar(s) {
			most := vg.Length(76)
			if f.Columns == 1 {
				most = 84
			}
			p.axes = newAxes(s.Columns, f.PanelWidth(), most)
		} else {
			p.axes.numbered = slices.ContainsFunc(s.Columns, func(c words.Column) bool {
				return slices.ContainsFunc(barLabel(c), func(l string) bool {
					return chart.Small.Width(l) > groupWidth(len(s.Columns), f.PanelWidth())-2
				})
			})
		}
		_, _, column := p.valueColumns(f.PanelWidth())
		p.values = values && fits(column) || p.axes.numbered // the table explains the numbers at the axes
		f.Panels = append(f.Panels, p)
		for _, one := range p.lines {
			say(f, spoken(s, one), s.Who(m, one.Defense)...)
		}
	}
}

func spoken(s *view.Suite, one view.Series) (said []string) {
	for i, c := range one.Cells {
		text := s.Columns[i].Title() + " " + value(c)
		if p := one.Published[i]; p != nil && radar(s) {
			text += " (published " + words.Percent(*p, 0) + ")"
		}
		said = append(said, text)
	}
	return said
}

// radar reports whether the suite has a radar plot: it has three columns or more, and each is of a kind of its own. The
// strengths of one attack are points of a scale, not axes.
func radar(s *view.Suite) bool {
	kinds := lists.Distinct(s.Columns, func(c words.Column) [3]string {
		made, _, _ := strings.Cut(cmp.Or(c.Recipe, c.Attack), "/")
		return [3]string{made, c.Norm, c.Source}
	})
	return len(kinds) >= 3 && len(kinds) == len(s.Columns)
}

// drawn says in a caption that the figure shows the mean over several seeds; bars have whiskers for the deviation.
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

// bars draws a group for each column, with one bar and its whiskers for each defense.
func (a accuracyPanel) bars(width vg.Length) chart.Plot {
	each := 1 + int((chart.Small.Width("00")+3)/groupWidth(len(a.s.Columns), width)) // groups that a number needs
	p := grouped(len(a.s.Columns), len(a.lines), width, 34, func(i int, _ vg.Length) []string {
		switch {
		case !a.axes.numbered:
			return barLabel(a.s.Columns[i])
		case i%each > 0:
			return nil
		}
		return []string{fmt.Sprint(i + 1)}
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

// barLabel returns the lines below a column's bars.
func barLabel(c words.Column) []string {
	return lists.Map(c.Lines(), func(l string) string { return strings.TrimPrefix(l, "ε = ") })
}

// groupWidth returns the width of each of so many groups of bars, without the labels on the left.
func groupWidth(groups int, width vg.Length) vg.Length { return (width - 26) / vg.Length(groups) }

// grouped lays out groups of n bars each, one after another, on a scale from 0 to 100 %. most is the largest width of a
// bar; label returns the lines of a group's label.
func grouped(groups, n int, width, most vg.Length, label func(i int, room vg.Length) []string) chart.Plot {
	p := chart.Plot{Box: [4]float64{-0.5, 0, float64(groups) - 0.5, 1.08}, YTicks: chart.PerCent()}
	group := groupWidth(groups, width)
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

// drawValues writes the table under a panel: a line for each column of the suite, a column for each defense, headed by
// the defense's marker. With too many defenses, or in a panel of many models, it only explains the numbers at the axes.
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
		if len(lines) == 1 { // the only one needs no name
			break
		}
		name, end := words.DefenseName(one.Defense), left+label+col*vg.Length(j+1)-2
		if room := col - sampleWidth - 7; room >= bold.Width("undefended") {
			if a.s.Side(one.Defense).Control != one.Defense && bold.Width(name) > room {
				name = a.s.AttackerOf(one.Defense).Title // the markers tell controls apart
			}
			name = chart.Fit(name, bold, room)
			p.Write(name, chart.Pt(end, top-chart.LineStep/2), bold, p.Ink, -1, -0.5)
			end -= bold.Width(name) + 3
		} // otherwise the marker names it, as in the legend
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

const (
	mostOverlaid = 6  // models that one radar plot shows
	mostRanked   = 24 // models that the ranked bars show
	mostSides    = 4  // the network alone, and three controls
)

// Overview returns the figures of the first screen, which compare all models. Up to six models of one suite overlap in
// radar plots, one plot for each defense. Others, more models, or those of several suites, are bars in the order of
// their robustness.
func Overview(v *view.Report) []chart.Sheet {
	shown := lists.Only(v.Suites, func(s *view.Suite) bool { return len(s.Models) > 0 })
	models := len(slices.Concat(lists.Map(shown, func(s *view.Suite) []string { return s.Models })...))
	switch {
	case v.Quoted || models == 0:
		return nil
	case len(shown) == 1 && shown[0].Mode == result.Transfer: // a section shows the others
		all := figures[result.TransferFigure].page(shown[0])
		return all[:min(len(all), len(foremost(shown[0])))]
	case models == 1:
		f := accuracyCharts(false, false).page(shown[0])
		f[0].Caption = shown[0].Heading() + ": " + shown[0].Caption("accuracy in %"+drawn(shown[0]))
		return f
	case len(shown) == 1 && models <= mostOverlaid && radar(shown[0]):
		return overlays(shown[0])
	}
	return []chart.Sheet{ranking(shown, models)}
}

func Paper(v *view.Report) (out []chart.Sheet) {
	for _, s := range v.Drawn() {
		for _, f := range accuracyCharts(false, false).page(s) {
			f.Caption = s.Heading()
			out = append(out, f)
		}
	}
	return out
}

func foremost(s *view.Suite) []string { return s.Defenses()[:min(len(s.Defenses()), mostSides)] }

func overlays(s *view.Suite) (out []chart.Sheet) {
	var legend []chart.Series
	for i, m := range s.Models {
		legend = append(legend, chart.LookOf(i).Labelled(words.Clean(m), chart.OneColumn/2))
	}
	for side, defense := range foremost(s) {
		f := chart.InPage()
		f.Legend = legend
		p := accuracyPanel{s: s, model: "undefended", axes: newAxes(s.Columns, f.PanelWidth(), 84), bare: true}
		if side > 0 {
			p.model = "controlled: " + words.Clean(defense)
		}
		f.Alt = fmt.Sprintf("Radar plot of accuracy in %%%s, %s (%s), %s.", drawn(s), s.Heading(), s.Facts(), p.model)
		for i, m := range s.Models {
			one := s.Series(m)[side]
			one.Index = i
			p.lines = append(p.lines, one)
			say(&f, spoken(s, one), s.Who(m, one.Defense)...)
		}
		p.values = p.axes.numbered
		f.Panels = []chart.Panel{p}
		f.Caption = s.Caption("Accuracy in %" + drawn(s))
		out = append(out, f)
	}
	return out
}

type ranked struct {
	name  string
	sides []rankedSide
}

// rankedSide is a model under one defense: its lowest accuracy under attack, and its clean one.
type rankedSide struct {
	label         string
	index         int          // of the series, for its colour
	lowest, clean *result.Cell // nil if not measured
}

func (r rankedSide) score() float64 {
	if c := cmp.Or(r.lowest, r.clean); c != nil {
		return view.Score(c)
	}
	return -1
}

func (r ranked) best() float64 { return slices.Max(lists.Map(r.sides, rankedSide.score)) }

// beside returns the defenses of a suite whose bars may stand beside each other. Accuracies that bound an attacker
// who knows the control stand without those that do not; if some suite has the former, all leave out the latter.
func beside(s *view.Suite, bounded bool) []string {
	all := lists.Only(s.Defenses(), func(d string) bool { return d == cell.None || !bounded || bounds(s, d) })
	return all[:min(len(all), mostSides)]
}

// bounds reports whether a control was attacked by somebody who knows it.
func bounds(s *view.Suite, control string) bool {
	mode := s.AttackerOf(control).Name
	return mode != result.Oblivious && mode != result.Transfer
}

// ranking draws bars, the most robust model first: the lowest accuracy under attack before a paler clean one. If no
// attacker knew a control, the undefended networks are in order.
func ranking(shown []*view.Suite, models int) chart.Sheet {
	bounded := slices.ContainsFunc(shown, func(s *view.Suite) bool {
		return slices.ContainsFunc(s.Controls, func(c string) bool { return bounds(s, c) })
	})
	sets := lists.Distinct(shown, func(s *view.Suite) string { return strings.Join(beside(s, bounded), "\n") })
	named, controlled := len(sets) == 1, false
	var all []ranked
	for _, s := range shown {
		sides := beside(s, bounded)
		controlled = controlled || len(sides) > 1
		for _, m := range s.Models {
			one := ranked{name: words.Clean(m)}
			if len(shown) > 1 {
				one.name += " · " + words.Clean(s.Name)
			}
			for i, d := range sides {
				line, label := s.Series(m)[slices.Index(s.Defenses(), d)], words.DefenseName(d)
				switch {
				case i > 0 && named:
					label = "controlled: " + label
				case i > 0:
					label = fmt.Sprintf("control %d of the suite", line.Index)
				}
				low, _ := s.Lowest(line.Cells)
				one.sides = append(one.sides, rankedSide{label, line.Index, low, line.Cells[0]})
			}
			all = append(all, one)
		}
	}
	order := ranked.best
	f := chart.InPage()
	f.Caption = "Lowest accuracy under attack in %, paler on clean images, in the order of the best side"
	if controlled && !bounded {
		order = func(r ranked) float64 { return r.sides[0].score() }
		f.Caption = strings.Replace(f.Caption, "best side", "undefended networks", 1)
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(order(b), order(a)) })
	all = all[:min(len(all), mostRanked)]
	if models > len(all) {
		f.Caption += fmt.Sprintf(", the first %d of %d", len(all), models)
	}
	if n := slices.Max(lists.Distinct(shown, func(s *view.Suite) int { return s.Seeds })); n > 1 {
		f.Caption += fmt.Sprintf(", mean over %d seeds", n)
	}
	var attackers []string
	for _, s := range shown {
		for _, d := range beside(s, bounded)[1:] {
			attackers = lists.Once(attackers, s.AttackerOf(d).Name)
		}
	}
	if attackers != nil {
		f.Caption += "; attacker: " + strings.Join(attackers, ", ")
	}
	if controlled && !bounded {
		f.Caption += ", which bounds nobody who knows the control"
	}
	f.Alt = "Bars of all models, the most robust first. " + f.Caption + "."
	for _, one := range all {
		for _, side := range one.sides {
			same := func(e chart.Series) bool { return e.Colour == side.index }
			if controlled && !slices.ContainsFunc(f.Legend, same) {
				entry := chart.LookOf(side.index).Labelled(side.label, chart.OneColumn-chart.Swatch)
				entry.Bars = true
				f.Legend = append(f.Legend, entry)
			}
			f.Alt += fmt.Sprintf(" %s, %s: %s, clean %s.", one.name, side.label, value(side.lowest), value(side.clean))
		}
	}
	f.Panels = []chart.Panel{rankPanel(all)}
	return f
}

// rankPanel draws models below each other: a name, and one bar per side.
type rankPanel []ranked

const (
	rankBar = vg.Length(8) // the height of a bar
	rankGap = vg.Length(5) // between models
)

func (r rankPanel) Height(vg.Length) (h vg.Length) {
	for _, one := range r {
		h += rankBar*vg.Length(len(one.sides)) + rankGap
	}
	return h + chart.LineStep
}

func (r rankPanel) Draw(p chart.Pen, left, top, width, height, _ vg.Length) {
	st := chart.Small
	wide := func(one ranked) vg.Length { return st.Width(chart.Fit(one.name, st, 0.42*width)) }
	names := 4 + slices.Max(lists.Map(r, wide))
	from, full := left+names, width-names-st.Width(" 100.00") // with room behind a bar for its value
	bottom := top - height + chart.LineStep
	for tick := range 6 {
		x := from + full*vg.Length(tick)/5
		p.Segment(p.Grid, 0.4, chart.Pt(x, top), chart.Pt(x, bottom))
		p.Write(fmt.Sprintf("%d", 20*tick), chart.Pt(x, bottom-2), st, p.Muted, -0.5, -1)
	}
	y := top
	for _, one := range r {
		high := rankBar * vg.Length(len(one.sides))
		p.Write(chart.Fit(one.name, st, 0.42*width), chart.Pt(left, y-high/2), st, p.Ink, 0, -0.5)
		for _, side := range one.sides {
			drawRank(p, side, from, y, full)
			y -= rankBar
		}
		y -= rankGap
	}
}

// drawRank draws one bar with its upper left corner at (x, y), where full is 100 %.
func drawRank(p chart.Pen, side rankedSide, x, y, full vg.Length) {
	bar := func(c color.Color, share float64) {
		end := chart.Pt(x+full*vg.Length(min(max(share, 0), 1)), y)
		p.Block(c, vg.Rectangle{Min: chart.Pt(x, y-rankBar+1), Max: end})
	}
	if side.clean != nil {
		bar(chart.Mix(p.Colour(side.index), p.Paper, 0.75), view.Score(side.clean))
	}
	if side.lowest != nil {
		bar(p.Colour(side.index), view.Score(side.lowest))
	}
	at := chart.Pt(x+full*vg.Length(min(max(side.score(), 0), 1))+2, y-rankBar/2)
	p.Write(value(cmp.Or(side.lowest, side.clean)), at, chart.Tiny, p.Ink, 0, -0.5)
}
