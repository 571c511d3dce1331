package signs

import (
	"slices"
	"testing"
)

// A gradient misleads where it is missing, or slopes lead further, at a quarter of the images that are right, or where
// the median change along it is another.
func TestMisleads(t *testing.T) {
	fine := Misled{Right: true, Ratio: 1.1}
	with := func(n int, odd ...Misled) []Misled { return append(slices.Repeat([]Misled{fine}, n), odd...) }
	zero, short, off := Misled{Right: true, Zero: true, Ratio: 1}, Misled{Right: true, Short: true, Ratio: 1},
		Misled{Right: true, Ratio: 1.3}
	for name, c := range map[string]struct {
		all  []Misled
		want bool
	}{
		"none":              {nil, false},
		"fine":              {with(16), false},
		"one without":       {with(4, zero), false},
		"a quarter without": {with(3, zero), true},
		"a quarter short":   {with(6, short, short), true},
		"all wrong":         {[]Misled{{}, {Zero: true}}, false},
		"few off":           {slices.Repeat([]Misled{off}, 7), false},
		"all off":           {slices.Repeat([]Misled{off}, 8), true},
		"half fine":         {with(8, slices.Repeat([]Misled{off}, 6)...), false},
	} {
		if got := Misleads(c.all); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
