package view

import (
	"fmt"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Metrics returns a line for each model and control with what records say about the probabilities of its answers, on
// clean images and under its strongest attack: "calibration error 4.1 % of mine, risk 12.0 % over the most confident
// 80 %; under aa-linf 38.0 %, 45.1 %, half broken by iteration 3".
func (v *Report) Metrics() (lines []string) {
	for _, s := range v.Suites {
		for _, one := range s.Lines() {
			clean := calibrated(s, one.Cells[0])
			if clean == nil {
				continue
			}
			said := fmt.Sprintf("calibration error %.1f %% of %s", 100*clean.Error, words.Clean(one.Model))
			said += words.If(one.Defense != cell.None, " with "+words.DefenseName(one.Defense))
			said += fmt.Sprintf(", risk %.1f %% over the most confident 80 %%", 100*clean.Risk)
			if low, col := s.Lowest(one.Cells); low != nil {
				if c := calibrated(s, low); c != nil {
					said += fmt.Sprintf("; under %s %.1f %%, %.1f %%", col.Title(), 100*c.Error, 100*c.Risk)
					if half := c.Broken(0.5); half != nil {
						said += fmt.Sprintf(", half broken by iteration %v", half)
					}
				}
			}
			lines = append(lines, strings.ReplaceAll(said, words.Nbsp, " "))
		}
	}
	return lines
}

// calibrated returns how far the probabilities of a cell's answers can be trusted, nil if that is not known.
func calibrated(s *Suite, c *result.Cell) *result.Calibrated {
	if c == nil {
		return nil
	}
	return s.MarginsOf(c).Calibrated(c.N)
}
