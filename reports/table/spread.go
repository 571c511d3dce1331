package table

import (
	"math"
	"strconv"

	"selfheal/harness/result"
	"selfheal/internal/number"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// DistanceTable says how large the perturbations are that break the images, for the
// cells that tell: the curves in numbers.
func (s Suite) DistanceTable() Table {
	what := "Smallest perturbation found that breaks an image that is right" + s.OfFirstSeed()
	head := []string{"Right images", "Unbroken", "10 % below", "Median", "90 % below"}
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		m := s.Distances(c)
		if m == nil {
			return
		}
		standing := 0
		for _, d := range m.Reach {
			if math.IsInf(d, 1) {
				standing++
			}
		}
		said := []any{words.Thousands(len(m.Reach)), words.Thousands(standing)}
		for _, q := range []float64{0.1, 0.5, 0.9} {
			if d := view.RankOf(m.Reach, q); math.IsInf(d, 1) {
				said = append(said, "> "+number.Format(*c.Epsilon))
			} else {
				said = append(said, words.Strength(*c.Norm, d))
			}
		}
		add(said...)
	})
}

// marginTable gives the spread of the images' margins in each cell that has records.
func (s Suite) marginTable() Table {
	what := "Margins: the right class's logit minus the highest other one, on each cell's images" + s.OfFirstSeed()
	head := []string{"10 % below", "Median", "90 % below", "Median on clean images", "Perturbed images",
		"Median perturbation", "Median iteration of first success", "Median forward passes to it"}
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		if m := s.MarginsOf(c); m != nil {
			moved := words.Dash
			if len(m.Norm) > 0 && c.Norm != nil {
				moved = words.Strength(*c.Norm, view.RankOf(m.Norm, 0.5))
			}
			add(quantile(m.Margin, 0.1), quantile(m.Margin, 0.5), quantile(m.Margin, 0.9), quantile(m.Clean, 0.5),
				words.Thousands(len(m.Norm)), moved, quantile(m.First, 0.5), quantile(m.Queries, 0.5))
		}
	})
}

// quantile writes the nearest-rank q-quantile of xs, or a dash when there are none.
func quantile(xs []float64, q float64) string {
	if len(xs) == 0 {
		return words.Dash
	}
	return words.ThreeDigits(view.RankOf(xs, q))
}

// SpreadTable says how far accuracies depend on the attacks' seeds.
func (s Suite) SpreadTable() Table {
	head := []string{"Seeds", "Mean", "Standard deviation", "Lowest", "Highest", "Right under every seed"}
	return s.byCell("Spread over the seeds: accuracy in %", head, func(c *result.Cell, add func(...any)) {
		if v, ok := c.Spread(); ok {
			add(strconv.Itoa(v.Seeds), words.Percent(v.Mean, c.N), words.Percent(v.Deviation, c.N), words.Percent(v.Min, c.N),
				words.Percent(v.Max, c.N), words.Percent(v.Every, c.N))
		}
	})
}
