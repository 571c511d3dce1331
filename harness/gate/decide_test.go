package gate

import (
	"math"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/stats"
)

// A drop's interval, which reports print, is two-sided at 1 − 2α: each end has the one-sided level that decides. At its
// ends Tango's score is the normal quantile of α.
func TestLevelOfDrops(t *testing.T) {
	for _, alpha := range []float64{0.05, 0.01} {
		rules := config.DefaultGate()
		rules.Alpha = alpha
		p := stats.Paired{N: 400, Lost: 20, Won: 5}
		x := newTests(rules).change(counts{p, 1})
		// Without [stats.Paired.Interval]: the likelihood's root as in Tango's equation.
		z := map[float64]float64{0.05: 1.6448536269514722, 0.01: 2.3263478740408408}[alpha]
		for end, want := range map[int]float64{0: z, 1: -z} {
			d, n := x.Interval[end], float64(p.N)
			a, b, c := 2*n, (2*n-20+5)*d-25, -5*d*(1-d)
			q := (math.Sqrt(b*b-4*a*c) - b) / (2 * a)
			if got := (20 - 5 - n*d) / math.Sqrt(n*(2*q+d*(1-d))); math.Abs(got-want) > 1e-6 {
				t.Errorf("alpha %v, end %v: a score of %v, want %v", alpha, d, got, want)
			}
		}
	}
}

// A minimum is missed exactly where the one-sided exact test says so at the minimum's share of alpha.
func TestLevelOfMinimums(t *testing.T) {
	for _, mins := range []int{1, 3} {
		r := &Report{Gate: config.DefaultGate(), mins: mins}
		between := 0
		for right := 60; right <= 80; right++ {
			m := r.minimum(Cell{N: 100, Correct: right}, 0.8)
			share := r.Gate.Alpha / float64(mins)
			if m.Missed != (m.P < share) {
				t.Errorf("%d of 100, %d minimums: p %v at level %v, missed %v", right, mins, m.P, share, m.Missed)
			}
			if m.P < share && m.P > share/2 {
				between++
			}
			if want := stats.WilsonAt(right, 100, 1-2*share); m.Wilson != want {
				t.Errorf("%d of 100: Wilson's interval %v, want %v", right, m.Wilson, want)
			}
		}
		if between == 0 {
			t.Errorf("%d minimums: no count lies between the levels alpha and alpha/2", mins)
		}
	}
}

// At the border itself a cell has dropped, and one may have: both probabilities are compared with alpha inclusively.
func TestBorderOfAlpha(t *testing.T) {
	rules := config.DefaultGate()
	for _, c := range []struct {
		above, below float64
		want         Outcome
	}{
		{rules.Alpha, 1, Fail}, {math.Nextafter(rules.Alpha, 1), rules.Alpha, Pass},
		{math.Nextafter(rules.Alpha, 1), math.Nextafter(rules.Alpha, 1), Inconclusive},
	} {
		one := Compared{Cell: Cell{N: 100, Correct: 90}, Accuracy: 0.9,
			Change: &Change{AboveHolm: c.above, Below: c.below}}
		if got := outcome(one.decide(rules)); got != c.want {
			t.Errorf("p fail %v, p pass %v: %s, want %s", c.above, c.below, got, c.want)
		}
	}
	cell := Cell{N: 100, Correct: 80}
	if one := (Compared{Cell: cell, Accuracy: 0.8, Min: (&Report{Gate: rules}).minimum(cell, 0.8)}); one.below() {
		t.Error("an accuracy that is the minimum is below it")
	}
}
