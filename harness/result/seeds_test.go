package result

import (
	"math"
	"testing"

	"selfheal/internal/must"
)

func TestSpread(t *testing.T) {
	c := Cell{Verdicts: "11100", Seeds: []SeedScore{
		{Seed: 1, Correct: 3, Accuracy: 0.6, Verdicts: "11100"},
		{Seed: 2, Correct: 2, Accuracy: 0.4, Verdicts: "01100"},
		{Seed: 3, Correct: 4, Accuracy: 0.8, Verdicts: "11110"},
	}}
	must.Do(t, c.checkSeeds())
	s, ok := c.Spread()
	if !ok || s.Seeds != 3 || math.Abs(s.Mean-0.6) > 1e-12 || math.Abs(s.Deviation-0.2) > 1e-12 || s.Min != 0.4 ||
		s.Max != 0.8 || s.Every != 0.4 {
		t.Errorf("%+v, %v", s, ok)
	}
	if _, ok := (Cell{Seeds: c.Seeds[:1]}).Spread(); ok {
		t.Error("one seed has a spread")
	}
}

func TestHostileSeeds(t *testing.T) {
	for _, c := range []struct {
		seed SeedScore
		want string
	}{
		{SeedScore{Verdicts: "1"}, "other verdicts"},
		{SeedScore{Verdicts: "1x"}, "other verdicts"},
		{SeedScore{Verdicts: "10", Correct: 2, Accuracy: 1}, "1 right verdicts"},
		{SeedScore{Verdicts: "10", Correct: 1, Accuracy: 0.7}, "an accuracy of 0.7"},
	} {
		must.Refuse(t, Cell{Verdicts: "10", Seeds: []SeedScore{c.seed}}.checkSeeds(), c.want)
	}
}
