package run

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"selfheal/control"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/number"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

func TestSolversFromTheSameStart(t *testing.T) {
	msa := control.Solver{Method: control.MSA, Outer: 3, Inner: 10, Regularization: 0.1, LearningRate: 0.2,
		Momentum: 0.3}
	pmp := func(outer int) control.Solver {
		return control.Solver{Method: control.PMP, Outer: outer, Regularization: 0.1, LearningRate: 0.2, Momentum: 0.3}
	}
	greedy := control.Solver{Method: control.Greedy, Regularization: 0.1}
	with := func(outer, inner int) control.Solver { s := msa; s.Outer, s.Inner = outer, inner; return s }
	for _, c := range []struct {
		own  control.Solver
		want []control.Solver
	}{
		{msa, []control.Solver{greedy, msa, pmp(30)}}, {pmp(30), []control.Solver{greedy, msa, pmp(30)}},
		{pmp(25), []control.Solver{greedy, with(3, 10), pmp(25)}},
		{pmp(4), []control.Solver{greedy, with(1, 4), pmp(4)}},
	} {
		if got := sameStart(c.own); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.own, got, c.want)
		}
	}
}

// Means, errors and fractions of four images, computed by hand.
func TestStudyOutcome(t *testing.T) {
	at := []control.Point{{Done: true}, {Sweep: 1}, {Sweep: 1, Done: true}, {Sweep: 2}, {Sweep: 2, Done: true}}
	of := func(right bool, values ...float64) []reading {
		var out []reading
		for _, v := range values {
			out = append(out, reading{v, right && number.Finite(v), number.Finite(v)})
		}
		return out
	}
	all := [][]reading{
		of(true, 4, 9, 3, 9, 2),      // falls; within a sweep it may rise
		of(true, 4, 4, 5, 4, 3),      // rises once, ends below
		of(false, 4, 4, 4, 4, 4),     // stays
		of(true, 4, 4, 3, 4, 3+1e-9), // rises by rounding
	}
	o := outcome("clean", at, all)
	if o.BelowGreedy != 0.75 || o.NonIncreasing != 0.75 || o.NotFinite != 0 || o.Correct != 3 || o.Accuracy != 0.75 ||
		len(o.Sweeps) != 3 {
		t.Errorf("%+v", o)
	}
	m := o.Sweeps[1] // 3, 5, 4, 3
	if !near(*m.Objective, 3.75) || !near(m.StandardError, math.Sqrt((0.75*0.75*2+1.25*1.25+0.25*0.25)/3/4)) {
		t.Errorf("mean %v ± %v", *m.Objective, m.StandardError)
	}
	all[2] = of(true, 4, 4, 4, 4, math.Inf(1))
	if o = outcome("clean", at, all); o.NotFinite != 0.25 || o.Final().Objective != nil ||
		o.Sweeps[1].Objective == nil || o.NonIncreasing != 0.5 || o.Correct != 3 {
		t.Errorf("%+v", o)
	}
	p := points(at, all)
	if p[4].Objective != nil || p[3].Correct != 4 || !near(p[3].Accuracy, 1) || !near(*p[1].Objective, (9+4+4+4)/4.) {
		t.Errorf("%+v", p)
	}
	if one := meanObjective(all[:1], 0); *one.Objective != 4 || one.StandardError != 0 {
		t.Errorf("one image: %+v", one)
	}
}

// A loop's numbers are means over the images, and sweeps over those that were followed.
func TestSolverSummary(t *testing.T) {
	j := &judgement{stages: []int{0, 3}, rows: [][]float64{{1, 2, 3, 10, 20, 30, 40}, {3, 3, 5, 30, 40, 50, 60}},
		verdicts: make([]judge.Verdict, 2)}
	j.sweeps[0], j.sweeps[1] = []number.Any{4, 2}, []number.Any{6, 5}
	s := j.summary(&open.ControlInfo{Passes: 7, Places: map[int]string{0: "input", 3: "last"}})
	if s.Objective != 2 || s.Greedy != 2.5 || s.ControlNorm != 4 || s.BelowGreedy != 0.5 || s.PassesPerRun != 7 ||
		s.Traced != 2 || !slices.Equal(s.Sweeps, []float64{5, 3.5}) || len(s.Layers) != 2 {
		t.Errorf("%+v", s)
	}
	for i, want := range [][2]float64{{20, 30}, {40, 50}} {
		if l := s.Layers[i]; l.ControlNorm != want[0] || l.Loss != want[1] {
			t.Errorf("layer %d: %+v, want %v", i, l, want)
		}
	}
	j.sweeps[1][1] = number.Any(math.Inf(1))
	if means, n := j.meanSweeps(); means != nil || n != 0 {
		t.Errorf("sweeps that are not finite: %v of %d", means, n)
	}
}

// A study follows the control's own solver to the control's answers, and also step by step at the default rate, in a
// curve that says so.
func TestStudy(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+`
controls:
  msa:
    solver: {method: msa, outer: 2, inner: 2, learning_rate: 0.5}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]
attacks: {fgsm: {kind: fgsm, norm: linf, epsilon: 4/255}}
suites:
  s: {dataset: test, models: [robust], controls: [msa], attacks: [fgsm], mode: oblivious,
      solver: {images: 24, attack: fgsm, outer: [1]}}
`, 2, 8, "datasets.test.limit=24")
	f := must.Get(Run(t.Context(), p, Options{Out: t.TempDir()}))(t)
	study := f.Solver[0]
	var runs []string
	for _, r := range study.Runs {
		runs = append(runs, fmt.Sprint(r.Why, " ", r.Settings.Outer, " ", r.Settings.LearningRate, " ", r.Own))
	}
	usual := study.Defaults.LearningRate
	if want := []string{"own 2 0.5 true", fmt.Sprint("default 2 ", usual, " false"), "outer 1 0.5 false",
		"outer 2 0.5 true"}; !slices.Equal(runs, want) {
		t.Errorf("runs %q, want %q", runs, want)
	}
	for k, c := range study.Curves { // greedy control, msa, pmp and default msa, for two kinds of images each
		inner := map[string]int{"greedy": 0, "pmp": 1, "msa": 2}[c.Settings.Method]
		if c.Settings.Inner != inner || c.Default != (k >= 6) ||
			c.Default != (c.Settings.LearningRate == usual) || k > 1 && len(c.Points) != 5 {
			t.Errorf("curve %d of %d: %+v", k, len(study.Curves), c)
		}
	}
	for k, attack := range []string{"none", "fgsm"} {
		i := slices.IndexFunc(f.Cells, func(c result.Cell) bool { return c.Defense == "msa" && c.Attack == attack })
		if got, want := study.Runs[0].Outcomes[k].Correct, f.Cells[i].Correct; got != want || want == 24 {
			t.Errorf("%s: %d images are right under the control, in its study %d", attack, want, got)
		}
	}
	if len(study.Curves) != 8 || len(f.Gallery.Cases) == 0 {
		t.Errorf("%d curves, %d cases of the gallery", len(study.Curves), len(f.Gallery.Cases))
	}
}
