package figure

import (
	"fmt"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// transferPanel is a grid of accuracies under one attack: a row for each network, a column for each source of images.
type transferPanel struct {
	s       *view.Suite
	defense string
	attack  words.Column // without its source
}

func init() {
	figures[result.TransferFigure] = charts[transferPanel]{
		title: "accuracy in %", alt: "Accuracy in % by network and source",
		caption:  "Accuracy in %: rows are networks, columns the networks that the images were made on",
		attacked: true, wide: true, seeds: func(s *view.Suite) string { return s.OverSeeds() },
		parts: transferPanels,
		fill: func(s *view.Suite, f *chart.Sheet, all []transferPanel) {
			for _, p := range all {
				f.Panels = append(f.Panels, p)
				for _, m := range s.Models {
					said := lists.Map(p.row(m), value)
					for i := range said {
						said[i] = words.Clean(s.Models[i]) + " " + said[i]
					}
					say(f, said, append(s.Who(m, p.defense), p.attack.Title())...)
				}
			}
		},
	}.row()
}

// mostSources is the largest number of networks in a chart; beyond it only the tables show them.
const mostSources = 16

func transferPanels(s *view.Suite) (all []transferPanel) {
	if s.Mode != result.Transfer || len(s.Models) > mostSources {
		return nil
	}
	for _, col := range s.Columns {
		if col.Source == s.Models[0] {
			col.Source = ""
			for _, d := range s.Defenses() {
				all = append(all, transferPanel{s, d, col})
			}
		}
	}
	return all
}

// row returns a network's cells, by source.
func (t transferPanel) row(model string) []*result.Cell {
	return lists.Map(t.s.Models, func(source string) *result.Cell {
		col := t.attack
		col.Source = source
		return t.s.Cell(model, t.defense, col)
	})
}

const transferStep = vg.Length(16) // height of a row

func (t transferPanel) Height(vg.Length) vg.Length {
	return chart.PanelTitle + chart.LineStep + transferStep*vg.Length(len(t.s.Models)) + 6
}

// Draw shades each square by its accuracy. The network's own images, which the attack made knowing it, are in bold.
func (t transferPanel) Draw(p chart.Pen, left, top, width, _, titled vg.Length) {
	title := t.attack.Title()
	if len(t.s.Controls) > 0 {
		title += ", " + words.DefenseName(t.defense)
	}
	p.Write(chart.Fit(title, chart.Strong, titled), chart.Pt(left, top), chart.Strong, p.Ink, 0, -1)
	n := vg.Length(len(t.s.Models))
	names := lists.Map(t.s.Models, words.Clean)
	room := vg.Length(0)
	for i := range names {
		names[i] = chart.Fit(fmt.Sprintf("%d  %s", i+1, names[i]), chart.Small, width*0.45)
		room = max(room, chart.Small.Width(names[i])+6)
	}
	step := min((width-room)/n, 44)
	top -= chart.PanelTitle
	for i, m := range t.s.Models {
		p.Write(fmt.Sprint(i+1), chart.Pt(left+room+step*(vg.Length(i)+0.5), top), chart.Small, p.Muted, -0.5, -1)
		y := top - chart.LineStep - transferStep*vg.Length(i)
		p.Write(names[i], chart.Pt(left, y-transferStep/2), chart.Small, p.Ink, 0, -0.5)
		for j, c := range t.row(m) {
			x, style := left+room+step*vg.Length(j), chart.Small
			if c != nil {
				square := chart.Rect(x+0.5, y-transferStep+0.5, x+step-0.5, y-0.5)
				p.Block(chart.Mix(p.Paper, p.Colour(0), 0.6*view.Score(c)), square)
			}
			if i == j {
				style = chart.SmallBold
			}
			at := chart.Pt(x+step/2, y-transferStep/2)
			p.Write(chart.Fit(value(c), style, step), at, style, p.Ink, -0.5, -0.5)
		}
	}
}
