package train

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
)

// A watched training that forgets how to withstand PGD goes back to the last good epoch and searches by shorter steps,
// also if it was continued from a checkpoint in between, and ends with an error when it forgets too often.
func TestWatch(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	data, held := shapes10(t, 64).Split(32, 1)
	s := Settings{Epochs: 3, Batch: 16, Weight: 0.1, Optimizer: Adam, LearningRate: 0.001, Average: 0.9,
		Objective: Adversarial, Norm: attacks.Linf, Epsilon: 0.03, Steps: 1, StepSize: 0.04}
	tr := trainer(t, small(t, "unet", n, 2), []Network{n}, data, s)
	epoch := func() {
		t.Helper()
		for done := tr.Done(); tr.Done() < done+tr.PerEpoch(); {
			if tr.Due() {
				t.Fatalf("step %d is due", tr.Done())
			}
			must.Get(tr.Step(t.Context()))(t)
		}
		if !tr.Due() {
			t.Fatalf("step %d is not due", tr.Done())
		}
	}
	epoch()
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Watch(stopped, held); err == nil || !tr.Due() {
		t.Errorf("a stopped judgement: %v", err)
	}
	if first := must.Get(tr.Watch(t.Context(), held))(t); first.Back || first.Epoch != 1 || first.Images != 32 {
		t.Errorf("%+v", first)
	}
	good := tr.state()
	tr.epochs[0].Through = 1 // as if it had withstood everything
	epoch()
	path := filepath.Join(t.TempDir(), "checkpoint")
	must.Do(t, tr.Save(path, nil))
	tr = trainer(t, small(t, "unet", n, 2), []Network{n}, data, s)
	must.Do(t, tr.Restore(must.Get(ReadCheckpoint(path))(t)))
	if !tr.Due() {
		t.Error("the epoch is not judged after the training was continued")
	}
	second := must.Get(tr.Watch(t.Context(), held))(t)
	if !second.Back || tr.Due() || !reflect.DeepEqual(tr.state(), good) || tr.stepSize() != 0.75*0.04 {
		t.Errorf("%+v, after step %d, steps of %v", second, tr.Done(), tr.stepSize())
	}
	for range mostBack - 1 {
		epoch()
		must.Get(tr.Watch(t.Context(), held))(t)
	}
	epoch()
	must.Refuse(t, must.Err(tr.Watch(t.Context(), held)), "search with more steps or a smaller epsilon")
}

// A training is astray if it has too few images right when the weight has fallen, and is asked only then.
func TestAstray(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	data, held := shapes10(t, 52).Split(40, 1)
	tr := trainer(t, small(t, "conv2-ae", n, 2), []Network{n}, data, Settings{Epochs: 340 / 12, Batch: 1, Weight: 1})
	at := int(Settled * float64(tr.Steps()))
	for steps, want := range map[int]bool{at - 1: false, at: true, at + 1: false} {
		tr.history = make([]Loss, steps)
		if got := must.Get(tr.Astray(t.Context(), held))(t); got != want {
			t.Errorf("after step %d: %v", steps, got)
		}
	}
	tr.history = make([]Loss, at)
	for k := range tr.history {
		tr.history[k].Accuracy = 0.6
	}
	if must.Get(tr.Astray(t.Context(), held))(t) {
		t.Error("six of ten right, of a network that has nearly all, are astray")
	}
}
