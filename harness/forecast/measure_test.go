package forecast

import (
	"testing"

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
  plain: {dataset: test, models: [robust], controls: [greedy], attacks: [pgd, smooth, common]}
  through: {dataset: test, models: [robust], controls: [greedy], attacks: [pgd], mode: whitebox-through}
  broken: {dataset: test, models: [robust], controls: [broken], attacks: [pgd]}
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
	times := must.Get(Measure(t.Context(), p, nil))(t)
	for i, j := range p.Jobs[:2] {
		s := times.jobs[j]
		if s.why != "" || s.looked != 7 || s.right < 4 || !(s.Low > 0 && s.High > s.Low) {
			t.Errorf("job %d: %+v", i, s)
		}
	}
	text := must.Get(Describe(p, nil, times))(t)
	contains(t, text, "suite plain", "  hours: ", " s); right without attack: ", " of the 7 images looked at\n",
		"suite through", "  hours: ", "suite broken", "  hours: not known: ", "takes states of shape", "suite absent",
		"  hours: not known: made-by-the-test.onnx is absent\n",
		"hours: ", " on this machine, from timed passes; not known: robust, other\n")
}
