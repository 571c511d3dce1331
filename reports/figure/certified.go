package figure

import (
	"strings"

	"selfheal/harness/result"
	"selfheal/reports/figure/chart"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

func init() {
	figures[result.CertifiedFigure] = charts[string]{
		title: "certified accuracy in %", caption: "Certified accuracy in % against the ℓ2 radius, with 95 % Wilson " +
			"intervals", alt: "Certified accuracy in % against the radius", seeds: (*view.Suite).OfFirstSeed,
		names: func(s *view.Suite) string {
			var names []string
			for _, by := range s.Smoothed() {
				names = append(names, words.Clean(by.Of.Title))
			}
			return " · " + strings.Join(names, "; ")
		},
		parts:  func(s *view.Suite) []string { return s.Models },
		layout: func(s *view.Suite, models int) chart.Sheet { return chart.InFile(models*len(s.Smoothed()), true) },
		fill:   fillCertified,
	}
}

// fillCertified adds a panel for each certificate and model: the share of images that are proven against the radius.
func fillCertified(s *view.Suite, f *chart.Sheet, models []string) {
	var all []view.Curves
	smoothed := s.Smoothed()
	for _, by := range smoothed {
		for _, m := range models {
			c := by.Curves(s, m)
			if len(c.Lines) == 0 {
				continue
			}
			p := chart.Plot{X: "ℓ2 radius"}
			if len(smoothed) > 1 {
				p.X += ", " + words.Clean(by.Attack)
			}
			addCurves(s, f, p, c, words.Clean(by.Attack), false)
			all = append(all, c)
		}
	}
	f.Legend = curveLegend(s, all)
}
