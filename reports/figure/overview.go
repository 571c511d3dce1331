package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

const (
	mostOverlaid = 6  // models that one radar plot shows
	mostRanked   = 24 // that the ranked bars show
	mostSides    = 4  // the network alone, and three controls
)

// Overview are the figures of the first screen, which compare all models: up to six of one suite over each other in
// radar plots, a plot a defense; more, or those of several suites, as bars in the order of their robustness.
func Overview(v *view.Report) []chart.Sheet {
	shown := view.Only(v.Suites, func(s *view.Suite) bool { return len(s.Models) > 0 })
	models := len(slices.Concat(view.Map(shown, func(s *view.Suite) []string { return s.Models })...))
	switch {
	case v.Quoted || models == 0:
		return nil
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
			say(&f, spoken(s, one), m, words.DefenseName(one.Defense))
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

// rankedSide is a model under one defense: at its worst, and on clean images.
type rankedSide struct {
	lowest, clean *result.Cell // nil where not measured
}

func (r rankedSide) score() float64 {
	if c := cmp.Or(r.lowest, r.clean); c != nil {
		return view.Score(c)
	}
	return -1
}

func (r ranked) best() float64 { return slices.Max(view.Distinct(r.sides, rankedSide.score)) }

// ranking is a figure of bars, the most robust model first: the lowest accuracy under attack before a paler clean one.
func ranking(shown []*view.Suite, models int) chart.Sheet {
	var all []ranked
	sides := 1
	for _, s := range shown {
		for _, m := range s.Models {
			one := ranked{name: words.Clean(m)}
			if len(shown) > 1 {
				one.name += " · " + words.Clean(s.Name)
			}
			for _, line := range s.Series(m)[:len(foremost(s))] {
				low, _ := s.Lowest(line.Cells)
				one.sides = append(one.sides, rankedSide{low, line.Cells[0]})
			}
			sides = max(sides, len(one.sides))
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.best(), a.best()) })
	all = all[:min(len(all), mostRanked)]
	f := chart.InPage()
	f.Caption = "Lowest accuracy under attack in %, paler on clean images, in the order of the best side"
	if models > len(all) {
		f.Caption += fmt.Sprintf(", the first %d of %d", len(all), models)
	}
	if n := slices.Max(view.Distinct(shown, func(s *view.Suite) int { return s.Seeds })); n > 1 {
		f.Caption += fmt.Sprintf(", mean over %d seeds", n)
	}
	attackers := view.Distinct(shown, func(s *view.Suite) string { return s.Attacker().Name })
	f.Caption += "; attacker: " + strings.Join(attackers, ", ")
	f.Alt = "Bars of all models, the most robust first. " + f.Caption + "."
	controls := view.Distinct(shown, func(s *view.Suite) string { return strings.Join(foremost(s)[1:], "\n") })
	for i := range sides {
		label := "undefended"
		switch {
		case i > 0 && len(controls) == 1:
			label = "controlled: " + words.Clean(shown[0].Defenses()[i])
		case i > 0:
			label = fmt.Sprintf("control %d of the suite", i)
		}
		entry := chart.LookOf(i).Labelled(label, chart.OneColumn-chart.Swatch)
		entry.Bars = true
		f.Legend = append(f.Legend, entry)
		for _, one := range all {
			if i < len(one.sides) {
				f.Alt += fmt.Sprintf(" %s, %s: %s, clean %s.", one.name, label, value(one.sides[i].lowest),
					value(one.sides[i].clean))
			}
		}
	}
	f.Panels = []chart.Panel{rankPanel(all)}
	return f
}

// rankPanel draws models below each other: a name, and a bar a side.
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
	names := 4 + slices.Max(view.Map(r, wide))
	from, full := left+names, width-names-st.Width(" 100.00") // and room behind a bar for its value
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
		for i, side := range one.sides {
			drawRank(p, i, side, from, y, full)
			y -= rankBar
		}
		y -= rankGap
	}
}

// drawRank draws one bar with its upper left corner at (x, y), where full is 100 %.
func drawRank(p chart.Pen, i int, side rankedSide, x, y, full vg.Length) {
	bar := func(c color.Color, share float64) {
		end := chart.Pt(x+full*vg.Length(min(max(share, 0), 1)), y)
		p.Block(c, vg.Rectangle{Min: chart.Pt(x, y-rankBar+1), Max: end})
	}
	if side.clean != nil {
		bar(chart.Mix(p.Colour(i), p.Paper, 0.75), view.Score(side.clean))
	}
	if side.lowest != nil {
		bar(p.Colour(i), view.Score(side.lowest))
	}
	at := chart.Pt(x+full*vg.Length(min(max(side.score(), 0), 1))+2, y-rankBar/2)
	p.Write(value(cmp.Or(side.lowest, side.clean)), at, chart.Tiny, p.Ink, 0, -0.5)
}
