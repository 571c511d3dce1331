package reports

import (
	"fmt"
	"strconv"

	"selfheal/harness/result"
)

// scored is a cell's accuracy in per cent: of several seeds their mean ± standard deviation.
func scored(c *result.Cell) string {
	if c == nil {
		return dash
	}
	s, ok := c.Spread()
	if !ok {
		return accuracy(c)
	}
	return percent(s.Mean, c.N) + nbsp + "±" + nbsp + percent(s.Deviation, c.N)
}

// score is the accuracy that a cell is compared by: of several seeds their mean.
func score(c *result.Cell) float64 {
	if s, ok := c.Spread(); ok {
		return s.Mean
	}
	return c.Accuracy
}

// seeds is how many seeds the suite's cells have at most: 1 where they have one.
func (s *suite) seeds() int {
	n := 1
	for _, c := range s.cells {
		n = max(n, len(c.Seeds))
	}
	return n
}

// spreadTable says how far accuracies depend on the attacks' seeds.
func (s suiteTables) spreadTable() table {
	head := []string{"Seeds", "Mean", "Standard deviation", "Lowest", "Highest", "Right under every seed"}
	return s.byCell("Spread over the seeds: accuracy in %", head, func(c *result.Cell, add func(...any)) {
		if v, ok := c.Spread(); ok {
			add(strconv.Itoa(v.Seeds), percent(v.Mean, c.N), percent(v.Deviation, c.N), percent(v.Min, c.N),
				percent(v.Max, c.N), percent(v.Every, c.N))
		}
	})
}

// overSeeds says in a caption that its accuracies are means; "" where there is one seed.
func (s *suite) overSeeds() string {
	if n := s.seeds(); n > 1 {
		return fmt.Sprintf(", mean ± standard deviation over %d seeds", n)
	}
	return ""
}

// whiskers are the ends of a bar's: its 95 % interval, and where the suite has several seeds
// the mean ± the deviation over them. What does not depend on the seed then has none.
func (s *suite) whiskers(c *result.Cell) (low, high float64, ok bool) {
	if s.seeds() > 1 {
		v, several := c.Spread()
		return max(v.Mean-v.Deviation, 0), min(v.Mean+v.Deviation, 1), several
	}
	return c.CI95[0], c.CI95[1], interval(c) != ""
}

// ofFirstSeed says in a caption that its numbers are the first seed's; "" where there is one.
func (s *suite) ofFirstSeed() string {
	if s.seeds() > 1 {
		return ", of the first seed"
	}
	return ""
}
