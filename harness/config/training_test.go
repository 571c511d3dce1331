package config

import (
	"reflect"
	"strings"
	"testing"
)

// asTraining is small's linear embedding as a training.
func asTraining(keys string) string {
	return strings.Replace(small, "{kind: linear, fit: test, variance: 0.99}", "{kind: autoencoder, "+keys+"}", 1)
}

func TestTraining(t *testing.T) {
	for _, c := range []struct {
		keys string
		want Training
	}{
		{"fit: test, path: ./e.onnx, architecture: conv-ae, epochs: 3", Training{Path: "e.onnx", Fit: "test", Architecture: "conv-ae", Epochs: 3,
			Batch: 128, Weight: 0.1, Optimizer: "adam", LearningRate: 0.001, Schedule: "cosine", Objective: "clean"}},
		{"fit: test, path: e.onnx, start: s.onnx, epochs: 3, batch: 64, weight: 1/2, optimizer: {kind: sgd, weight_decay: 0.1}, schedule: step, augment: {flip: true, crop: 4}, objective: {kind: denoising, epsilon: 0.1}, models: [net], seed: 5",
			Training{Path: "e.onnx", Fit: "test", Start: "s.onnx", Epochs: 3, Batch: 64, Weight: 0.5, Optimizer: "sgd", LearningRate: 0.01, Momentum: 0.9, WeightDecay: 0.1,
				Schedule: "step", Flip: true, Crop: 4, Objective: "denoising", Epsilon: 0.1, Steps: 7, StepSize: 0.025, Models: []string{"net"}, Seed: 5, seeded: true}},
		{"fit: test, path: e.onnx, architecture: fcn, width: 8, epochs: 1, optimizer: {lr: 0.1}, objective: clean, schedule: constant",
			Training{Path: "e.onnx", Fit: "test", Architecture: "fcn", Width: 8, Epochs: 1, Batch: 128, Weight: 0.1, Optimizer: "adam", LearningRate: 0.1,
				Schedule: "constant", Objective: "clean"}},
	} {
		cfg := mustParse(t, asTraining(c.keys))
		e := cfg.Control("pca").Layers[0].Embedding
		if e.Kind != ONNX || e.Fit != "test" || e.Path != "e.onnx" {
			t.Errorf("a run sees %+v", e)
		}
		if !c.want.seeded {
			c.want.Seed = cfg.Seed
		}
		if !reflect.DeepEqual(*e.Training, c.want) {
			t.Errorf("%s\nis %+v\nwant %+v", c.keys, *e.Training, c.want)
		}
	}
	if e := mustParse(t, small).Control("pca").Layers[0].Embedding; e.Training != nil {
		t.Errorf("a linear embedding has the training %+v", e.Training)
	}
	text := asTraining("fit: test, path: e.onnx, architecture: fcn, epochs: 1")
	c := mustParse(t, text, "controls.pca.layers.0.embedding.epochs=9")
	if n := c.Control("pca").Layers[0].Embedding.Training.Epochs; n != 9 {
		t.Errorf("--set leaves %d epochs", n)
	}
}

func TestTrainingErrors(t *testing.T) {
	for keys, want := range map[string]string{
		"fit: test, path: e.onnx, epochs: 1":                                                           "needs architecture (such as conv-ae) or start",
		"fit: test, path: e.onnx, epochs: 1, architecture: fcn, start: s.onnx":                         "either architecture or start, not both",
		"fit: test, path: e.onnx, epochs: 1, start: s.onnx, width: 3":                                  "width is for an architecture",
		"fit: test, path: e.onnx, architecture: fcn":                                                   `lacks the key "epochs"`,
		"fit: tset, path: e.onnx, architecture: fcn, epochs: 1":                                        `did you mean "test"?`,
		"fit: test, path: e.onnx, architecture: fcn, epochs: 1, models: [nett]":                        "which is not in models",
		"fit: test, path: e.onnx, architecture: fcn, epochs: 1, epoch: 2":                              `unknown key "epoch"`,
		"fit: test, path: e.onnx, architecture: fcn, epochs: 1, optimizer: {momentum: 0.5}":            "can't be given with adam",
		"fit: test, path: e.onnx, architecture: fcn, epochs: 1, optimizer: {kind: rmsprop}":            "must be one of adam, sgd",
		"fit: test, path: e.onnx, architecture: fcn, epochs: 1, objective: denoising":                  "write {kind: denoising, epsilon: 8/255}",
		"fit: test, path: e.onnx, architecture: fcn, epochs: 1, objective: {kind: clean, epsilon: .1}": `unknown key "epsilon"`,
		"fit: test, path: e.onnx, architecture: fcn, epochs: 1, variance: 0.9":                         `unknown key "variance"`,
	} {
		_, err := parse(asTraining(keys))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "config.yaml:16:") {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}
