package config

import (
	"reflect"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/train"
	"selfheal/internal/must"
)

// asTraining returns small with a training in place of its linear embedding.
func asTraining(keys string) string {
	return strings.Replace(small, "{kind: linear, fit: test, variance: 0.99}", "{kind: autoencoder, "+keys+"}", 1)
}

func TestTraining(t *testing.T) {
	for _, c := range []struct {
		keys   string
		change func(t *Training) // of the defaults
	}{
		{"architecture: conv-ae, epochs: 3", func(t *Training) { t.Architecture, t.Epochs = "conv-ae", 3 }},
		{"start: s.onnx, epochs: 3, batch: 64, weight: 1/2, schedule: step, models: [net], seed: 5, " +
			"optimizer: {kind: sgd, weight_decay: 0.1}, augment: {flip: true, crop: 4}, " +
			"objective: {kind: denoising, epsilon: 0.1}", func(t *Training) {
			t.Start, t.Models, t.Seed = "s.onnx", []string{"net"}, 5
			t.Settings = train.Settings{Epochs: 3, Batch: 64, Weight: 0.5, Reconstruction: "sum", Draw: "step",
				Optimizer: "sgd", LearningRate: 0.01, Momentum: 0.9, WeightDecay: 0.1, Schedule: "step",
				Augment: train.Augment{Flip: true, Crop: 4}, Objective: "denoising", Epsilon: 0.1, Steps: 7,
				StepSize: 0.025}
		}},
		{"architecture: fcn, width: 8, epochs: 1, optimizer: {lr: 0.1}, objective: clean, schedule: constant",
			func(t *Training) {
				t.Architecture, t.Width, t.LearningRate, t.Schedule = "fcn", 8, 0.1, "constant"
			}},
		{"architecture: unet, width: 8, stages: 4, refine: 2, epochs: 1, reconstruction: mean, draw: epoch, " +
			"schedule: {kind: step, at: [0.75, 0.95]}", func(t *Training) {
			t.Architecture, t.Width, t.Stages, t.Refine, t.Reconstruction, t.Draw = "unet", 8, 4, 2, "mean", "epoch"
			t.Schedule, t.Drops = "step", []float64{0.75, 0.95}
		}},
		{"architecture: unet, epochs: 1, weight_start: 1, lr_warmup: 0.2, clip: 1, average: 0.99, restarts: 0, " +
			"objective: {kind: adversarial, norm: l2, epsilon: 0.5, ramp: 0.25, warmup: 0.5, weight_end: 0.01, " +
			"loss: trades}",
			func(t *Training) {
				t.Architecture, t.Restarts, t.WeightStart, t.RateWarmup, t.Clip, t.Average = "unet", 0, 1, 0.2, 1, 0.99
				t.Objective, t.Norm, t.Epsilon, t.Steps, t.StepSize = "adversarial", attacks.L2, 0.5, 1, 0.625
				t.Warmup, t.Ramp, t.WeightEnd, t.Loss, t.Beta = 0.5, 0.25, 0.01, "trades", 6
			}},
		{"architecture: fcn, epochs: 1, objective: {kind: reconstruction}",
			func(t *Training) { t.Architecture = "fcn" }},
		{"architecture: mlp-ae, sizes: [512, 384, 256], epochs: 1, schedule: {kind: step}", func(t *Training) {
			t.Architecture, t.Sizes, t.Schedule = "mlp-ae", []int{512, 384, 256}, "step"
		}},
	} {
		e := mustParse(t, asTraining("fit: test, path: ./e.onnx, "+c.keys), "seed=4").Control("pca").Layers[0].Embedding
		if e.Kind != control.ONNX || e.Fit != "test" || e.Path != "e.onnx" {
			t.Errorf("a run sees %+v", e)
		}
		want := Training{Path: "e.onnx", Fit: "test", Seed: 4, Restarts: 3, Settings: train.Settings{Epochs: 1,
			Batch: 128, Weight: 0.1, Reconstruction: "sum", Draw: "step", Optimizer: "adam", LearningRate: 0.001,
			Schedule: "cosine", Objective: "clean"}}
		if c.change(&want); !reflect.DeepEqual(*e.Training, want) {
			t.Errorf("%s\nis %+v\nwant %+v", c.keys, *e.Training, want)
		}
	}
	if e := mustParse(t, small).Control("pca").Layers[0].Embedding; e.Training != nil {
		t.Errorf("a linear embedding has the training %+v", e.Training)
	}
}

// An embedding that trains along and the one that it trains along with know each other; neither stands alone.
func TestJointTraining(t *testing.T) {
	t.Parallel()
	const front = `{kind: autoencoder, fit: test, path: f.onnx, architecture: unet, epochs: 1,
          objective: {kind: adversarial, norm: l2, epsilon: 1, joint: JOINT}}`
	const along = "{kind: along, path: l.onnx, architecture: mlp-ae, weight: 0.02}"
	control := func(joint string, layers ...string) string {
		text := "controls:\n  pca:\n    layers:\n"
		for _, l := range layers {
			text += "      - {" + l + "}\n"
		}
		before, after, _ := strings.Cut(small, "controls:\n")
		_, rest, _ := strings.Cut(after, "\nattacks:")
		return before + strings.ReplaceAll(text, "JOINT", joint) + "attacks:" + rest
	}
	both := mustParse(t, control("true", "at: input, embedding: "+front, "at: last, embedding: "+along))
	layers := both.Control("pca").Layers
	first, second := layers[0].Embedding.Training, layers[1].Embedding.Training
	if first.Along != second || first.JointWeight != 0.02 || second.Fit != "test" {
		t.Errorf("%+v, %+v", first, second)
	}
	const want = "joint training takes a control of two embeddings"
	for _, text := range []string{
		control("true", "at: input, embedding: "+front),
		control("true", "at: 1, embedding: "+front, "at: last, embedding: "+along),
		control("false", "at: input, embedding: "+front, "at: last, embedding: "+along),
		control("true", "at: input, embedding: "+front, "at: last, embedding: "+along,
			"at: 1, embedding: {kind: identity}"),
	} {
		_, err := parse(text)
		must.Refuse(t, err, want)
	}
	_, err := parse(control("true", "at: input, embedding: "+front, "at: last, embedding: {kind: along, path: l.onnx, "+
		"architecture: mlp-ae, epochs: 2}"))
	must.Refuse(t, err, "epochs", "kind along")
}

func TestTrainingErrors(t *testing.T) {
	t.Parallel()
	const usual = "fit: test, path: e.onnx, architecture: fcn, epochs: 1, "
	for _, c := range [][2]string{
		{"fit: test, path: e.onnx, epochs: 1", "20 embedding needs architecture or start"},
		{"fit: test, path: e.onnx, epochs: 1, architecture: fcn, start: s.onnx", "102 either architecture or start"},
		{"fit: test, path: e.onnx, epochs: 1, start: s.onnx, width: 3", "98 embedding.width for an architecture"},
		{"fit: test, path: e.onnx, architecture: fcn", `20 lacks the key "epochs"`},
		{"fit: tset, path: e.onnx, architecture: fcn, epochs: 1", `45 names "tset" mean "test"`},
		{"fit: test, path: e.onnx, architecture: fnc, epochs: 1", `79 "fnc" mean "fcn"`},
		{usual + "models: [nett]", `104 names "nett" not in models`},
		{usual + "epoch: 2", `95 unknown key "epoch"`},
		{usual + "optimizer: {momentum: 0.5}", "107 momentum kind adam averages are fixed at 0.9 and 0.999"},
		{usual + "optimizer: {kind: rmsprop}", "113 one of adam, sgd"},
		{usual + "objective: denoising", "106 write {kind: denoising, epsilon: 8/255}"},
		{usual + "objective: {kind: denoising, epsilon: 8}",
			"133 epsilon is 8, but in linf nothing is farther than 1 mean 8/255"},
		{usual + "objective: {kind: adversarial, norm: linf, epsilon: 2}", "147 nothing is farther than 1 mean 2/255"},
		{usual + "objective: {kind: clean, epsilon: .1}", "120 objective.epsilon kind clean"},
		{usual + "stages: 2", "103 embedding.stages is for architecture unet not for fcn"},
		{usual + "refine: 2", "103 embedding.refine is for architecture unet not for fcn"},
		{usual + "coarse: 4", "103 embedding.coarse is for architecture unet not for fcn"},
		{"fit: test, path: e.onnx, architecture: unet, epochs: 1, refine: 0", "104 from 1 up"},
		{usual + "sizes: [8, 4]", "102 embedding.sizes is for architecture mlp-ae not for fcn"},
		{"fit: test, path: e.onnx, epochs: 1, architecture: mlp-ae, width: 2, sizes: [8, 4]", "105 last of sizes"},
		{usual + "schedule: {kind: cosine, at: [0.5]}", "120 at kind cosine"},
		{usual + "schedule: {kind: step, at: [2]}", "123 above 0 and up to 1"},
		{usual + "objective: adversarial", "106 write {kind: adversarial, norm: linf, epsilon: 8/255}"},
		{usual + "objective: {kind: adversarial, epsilon: .1}", `106 lacks the key "norm"`},
		{usual + "objective: {kind: adversarial, norm: l0, epsilon: .1}", `132 one of linf, l2, l1`},
		{usual + "objective: {kind: adversarial, norm: l2, epsilon: 1, beta: 2}", "106 beta is for loss: trades"},
		{usual + "objective: {kind: adversarial, norm: l2, epsilon: 1, ramp: -1}", "154 from 0 up"},
		{usual + "objective: {kind: adversarial, norm: l2, epsilon: 1, warmup: 1, ramp: 1}",
			"20 epsilon after 2 epochs"},
		{usual + "objective: {kind: gaussian, sigma: 25}", "106 did you mean 25/255?"},
		{usual + "objective: {kind: denoising, epsilon: 1, ramp: 1}", "136 ramp kind denoising"},
		{usual + "weight: 0, weight_start: 1", "20 weight_start goes with a weight above 0"},
		{usual + "average: 1", "104 from 0 up and below 1"},
		{usual + "clip: 0", "101 above 0"},
		{usual + "reconstruction: average", "111 one of sum, mean"},
		{usual + "variance: 0.9", "95 variance kind autoencoder"},
	} {
		_, err := parse(asTraining(c[0]))
		checkError(t, c[0], err, "16:"+c[1])
	}
}
