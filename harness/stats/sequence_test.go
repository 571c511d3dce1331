package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Over many rows, looked at after every image, the interval misses the true fraction no more often than it may.
func TestSequenceCovers(t *testing.T) {
	t.Parallel()
	const rows, length, level = 400, 1000, 0.9
	for _, p := range []float64{0.5, 0.6, 0.9, 0.99} {
		rng, lost := rand.New(rand.NewPCG(1, uint64(1000*p))), 0
		for range rows {
			k := 0
			for n := 1; n <= length; n++ {
				if rng.Float64() < p {
					k++
				}
				if n%20 != 0 {
					continue
				}
				if ends := Sequence(k, n, level); p < ends[0] || p > ends[1] {
					lost++
					break
				}
			}
		}
		if allowed := rows*(1-level) + 4*math.Sqrt(rows*level*(1-level)); float64(lost) > allowed {
			t.Errorf("of %d rows %d lost %v", rows, lost, p)
		} else if lost == 0 {
			t.Errorf("no row lost %v: the intervals are far too wide", p)
		}
	}
}

// At its ends the mixture's ratio equals the bound, here by numerical integration.
func TestSequenceKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n  int
		level float64
	}{{7, 10, .95}, {0, 5, .9}, {90, 100, .999}, {100, 100, .999}} {
		likelihood := func(p float64) float64 {
			return math.Pow(p, float64(c.k)) * math.Pow(1-p, float64(c.n-c.k))
		}
		mean, steps := 0.0, 1_000_000
		for i := range steps {
			mean += likelihood((float64(i)+.5)/float64(steps)) / float64(steps)
		}
		ends := Sequence(c.k, c.n, c.level)
		for i, p := range ends {
			if p == float64(i) { // the end of all fractions
				continue
			}
			if ratio := mean / likelihood(p) * (1 - c.level); math.Abs(ratio-1) > 1e-4 {
				t.Errorf("%+v: the ratio at the end %v is %v of the bound", c, p, ratio)
			}
		}
		if best := float64(c.k) / float64(c.n); best < ends[0] || best > ends[1] {
			t.Errorf("%+v: %v", c, ends)
		}
	}
	if ends := Sequence(0, 0, .9); ends != [2]float64{0, 1} {
		t.Errorf("of nothing: %v", ends)
	}
}
