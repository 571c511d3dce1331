package reports

import (
	"strings"

	"selfheal/harness/result"
)

func init() {
	figures[result.CertifiedFigure] = charts[string]{
		title: func(s *suite) string {
			var names []string
			for _, by := range s.smoothed() {
				names = append(names, clean(by.of.Title))
			}
			return "certified accuracy in % · " + strings.Join(names, "; ")
		},
		caption: "Certified accuracy in % against the ℓ2 radius, with 95 % Wilson intervals",
		alt:     always("Certified accuracy in % against the radius"), seeds: (*suite).ofFirstSeed, note: always(""),
		parts:  func(s *suite) []string { return s.Models },
		layout: func(s *suite, models int) sheet { return inFile(models*len(s.smoothed()), true) },
		fill:   fillCertified,
	}
}

// fillCertified adds a panel for each certificate and model: the share of images that are proven against the radius.
func fillCertified(s *suite, f *sheet, models []string) {
	var all []curves
	smoothed := s.smoothed()
	for _, by := range smoothed {
		for _, m := range models {
			c := by.curves(s, m)
			if len(c.Lines) == 0 {
				continue
			}
			p := plotPanel{X: "ℓ2 radius"}
			if len(smoothed) > 1 {
				p.X += ", " + clean(by.attack)
			}
			addCurves(s, f, p, c, clean(by.attack), false)
			all = append(all, c)
		}
	}
	f.Legend = curveLegend(s, all)
}
