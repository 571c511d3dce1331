package stats

import (
	"math"
	"testing"
)

// Published values: Newcombe, "Two-sided confidence intervals for the single
// proportion: comparison of seven methods", Statistics in Medicine 17 (1998),
// Table I, method 3 (score without continuity correction).
func TestWilsonPublished(t *testing.T) {
	for _, c := range []struct {
		k, n         int
		lower, upper float64
	}{
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0, 0.1611},
		{1, 29, 0.0061, 0.1718},
	} {
		got := Wilson(c.k, c.n)
		if math.Abs(got[0]-c.lower) > 5e-5 || math.Abs(got[1]-c.upper) > 5e-5 {
			t.Errorf("Wilson(%d, %d) = %.4f, want [%.4f %.4f]", c.k, c.n, got, c.lower, c.upper)
		}
	}
}

// The ends are where the normal test of the score just rejects: |p̂ − p| = z·√(p(1−p)/n).
func TestWilsonSolvesScoreEquation(t *testing.T) {
	for n := 1; n < 60; n++ {
		for k := 0; k <= n; k++ {
			p := float64(k) / float64(n)
			ends := Wilson(k, n)
			if ends[0] > p || ends[1] < p || ends[0] < 0 || ends[1] > 1 {
				t.Fatalf("Wilson(%d, %d) = %v does not hold %v within [0,1]", k, n, ends, p)
			}
			for _, e := range ends {
				if e == 0 || e == 1 {
					continue
				}
				want := 1.959963984540054 * math.Sqrt(e*(1-e)/float64(n))
				if math.Abs(math.Abs(p-e)-want) > 1e-12 {
					t.Errorf("Wilson(%d, %d): %v is not an end", k, n, e)
				}
			}
			if mirror := Wilson(n-k, n); math.Abs(mirror[0]-(1-ends[1])) > 1e-15 || math.Abs(mirror[1]-(1-ends[0])) > 1e-15 {
				t.Errorf("Wilson(%d, %d) = %v is not the mirror of %v", n-k, n, mirror, ends)
			}
		}
	}
}

func TestWilsonEnds(t *testing.T) {
	if got := Wilson(0, 0); got != [2]float64{0, 1} {
		t.Errorf("Wilson(0, 0) = %v", got)
	}
	if got := Wilson(0, 7); got[0] != 0 {
		t.Errorf("Wilson(0, 7) begins at %v", got[0])
	}
	if got := Wilson(7, 7); got[1] != 1 {
		t.Errorf("Wilson(7, 7) ends at %v", got[1])
	}
	for _, c := range [][2]int{{-1, 3}, {4, 3}, {0, -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Wilson(%d, %d) does not panic", c[0], c[1])
				}
			}()
			Wilson(c[0], c[1])
		}()
	}
}
