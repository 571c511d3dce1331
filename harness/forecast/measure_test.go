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
	contains(t, text, "suite plain", "  time: about ", " of the 7 images looked at; stand after 10 steps: ",
		"(linf 8/255)\n", "suite through", "  time: ", "(linf 8/255, greedy whitebox-through)\n", "suite broken",
		"  time: not known: ", "takes states of shape", "suite absent",
		"  time: not known: made-by-the-test.onnx is absent\n",
		"time: about ", ", on this machine, if as many images stand as after 10 steps; not known: robust, other\n")
}

// The estimate of a run whose images fall in few steps, and of one whose images stand, holds within its factor; both
// say how many stood. An estimate without the pilot would be the same for both.
func TestPilot(t *testing.T) {
	testinput.Runtime(t)
	text := testplan.Bundled + `
attacks:
  strong: {kind: apgd-ce, norm: linf, epsilon: 8/255, steps: 20000}
  faint: {kind: apgd-ce, norm: linf, epsilon: 1/2550, steps: 20000}
suites:
  fall: {dataset: test, models: [standard], attacks: [strong]}
  stand: {dataset: test, models: [robust], attacks: [faint]}
`
	p := must.Get(plan.New(testplan.Config(t, testplan.Repository(t), text, []string{"fall", "stand"})))(t)
	times := must.Get(Measure(t.Context(), p, nil, new(atomic.Int64)))(t)
	fall, stand := times.jobs[p.Jobs[0]], times.jobs[p.Jobs[1]]
	if f, s := fall.pilots[0], stand.pilots[0]; f.standing >= f.right || s.standing != s.right || s.right < 4 {
		t.Errorf("%v fall, %v stand", f, s)
	}
	for _, s := range []jobTime{fall, stand} {
		if !(s.Low > 0 && s.Low <= s.Likely && s.Likely <= s.High) {
			t.Errorf("%+v", s.Span)
		}
	}
	if !(2*fall.Likely < stand.Likely) {
		t.Errorf("%v where images fall, %v where they stand", fall.Span, stand.Span)
	}
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
	if s := m.time.Span; !(s.Low > 0) || s.High != 2*s.Low || s.Likely <= s.Low || s.Low > took {
		t.Errorf("opening in %v s counts %+v", took, s)
	}
}

// Seconds are not written as hours, nor with more than two digits; the factor is the larger of both bounds', times 1.5.
func TestDurations(t *testing.T) {
	for s, want := range map[Span]string{
		{0.01, 0.0123, 0.02}: "about 0.012 s, within a factor of 2.4", {1, 7, 8}: "about 7 s, within a factor of 10",
		{150, 150, 150}: "about 2.5 min, within a factor of 1.5", {0, 59, 60}: "about 59 s, within a factor of 1.5",
		{7200, 1e6, 1e6}: "about 278 h, within a factor of 208",
	} {
		if got := s.String(); got != want {
			t.Errorf("%v reads %q, want %q", s, got, want)
		}
	}
	if got := between(4, 9); got != (Span{4, 6, 9}) {
		t.Errorf("between 4 and 9 lies %v", got)
	}
}
