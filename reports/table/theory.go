package table

import (
	"fmt"
	"strings"

	"selfheal/control/theory"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// sixDigits writes x with six significant digits: checks compare closer than tables do.
func sixDigits(x float64) string {
	return strings.ReplaceAll(fmt.Sprintf("%.6g", x), "-", "−")
}

// Checks are the theory's checks, a table an experiment.
func Checks(checks []theory.Check) (out []Table) {
	for _, name := range view.Distinct(checks, func(c theory.Check) string { return c.Part }) {
		part := Table{Lead: 1, Caption: words.Heading(name),
			Head: []string{"Check", claimHead, "Measured", "Expected", "Tolerance", passHead}}
		for _, c := range checks {
			if c.Part != name {
				continue
			}
			tolerance, outcome := words.Dash, text("pass")
			if c.Tolerance != 0 {
				tolerance = sixDigits(c.Tolerance)
			}
			if c.Factor != 0 {
				tolerance = c.Looseness()
			}
			if !c.Pass {
				outcome.Spans[0] = Span{Text: "FAIL", Bold: true}
			}
			part.add(c.Name, c.Claim, sixDigits(c.Measured), c.Relation+words.Nbsp+sixDigits(c.Expected), tolerance, outcome)
		}
		out = append(out, part)
	}
	return out
}

const claimHead, passHead = "Claim", "Outcome"
