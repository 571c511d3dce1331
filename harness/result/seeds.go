package result

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// SeedScore is a cell's accuracy when its attack is made from one seed. Networks, controls
// and their fits are the same under every seed.
type SeedScore struct {
	Seed     uint64  `json:"seed"`
	Correct  int     `json:"correct"`
	Accuracy float64 `json:"accuracy"`
	Verdicts string  `json:"verdicts"` // as the cell's
	Seconds  float64 `json:"seconds"`
}

// Spread is how far a cell's accuracy depends on its attack's seed.
type Spread struct {
	Seeds     int
	Mean      float64 // of the accuracies
	Deviation float64 // their standard deviation, with n − 1
	Min, Max  float64
	Every     float64 // share of the images that are right under every seed
}

// Spread returns the spread of a cell with several seeds; ok is false for others.
func (c Cell) Spread() (s Spread, ok bool) {
	if len(c.Seeds) < 2 {
		return s, false
	}
	accuracies := make([]float64, len(c.Seeds))
	for i, one := range c.Seeds {
		accuracies[i] = one.Accuracy
	}
	s = Spread{Seeds: len(c.Seeds), Min: slices.Min(accuracies), Max: slices.Max(accuracies)}
	s.Mean, s.Deviation = stat.MeanStdDev(accuracies, nil)
	for i := range c.Verdicts {
		if !slices.ContainsFunc(c.Seeds, func(one SeedScore) bool { return one.Verdicts[i] != '1' }) {
			s.Every++
		}
	}
	s.Every /= float64(max(len(c.Verdicts), 1))
	return s, true
}

// checkSeeds is an error for seeds that no run writes: what reads them relies on a verdict
// an image.
func (c Cell) checkSeeds() error {
	for _, s := range c.Seeds {
		if len(s.Verdicts) != len(c.Verdicts) || strings.Trim(s.Verdicts, "01") != "" {
			return fmt.Errorf("seed %d has other verdicts than one for each of %d images", s.Seed, len(c.Verdicts))
		}
		if n := strings.Count(s.Verdicts, "1"); n != s.Correct ||
			!(math.Abs(s.Accuracy-float64(n)/float64(max(len(s.Verdicts), 1))) < 1e-9) || !plausible(s.Seconds) {
			return fmt.Errorf("seed %d has %d right verdicts, and says %d or an accuracy of %g", s.Seed, n, s.Correct,
				s.Accuracy)
		}
	}
	return nil
}
