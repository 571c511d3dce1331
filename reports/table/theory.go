package table

import (
	"selfheal/control/theory"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// Checks are the theory's checks, a table an experiment. They compare closer than other tables do.
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
				tolerance = words.Digits(c.Tolerance, 6)
			}
			if c.Factor != 0 {
				tolerance = c.Looseness()
			}
			if !c.Pass {
				outcome.Spans[0] = Span{Text: "FAIL", Bold: true}
			}
			expected := c.Relation + words.Nbsp + words.Digits(c.Expected, 6)
			part.add(c.Name, c.Claim, words.Digits(c.Measured, 6), expected, tolerance, outcome)
		}
		out = append(out, part)
	}
	return out
}

const claimHead, passHead = "Claim", "Outcome"
