package view

import (
	"fmt"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Scored is a cell's accuracy in per cent: of several seeds their mean ± standard deviation.
func Scored(c *result.Cell) string {
	if c == nil {
		return words.Dash
	}
	s, ok := c.Spread()
	if !ok {
		return words.Accuracy(c)
	}
	return words.Percent(s.Mean, c.N) + words.Nbsp + "±" + words.Nbsp + words.Percent(s.Deviation, c.N)
}

// Score is the accuracy that a cell is compared by: of several seeds their mean.
func Score(c *result.Cell) float64 {
	if s, ok := c.Spread(); ok {
		return s.Mean
	}
	return c.Accuracy
}

// Seeds is how many seeds the suite's cells have at most: 1 where they have one.
func (s *Suite) Seeds() int {
	n := 1
	for _, c := range s.cells {
		n = max(n, len(c.Seeds))
	}
	return n
}

// OverSeeds says in a caption that its accuracies are means; "" where there is one seed.
func (s *Suite) OverSeeds() string {
	if n := s.Seeds(); n > 1 {
		return fmt.Sprintf(", mean ± standard deviation over %d seeds", n)
	}
	return ""
}

// Whiskers are the ends of a bar's: its 95 % interval, and where the suite has several seeds
// the mean ± the deviation over them. What does not depend on the seed then has none.
func (s *Suite) Whiskers(c *result.Cell) (low, high float64, ok bool) {
	if s.Seeds() > 1 {
		v, several := c.Spread()
		return max(v.Mean-v.Deviation, 0), min(v.Mean+v.Deviation, 1), several
	}
	return c.CI95[0], c.CI95[1], words.Interval(c) != ""
}

// OfFirstSeed says in a caption that its numbers are the first seed's; "" where there is one.
func (s *Suite) OfFirstSeed() string {
	if s.Seeds() > 1 {
		return ", of the first seed"
	}
	return ""
}
