package stats

import (
	"math"
	"testing"
)

// Published values: Newcombe, "Two-sided confidence intervals for the single proportion: comparison of seven
// methods", Statistics in Medicine 17 (1998), Table I, methods 3 (score without continuity correction) and 5
// (Clopper–Pearson). The last three exact ones are those that the R package contingencytables tests for chapter
// 2 of Fagerland, Lydersen and Laake, "Statistical Analysis of Contingency Tables" (2017).
func TestIntervalsPublished(t *testing.T) {
	none := [2]float64{-1, -1}
	for _, c := range []struct {
		k, n          int
		wilson, exact [2]float64
	}{
		{81, 263, [2]float64{0.2553, 0.3662}, [2]float64{0.2527, 0.3676}},
		{15, 148, [2]float64{0.0624, 0.1605}, [2]float64{0.0578, 0.1617}},
		{0, 20, [2]float64{0, 0.1611}, [2]float64{0, 0.1684}},
		{1, 29, [2]float64{0.0061, 0.1718}, [2]float64{0.0009, 0.1776}},
		{13, 16, none, [2]float64{0.5435, 0.9595}},
		{10, 10, none, [2]float64{0.6915, 1}},
		{0, 10, none, [2]float64{0, 0.3085}},
	} {
		wilson, exact := Wilson(c.k, c.n), ClopperPearson(c.k, c.n, 0.95)
		for i := range 2 {
			if c.wilson != none && math.Abs(wilson[i]-c.wilson[i]) > 5e-5 || math.Abs(exact[i]-c.exact[i]) > 5e-5 {
				t.Errorf("%+v: Wilson %.4f, exact %.4f", c, wilson, exact)
			}
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
			mirror := Wilson(n-k, n)
			if math.Abs(mirror[0]-(1-ends[1])) > 1e-15 || math.Abs(mirror[1]-(1-ends[0])) > 1e-15 {
				t.Errorf("Wilson(%d, %d) = %v is not the mirror of %v", n-k, n, mirror, ends)
			}
		}
	}
}

func TestWilsonEnds(t *testing.T) {
	none, low, high := Wilson(0, 0), Wilson(0, 7), Wilson(7, 7)
	if none != [2]float64{0, 1} || low[0] != 0 || high[1] != 1 {
		t.Errorf("of no images %v, of none right %v, of all right %v", none, low, high)
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
