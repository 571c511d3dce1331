package forecast

import (
	"sync/atomic"
	"testing"
	"time"

	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// measured has a job of each kind, of a network of 10 classes on 12 images.
const measured = testplan.Bundled + `
controls:
  greedy: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
  broken: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/hidden_ae.onnx}}]}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 8/255, steps: 4}
  smooth: {kind: smoothing, norm: l2, epsilon: 0.05, sigma: 0.12, n0: 2, n: 40, stopping: true}
  common: {kind: corruption, names: [fog], severities: [1]}
suites:
  plain: {dataset: test, models: [robust], controls: [greedy], attacks: [pgd, smooth, common], mode: oblivious}
  through: {dataset: test, models: [robust], controls: [greedy], attacks: [pgd], mode: whitebox-through}
  broken: {dataset: test, models: [robust], controls: [broken], attacks: [pgd], mode: oblivious}
  absent: {dataset: test, models: [other], attacks: [pgd]}
`

// A job's time has two bounds, and a job that can't be timed says why.
func TestMeasure(t *testing.T) {
	testinput.Runtime(t)
	p := must.Get(plan.New(testplan.Config(t, testplan.Repository(t), measured, []string{"plain", "through", "broken",
		"absent"})))(t)
	if !Measurable(p) {
		t.Fatal("no job has its files")
	}
	times := must.Get(Measure(t.Context(), p, nil, new(atomic.Int64)))(t)
	for i, j := range p.Jobs[:2] {
		s := times.jobs[j]
		if s.why != "" || s.looked != 7 || s.right < 4 || !(s.Low > 0 && s.High > s.Low) {
			t.Errorf("job %d: %+v", i, s)
		}
	}
	text := must.Get(Describe(p, nil, times))(t)
	contains(t, text, "suite plain", "  time: ", " s; right without attack: ", " of the 7 images looked at\n",
		"suite through", "  time: ", "suite broken", "  time: not known: ", "takes states of shape", "suite absent",
		"  time: not known: made-by-the-test.onnx is absent\n",
		"time: ", " on this machine, from timed passes; not known: robust, other\n")
}

// Opening a job counts in both bounds, before any pass: once or, if it does not stay open, at most twice.
func TestOpeningCounts(t *testing.T) {
	testinput.Runtime(t)
	p := must.Get(plan.New(testplan.Config(t, testplan.Repository(t), measured, []string{"plain"})))(t)
	m := &measuring{Opener: must.Get(open.New(p.Config, open.Options{}))(t), ctx: t.Context(), plan: p}
	defer m.Opener.Close()
	began := time.Now()
	must.Do(t, m.open(p.Jobs[0]))
	took := time.Since(began).Seconds() // includes the timed passes
	defer m.leave()
	if s := m.time.Span; !(s.Low > 0) || s.High != 2*s.Low || s.Low > took {
		t.Errorf("opening in %v s counts %+v", took, s)
	}
}

// Seconds are not written as hours, nor with more than two digits.
func TestDurations(t *testing.T) {
	for s, want := range map[Span]string{
		{0.0123, 0.44}: "0.012 to 0.44 s", {7, 41.7}: "7 to 42 s", {9.96, 99}: "10 to 99 s",
		{42, 150}:  "42 s to 2.5 min",
		{126, 900}: "2.1 to 15 min", {59, 5999}: "59 s to 100 min", {42, 10800}: "42 s to 3 h",
		{7200, 1e6}: "2 to 278 h", {0, 0}: "0 to 0 s",
	} {
		if got := s.String(); got != want {
			t.Errorf("%v reads %q, want %q", s, got, want)
		}
	}
}
