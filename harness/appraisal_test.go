package harness

import (
	"context"
	"math"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// Before a network is shared out, quick attacks tell which of its images will stand.
func TestQuickAttacksTell(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, sparse, 2, 8, "datasets.test.limit=20", "suites.some.models=[standard]",
		"attacks.pgd={kind: autoattack, version: custom, norm: l2, epsilon: 0.25, "+
			"components: [{kind: apgd-ce, restarts: 1}, {kind: apgd-t, steps: 100}, {kind: square, queries: 400}]}")
	f := must.Get(Run(context.Background(), p, Options{Out: t.TempDir()}))(t)
	r := must.Get(newRun(p, Options{}))(t)
	defer r.close()
	r.shard.N = 4
	must.Do(t, r.preflight(context.Background()))
	r.reserve()
	a := must.Get(r.appraise(context.Background(), p.Jobs[0]))(t)
	told, wrong, stand, expected := 0, 0, 0.0, 0.0
	for i, e := range a.stakes[0].ends {
		stands := f.Cells[1].Verdicts[i] == '1'
		if stands {
			stand++
		}
		if a.stakes[0].distances[i] != 0 {
			expected += a.chance(a.stakes[0], i)
		}
		if e != open {
			told++
			if stands != (e == stood) {
				wrong++
			}
		}
	}
	if told == 0 || 8*wrong > told || math.Abs(stand-expected) > 2 {
		t.Errorf("of %d that are told %d are wrong; %v images stand, %v are expected to", told, wrong, stand, expected)
	}
}

// However many images have been seen, and however odd their ends, what is known of a network stays a probability.
func TestShiftsStayProbabilities(t *testing.T) {
	a, s := &appraisal{shifts: []shift{{0.5, 1}, {1, 1}, {2, 1}}}, &stake{distances: []float64{1}, ends: []end{open}}
	for i := range 5000 {
		a.shifts = learnt(a.shifts, []float64{0.2, 0.9, 3, 1e9}[i%4], i%4 > 0)
		a.shifts = learnt(a.shifts, []float64{0.2, 0.9, 3, 1e9}[i%4], i%4 == 0)
	}
	if c := a.chance(s, 0); !(c >= 0 && c <= 1) {
		t.Errorf("an image stands with probability %v", c)
	}
	a.shifts = learnt(learnt([]shift{{0.5, 1}, {2, 1}}, 1.5, false), 1.2, false)
	if c := a.chance(s, 0); c > 0.1 {
		t.Errorf("after two that fell further away it stands with probability %v", c)
	}
}
