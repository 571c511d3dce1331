package config

import (
	"selfheal/control/train"
	"selfheal/internal/setting"
)

// What a training minimises.
const (
	CleanObjective     = "clean"     // Eq. 4 on clean images
	DenoisingObjective = "denoising" // min over the embedding, max over an ℓ∞ ball around the image
)

// The optimisers and the schedules of their learning rate.
var (
	optimizers = []string{"adam", "sgd"}
	schedules  = []string{"cosine", "step", "constant"}
)

// Training says how an embedding of kind autoencoder is fitted. A run reads the file at
// Path and nothing else of it.
type Training struct {
	Path         string // where the embedding goes; for Config.Files
	Fit          string // the data set
	Architecture string // a built-in embedding function; "" with Start
	Width        int    // of its first layer; 0: the architecture's own
	Start        string // an embedding to begin with; "" with Architecture
	Epochs       int
	Batch        int     // default 128
	Weight       float64 // of ‖E(x) − x‖² beside the cross-entropy, default 0.1
	Optimizer    string  // one of [Optimizers], default adam
	LearningRate float64 // default 0.001 (adam), 0.01 (sgd)
	Momentum     float64 // sgd; default 0.9
	WeightDecay  float64 // default 0
	Schedule     string  // one of [Schedules], default cosine
	Flip         bool    // images mirrored at random
	Crop         int     // pixels that images are shifted by at random, at most
	Objective    string  // clean, the default, or denoising
	Epsilon      float64 // denoising: radius of the ball
	Steps        int     // denoising: of the inner maximisation, default 7
	StepSize     float64 // denoising: default ε/4
	Models       []string
	Seed         uint64 // default: the config's
	seeded       bool
}

// rows are the keys that a training has beside those of other embeddings.
func (t *Training) rows() []row {
	return []row{
		required("epochs", whole(&t.Epochs, setting.Count), "passes through the data set"),
		optional("architecture", choice(&t.Architecture, train.Architectures()), "", "a built-in embedding"),
		optional("width", whole(&t.Width, setting.Count), "", "channels of the architecture's first layer; default: its own"),
		optional("start", file(&t.Start), "", "an ONNX embedding to begin with, instead of `architecture`"),
		optional("batch", whole(&t.Batch, setting.Count), "128", "images a step"),
		optional("weight", decimal(&t.Weight, setting.NotNegative), "0.1", "of ‖E(x) − x‖² beside the cross-entropy"),
		optional("optimizer", t.optimizer().value(), "{}", "how the loss is minimised"),
		optional("schedule", choice(&t.Schedule, schedules), "cosine", "of the learning rate"),
		optional("augment", t.augment().value(), "", "random changes of the images"),
		optional("objective", t.objective(), CleanObjective, "clean: Eq. 4 on clean images. denoising: the largest loss in an ℓ∞ "+
			"ball around each image"),
		optional("models", names(&t.Models, "a model", "models", 1), "",
			"networks that share the embedding; default: those of the suites that use the control"),
		optional("seed", seed(&t.Seed), "", "default: the config's"),
	}
}

func (t *Training) augment() object {
	return object{rows: []row{
		optional("flip", boolean(&t.Flip), "false", "mirror them"),
		optional("crop", whole(&t.Crop, orNone), "0", "shift them by so many pixels at most"),
	}}
}

func (t *Training) optimizer() object {
	forms := formsBy("kind", optimizers)
	forms[0].why = "its averages are fixed at 0.9 and 0.999"
	rate := decimal(&t.LearningRate, setting.Positive)
	return object{forms: forms, rows: []row{
		optional("kind", choice(&t.Optimizer, optimizers), optimizers[0], "which optimiser"),
		optional("lr", rate, "0.001", "learning rate at the start").in("adam"),
		optional("lr", rate, "0.01", "learning rate at the start").in("sgd"),
		optional("momentum", decimal(&t.Momentum, setting.BelowOne), "0.9", "of the steps").in("sgd"),
		optional("weight_decay", decimal(&t.WeightDecay, setting.NotNegative), "0", "pull of the weights towards 0"),
	}}
}

var objectives = []string{CleanObjective, DenoisingObjective}

func (t *Training) objectiveObject() object {
	return object{forms: formsBy("kind", objectives), rows: []row{
		required("kind", choice(&t.Objective, objectives), "which objective"),
		required("epsilon", decimal(&t.Epsilon, setting.Positive), "radius of the ℓ∞ ball, in pixel units of [0,1]").in(DenoisingObjective),
		optional("steps", whole(&t.Steps, setting.Count), "7", "of the inner maximisation").in(DenoisingObjective),
		optional("step_size", decimal(&t.StepSize, setting.Positive), "", "of the inner maximisation; default: epsilon/4").in(DenoisingObjective),
	}, check: func(*decoder, *node, string) {
		if t.StepSize == 0 {
			t.StepSize = t.Epsilon / 4
		}
	}}
}

// objective is the name clean, or a mapping.
func (t *Training) objective() value {
	mapping, kind := t.objectiveObject(), choice(&t.Objective, objectives)
	name := custom("clean", schema{"const": CleanObjective}, nil)
	return either("`clean`, or a mapping", name, mapping.value(), func(d *decoder, n *node, where string) {
		if n.kind != scalarNode {
			mapping.decode(d, n, where)
			return
		}
		if kind.decode(d, n, where); t.Objective == DenoisingObjective {
			d.fail(n.pos, "%s denoising needs a radius; write {kind: denoising, epsilon: 8/255}", where)
		}
	})
}
