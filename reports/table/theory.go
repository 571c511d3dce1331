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
	s := fmt.Sprintf("%.6g", x)
	return strings.ReplaceAll(s, "-", "−")
}

// Checks are the theory's checks, a table an experiment.
func Checks(checks []theory.Check) (out []Table) {
	for _, name := range view.Distinct(checks, func(c theory.Check) string { return c.Part }) {
		part := Table{Lead: 1, Caption: words.Heading(name),
			Head: []string{"Check", claimHead, "Measured", "Expected", "Tolerance", outcomeHead}}
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
			expected := c.Relation + words.Nbsp + sixDigits(c.Expected)
			part.add(words.Clean(c.Name), words.Clean(c.Claim), sixDigits(c.Measured), expected, tolerance, outcome)
		}
		out = append(out, part)
	}
	return out
}

const claimHead, outcomeHead = "Claim", "Outcome"
