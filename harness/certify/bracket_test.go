package certify

import (
	"math"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/result"
)

// An image that is proven at exactly a column's epsilon counts there; one that is broken at it is not left. Images
// that are wrong without attack count nowhere.
func TestBracketColumns(t *testing.T) {
	g := &gaps{each: []gap{{proven: 0.1, broken: 0.2}, {proven: 0.2, broken: 0.3}, {proven: 0, broken: 0.1}, {}},
		farthest: 1, columns: []float64{0.1, 0.2, 0.3}, right: func(i int) bool { return i != 3 }}
	var c result.Cell
	g.Complete(&c)
	want := []result.Bracket{{Epsilon: 0.1, Proven: 2, Left: 2}, {Epsilon: 0.2, Proven: 1, Left: 1}, {Epsilon: 0.3}}
	if !slices.Equal(c.Brackets, want) || math.Abs(*c.Area-0.3/4) > 1e-12 {
		t.Errorf("%+v, mean gap %v", c.Brackets, *c.Area)
	}
	g.each[0].broken = math.Inf(1) // counts as the farthest
	g.Complete(&c)
	if math.Abs(*c.Area-1.1/4) > 1e-12 {
		t.Errorf("mean gap %v", *c.Area)
	}
}

// A step only narrows an image's gap, and only the next step is accepted.
func TestBracketSteps(t *testing.T) {
	g := &gaps{each: []gap{{broken: math.Inf(1), failed: math.Inf(1)}}, farthest: 1,
		rungs: []attacks.Rung{{}, {Method: "crown", Width: 0.1}, {}}, right: func(int) bool { return true }}
	for i, step := range []struct {
		found
		taken bool
		want  gap
	}{
		{found{Rung: 1, Radius: 0.1, Proven: true}, false, gap{broken: math.Inf(1), failed: math.Inf(1)}},
		{found{Rung: 0, Broken: 0.5}, true, gap{broken: 0.5, rung: 1, method: "crown", failed: math.Inf(1)}},
		{found{Rung: 1, Radius: 0.25, Proven: true}, true,
			gap{proven: 0.25, broken: 0.5, rung: 1, method: "crown", failed: math.Inf(1)}},
		{found{Rung: 1, Radius: 0.375}, true,
			gap{proven: 0.25, broken: 0.5, rung: 1, method: "crown", failed: 0.375, fails: 1}},
		{found{Rung: 1, Radius: 0.35, Proven: true}, true, // within a tenth
			gap{proven: 0.35, broken: 0.5, rung: 2, method: "crown", failed: 0.375, fails: 1}},
		{found{Rung: 2, Broken: 0.6}, true,
			gap{proven: 0.35, broken: 0.5, rung: 3, method: "crown", failed: 0.375, fails: 1}},
		{found{Rung: 3}, false, gap{proven: 0.35, broken: 0.5, rung: 3, method: "crown", failed: 0.375, fails: 1}},
	} {
		if got := g.take(0, step.found); got != step.taken || g.each[0] != step.want {
			t.Errorf("step %d: taken %v, %+v, want %+v", i, got, g.each[0], step.want)
		}
	}
}
