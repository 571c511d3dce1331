package stats

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// tail returns P(X ≥ k), summed term by term with the recursion of the binomial's terms.
func tail(k, n int, p float64) float64 {
	sum, term := 0.0, math.Pow(1-p, float64(n))
	for i := 0; i <= n; i++ {
		if i >= k {
			sum += term
		}
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return sum
}

// The ends solve the equations that define them, at any level. The interval contains the observed fraction, and
// Wilson's is narrower.
func TestClopperPearsonSolvesTails(t *testing.T) {
	for _, level := range []float64{0.9, 0.95, 0.999} {
		for n := 1; n <= 40; n++ {
			for k := 0; k <= n; k++ {
				ends := ClopperPearson(k, n, level)
				if k > 0 && math.Abs(tail(k, n, ends[0])-(1-level)/2) > 1e-9 || k == 0 && ends[0] != 0 {
					t.Errorf("ClopperPearson(%d, %d, %v): %v is no lower end", k, n, level, ends[0])
				}
				if k < n && math.Abs(1-tail(k+1, n, ends[1])-(1-level)/2) > 1e-9 || k == n && ends[1] != 1 {
					t.Errorf("ClopperPearson(%d, %d, %v): %v is no upper end", k, n, level, ends[1])
				}
				if fraction := float64(k) / float64(n); ends[0] > fraction || ends[1] < fraction {
					t.Errorf("ClopperPearson(%d, %d) = %v does not hold %v", k, n, ends, fraction)
				}
				if w := WilsonAt(k, n, level); w[1]-w[0] > ends[1]-ends[0]+1e-12 && level <= 0.95 {
					t.Errorf("Wilson(%d, %d) = %v is wider than %v", k, n, w, ends)
				}
			}
		}
	}
	if got := ClopperPearson(0, 0, 0.95); got != [2]float64{0, 1} {
		t.Errorf("of no images %v", got)
	}
}

// The binomial's tails equal gonum's and the sums of their terms, and the test agrees with the interval.
func TestBinomialTails(t *testing.T) {
	for n := 1; n <= 60; n += 7 {
		for k := 0; k <= n; k++ {
			for _, p := range []float64{0.001, 0.02, 0.3, 0.5, 0.97} {
				if got, want := atLeast(k, n, p), tail(k, n, p); math.Abs(got-want) > 1e-11 {
					t.Errorf("P(X ≥ %d), n %d, p %v is %v, not %v", k, n, p, got, want)
				}
				binomial := distuv.Binomial{N: float64(n), P: p}
				if got, want := atMost(k, n, p), binomial.CDF(float64(k)); math.Abs(got-want) > 1e-12 {
					t.Errorf("P(X ≤ %d), n %d, p %v is %v, not %v", k, n, p, got, want)
				}
				upper := ClopperPearson(k, n, 0.9)[1]
				if rejected := BinomialTest(k, n, p) < 0.05; rejected != (upper < p) && math.Abs(upper-p) > 1e-9 {
					t.Errorf("%d of %d against %v: rejected %v, upper end %v", k, n, p, rejected, upper)
				}
			}
		}
	}
	// 21 decimals below 1: one minus the other tail would be 0.
	if got := atLeast(500, 500, 0.9); math.Abs(got/math.Pow(0.9, 500)-1) > 1e-9 {
		t.Errorf("P(X = 500) = %v", got)
	}
	got := []float64{
		atLeast(0, 5, 0), atLeast(1, 5, 0), atLeast(5, 5, 1), atLeast(6, 5, 1), atMost(-1, 5, 0.5), atMost(5, 5, 0.5),
	}
	if !slices.Equal(got, []float64{1, 0, 1, 0, 0, 1}) {
		t.Errorf("the tails' ends are %v", got)
	}
}

// Published values: 12 and 2 discordant pairs of Armitage and Berry (1994, p. 127), exact P = 0.0129 (Liddell
// 1983); 1 and 7 of Bentur et al. (2009) and 16 and 6 of Cavo et al. (2012), Fagerland, Lydersen and Laake, BMC
// Medical Research Methodology 13:91 (2013) and the R package contingencytables: P = 0.0703 and 0.052479.
func TestMcNemarPublished(t *testing.T) {
	for _, c := range []struct {
		lost, won int
		want, to  float64
	}{{12, 2, 0.0129, 5e-5}, {1, 7, 0.0703, 5e-5}, {16, 6, 0.052479, 5e-7}} {
		p := Paired{0, c.lost, c.won}.McNemar()
		if q := (Paired{0, c.won, c.lost}).McNemar(); math.Abs(p-c.want) > c.to || q != p {
			t.Errorf("McNemar(%d, %d) = %v, and %v the other way round, want %v", c.lost, c.won, p, q, c.want)
		}
	}
}

// The p-values are sums of the binomial's terms at 1/2: the fraction of outcomes that are as far out.
func TestMcNemarSums(t *testing.T) {
	for m := 0; m <= 16; m++ {
		for lost := 0; lost <= m; lost++ {
			far := 0.0
			for k := 0; k <= m; k++ {
				if math.Abs(float64(2*k-m)) >= math.Abs(float64(2*lost-m)) {
					far += tail(k, m, 0.5) - tail(k+1, m, 0.5)
				}
			}
			of := Paired{m, lost, m - lost}
			if drop, both := of.McNemarDrop(), of.McNemar(); math.Abs(drop-tail(lost, m, 0.5)) > 1e-12 ||
				math.Abs(both-far) > 1e-12 {
				t.Errorf("McNemar(%d, %d) = %v, %v; want %v, %v", lost, m-lost, drop, both, tail(lost, m, 0.5), far)
			}
		}
	}
}

// Published values: Holm (1979) as R's p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
// documents it, in another order.
func TestHolm(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{[]float64{0.04, 0.01, 0.05, 0.02, 0.03}, []float64{0.09, 0.05, 0.09, 0.08, 0.09}},
		{[]float64{0.6, 0.7}, []float64{1, 1}}, {},
	} {
		var f Family
		got := make([]float64, len(c.p))
		for i, p := range c.p {
			f.Add(p, func(p float64) { got[i] = p })
		}
		f.Holm()
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-15 }) {
			t.Errorf("Holm corrects %v to %v, not to %v", c.p, got, c.want)
		}
	}
}

// Published values: Newcombe, "Two-sided confidence intervals for the single proportion: comparison of seven
// methods", Statistics in Medicine 17 (1998), Table I, methods 3 (score without continuity correction) and 5
// (Clopper–Pearson). The R package contingencytables tests the last three exact ones for chapter 2 of Fagerland,
// Lydersen and Laake, "Statistical Analysis of Contingency Tables" (2017).
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
		{13, 16, none, [2]float64{0.5435, 0.9595}}, {10, 10, none, [2]float64{0.6915, 1}},
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

// At its ends the normal test of the score just rejects: |p̂ − p| = z·√(p(1−p)/n).
func TestWilsonSolvesScoreEquation(t *testing.T) {
	for n := 1; n < 60; n++ {
		for k := 0; k <= n; k++ {
			p := float64(k) / float64(n)
			ends := Wilson(k, n)
			if ends[0] > p || ends[1] < p || ends[0] < 0 || ends[1] > 1 || k == 0 && ends[0] != 0 ||
				k == n && ends[1] != 1 {
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
	if ends := Wilson(0, 0); ends != [2]float64{0, 1} {
		t.Errorf("of no images %v", ends)
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
