package control

import (
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// Counting by few sweeps and steps gives the passes that the loop makes. Its time does not grow with their number.
func TestCountIsThatOfTheLoop(t *testing.T) {
	for _, places := range [][]int{{0}, {2}, {0, 2}} {
		for _, s := range []Solver{{Method: Greedy}, {Method: PMP, Outer: 1}, {Method: PMP, Outer: 7},
			{Method: MSA, Outer: 1, Inner: 1}, {Method: MSA, Outer: 1, Inner: 5}, {Method: MSA, Outer: 6, Inner: 1},
			{Method: MSA, Outer: 4, Inner: 3}} {
			c := defended(t, s, places...)
			for _, whole := range []bool{false, true} {
				n := make(counting, len(c.stages))
				must.Get(solve(c, n, nothing{}, whole, nil, nil))(t)
				if got := c.count(whole); !slices.Equal(got, n) {
					t.Errorf("%v at %v, whole %v: %v, the loop asks %v", s, places, whole, got, n)
				}
				tape := int64(0)
				for t, n := range n {
					z, next := int64(c.stages[t].size), int64(c.stages[t].next)
					tape += 3*z*n[embed] + 4*z*n[ascent] + 2*next*n[segment]
				}
				if got := c.TapeValues(); !whole && got != tape {
					t.Errorf("%v at %v: %d values on the tape, want %d", s, places, got, tape)
				}
			}
		}
	}
	c := defended(t, Solver{Method: MSA, Outer: math.MaxInt32, Inner: math.MaxInt32}, 0, 2)
	if c.TapeValues() != math.MaxInt64 || c.Passes() < 1e9 {
		t.Errorf("%d values, %v passes", c.TapeValues(), c.Passes())
	}
	_, err := c.Graph()
	must.Refuse(t, err, "unrolls to about ", "more than the 20000 that a file may have", "outer")
	cost := must.Get(whiteBox(t, c, Through).Cost())(t)
	if cost.Forward < 1e9 || cost.Backward < 1e9 {
		t.Errorf("%+v", cost)
	}
}
