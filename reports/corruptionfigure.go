package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/harness/result"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

const corruptionStep = vg.Length(14) // between two lines of the figure

func init() {
	figures[result.CorruptionsFigure] = charts[string]{
		title: always("accuracy in %"), caption: corruptionCaption, alt: always(corruptionCaption),
		seeds: (*suite).ofFirstSeed, note: always(""),
		parts: func(s *suite) []string {
			if len(s.corrupted) == 0 {
				return nil
			}
			return s.Models
		},
		layout: func(s *suite, models int) sheet { return inFile(models*len(s.corrupted), true) },
		fill:   fillCorruptions,
	}
}

const corruptionCaption = "Accuracy in % by corruption, mean over its severities"

// fillCorruptions adds a panel for each model: a line a corruption, with a marker a defense where its accuracy is, a
// mean over the severities. The lowest line is the mean over the corruptions.
func fillCorruptions(s *suite, f *sheet, models []string) {
	least := 1.0 // of all panels, which share a scale
	for _, by := range s.corrupted {
		lines := append(each(by.names), by.names)
		for _, m := range models {
			p := plotPanel{Title: clean(m), X: "accuracy", Box: [4]float64{0, -0.5, 1, float64(len(lines)) - 0.5},
				XTicks: perCent(), High: corruptionStep * vg.Length(len(lines)+3)}
			if len(s.corrupted) > 1 {
				p.Y = clean(by.attack)
			}
			labels := make([]string, len(lines)) // from below
			for i, d := range s.Defenses() {
				below := 0.75 * (float64(i+1)/float64(len(s.Defenses())+1) - 0.5) // so that equal ones are all seen
				marks := plotSeries{look: lookOf(i)}
				marks.Line = false
				var said []string
				for k, names := range lines {
					title := "Mean"
					if k < len(by.names) {
						title = corruptionTitle(names[0])
					}
					place := len(lines) - 1 - k
					labels[place] = title
					if c := meanOf(by.over(m, d, names, by.severities)); c != nil {
						marks.add(c.Accuracy, float64(place)-below)
						least = min(least, c.Accuracy)
						said = append(said, title+" "+accuracy(c))
					}
				}
				p.Series = append(p.Series, marks)
				f.Alt += fmt.Sprintf(" %s, %s: %s.", clean(m), defenseName(d), strings.Join(said, ", "))
			}
			slices.Reverse(p.Series) // the baseline's marks lie on top
			p.YTicks = named(labels)
			f.Panels = append(f.Panels, p)
		}
	}
	from := math.Floor(5*least) / 5
	for i := range f.Panels {
		p := f.Panels[i].(plotPanel)
		p.Box[0] = from
		p.XTicks = slices.DeleteFunc(p.XTicks, func(t plot.Tick) bool { return t.Value < from })
		f.Panels[i] = p
	}
	f.Legend = legend(s, look{Marks: true})
}
