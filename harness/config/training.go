package config

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/control/train"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/internal/setting"
)

var (
	optimizers      = lists.Map(train.Optimizers, func(o train.OptimizerSpec) string { return string(o.Name) })
	schedules       = lists.Map(train.Schedules, func(s train.ScheduleSpec) string { return string(s.Name) })
	draws           = []string{string(train.EachStep), string(train.EachEpoch)}
	reconstructions = []string{string(train.Sum), string(train.MeanValue)}
	objectives      = []string{string(train.Clean), string(train.Denoising), string(train.Gaussian),
		string(train.Adversarial), reconstruction}

	embeddingKinds = lists.Map(control.EmbeddingKinds, func(k control.EmbeddingKind) string { return k.Name })
)

const reconstruction = "reconstruction" // another name of the objective clean

// Training says how to fit an embedding of kind autoencoder. A run only reads the file at Path.
type Training struct {
	Path         string // the embedding's file, for Config.Files
	Fit          string // name of the data set
	Architecture string // a built-in embedding function; "" with Start
	train.Dimensions
	Start string // file of an embedding to begin with; "" with Architecture
	train.Settings
	Models []string
	Seed   uint64 // default: the config's
	// Restarts is how often a training that goes astray is begun anew, each time from the next seed; 0: it goes on.
	Restarts int
	HeldOut  *int      // images that judge it and take no part; nil: see [Training.Judges]
	IsAlong  bool      // it trains along with another, which knows it as Along
	Along    *Training // the embedding that trains along with this one; nil if none does
}

// ofNetwork lists the keys of a training that one of kind along has, too.
var ofNetwork = []string{"architecture", "width", "stages", "refine", "coarse", "sizes", "start", "weight",
	"reconstruction"}

// mostHeldOut is how many images judge an embedding unless the config says how many.
const mostHeldOut = 512

// Judges returns how many of a data set's images are held back from training, to judge the embedding.
func (t *Training) Judges(images int) int {
	if t.HeldOut != nil {
		return *t.HeldOut
	}
	return min(images/10, mostHeldOut)
}

// rows returns the keys of a training that other embeddings do not have.
func (t *Training) rows() []row {
	return []row{
		required("epochs", count(&t.Epochs), "passes through the data set"),
		optional("architecture", choice(&t.Architecture, train.Architectures()), "", "a built-in embedding"),
		optional("width", count(&t.Width), "", "channels of its first layer; default: its own"),
		optional("stages", count(&t.Stages), "", "halvings of `unet`; default: 3"),
		optional("refine", count(&t.Refine), "", "convolutions of `unet` after each transposed one; default: none"),
		optional("coarse", count(&t.Coarse), "", "side of the squares by whose means `unet` begins; default: none"),
		optional("sizes", list(&t.Sizes, span{least: 1}, count), "",
			"values of the layers of `mlp-ae` down to the code; the state's may stand first"),
		optional("start", file(&t.Start), "", "an ONNX embedding to begin with instead"),
		optional("batch", count(&t.Batch), "128", "images a step"),
		optional("weight", decimal(&t.Weight, setting.NotNegative), "0.1",
			"weight of ‖E(x) − x‖² beside the cross-entropy"),
		optional("weight_start", decimal(&t.WeightStart, setting.Positive), "",
			"that weight at the first step; it falls to `weight` over the first 30 % of the steps"),
		optional("reconstruction", choice((*string)(&t.Reconstruction), reconstructions), string(train.Sum),
			"‖E(x) − x‖² as the sum over the state's values (Eq. 4) or their mean (the authors' program)"),
		optional("optimizer", t.optimizer().value(), "{}", "how the loss is minimised"),
		optional("schedule", t.schedule(), "cosine", "schedule of the learning rate"),
		optional("lr_warmup", decimal(&t.RateWarmup, setting.BelowOne), "0",
			"fraction of the steps over which the learning rate climbs, before its schedule"),
		optional("clip", decimal(&t.Clip, setting.Positive), "", "largest norm of a step's gradient; default: any"),
		optional("average", decimal(&t.Average, setting.BelowOne), "0",
			"the embedding is an average of the weights over the steps, m ← a·m + (1 − a)·p, not the last ones"),
		optional("augment", t.augment().value(), "", "random changes of the images"),
		optional("held_out", t.heldOut(), "",
			"images of `fit` that are kept out of training and judge the embedding; default: a tenth, 512 at most"),
		optional("objective", t.objective(), string(train.Clean),
			"clean: Eq. 4. denoising: the largest loss in an ℓ∞ ball. gaussian: images under noise, for smoothing. "+
				"adversarial: the worst image of a ball, through the controlled network"),
		optional("models", names(&t.Models, "a model", "models", 1), "",
			"networks that share it; default: those of the control's suites"),
		optional("draw", choice((*string)(&t.Draw), draws), string(train.EachStep), "how often one of them is drawn"),
		optional("seed", seed(&t.Seed), "", "default: the config's"),
		optional("restarts", whole(&t.Restarts, orNone), "3",
			"how often a training of objective clean that goes astray begins anew, from the next seed").notHashed(),
	}
}

func (t *Training) heldOut() value {
	n := 0
	return whole(&n, orNone).then(func(*decoder, *node, string) { t.HeldOut = &n })
}

func (t *Training) augment() object {
	return object{rows: []row{
		optional("flip", boolean(&t.Flip), "false", "mirror them"),
		optional("crop", whole(&t.Crop, orNone), "0", "shift them by so many pixels"),
	}}
}

// checkWeights checks that a weight that falls, by equal factors, falls to one above 0.
func (t *Training) checkWeights(d *decoder, n *node, where string) {
	switch {
	case t.Weight > 0:
	case t.WeightStart > 0:
		d.fail(n.pos, "%s.weight_start goes with a weight above 0", where)
	case t.WeightEnd > 0:
		d.fail(n.pos, "%s.objective.weight_end goes with a weight above 0", where)
	}
}

// checkReach checks that some image is perturbed by all of epsilon.
func (t *Training) checkReach(d *decoder, n *node, where string) {
	if after := t.Warmup + t.Ramp; t.Objective == train.Adversarial && after >= float64(t.Epochs) {
		d.fail(n.pos, "%s.objective has its epsilon after %v epochs of warmup and ramp, and trains for %d", where,
			after, t.Epochs)
	}
}

// checkDimensions checks that the architecture has the dimensions that a mapping gives.
func (t *Training) checkDimensions(d *decoder, n *node, where string) {
	given := slices.DeleteFunc(slices.Clone(train.DimensionKeys), func(key string) bool { return n.get(key) == nil })
	for _, key := range given {
		if n.get("start") != nil {
			d.fail(n.get(key).pos, "%s.%s is for an architecture; the embedding that start names has its own", where,
				key)
		} else if err := train.Takes(t.Architecture, key, given); err != nil {
			d.fail(n.get(key).pos, "%s.%s %v", where, key, err)
		}
	}
}

// schedule reads a name, or a mapping.
func (t *Training) schedule() value {
	o := object{forms: formsBy("kind", schedules), rows: []row{
		required("kind", choice((*string)(&t.Schedule), schedules), "which schedule"),
	}}
	for _, spec := range train.Schedules {
		if spec.Drops == nil {
			continue
		}
		share := func(v *float64) value { return decimal(v, setting.Fraction) }
		usual := strings.ReplaceAll(fmt.Sprint(spec.Drops), " ", ", ")
		at := optional("at", list(&t.Drops, span{least: 1}, share), usual,
			"fractions of the steps after each of which the rate falls to a tenth").in(string(spec.Name))
		at.applied = true
		o.rows = append(o.rows, at)
	}
	return either("a name, or a mapping", choice((*string)(&t.Schedule), schedules), o.value())
}

func (t *Training) optimizer() object {
	rate, momentum := decimal(&t.LearningRate, setting.Positive), decimal(&t.Momentum, setting.BelowOne)
	o := object{forms: formsBy("kind", optimizers), rows: []row{
		optional("kind", choice((*string)(&t.Optimizer), optimizers), optimizers[0], "which optimiser"),
	}}
	var momenta []row
	for i, spec := range train.Optimizers {
		o.forms[i].why = spec.NoMomentum
		of := optional("lr", rate, number.Format(spec.LearningRate), "learning rate at the start").in(optimizers[i])
		o.rows = append(o.rows, of)
		if spec.NoMomentum == "" {
			of = optional("momentum", momentum, number.Format(spec.Momentum), "momentum of the steps").in(optimizers[i])
			momenta = append(momenta, of)
		}
	}
	decay := decimal(&t.WeightDecay, setting.NotNegative)
	o.rows = append(append(o.rows, momenta...), optional("weight_decay", decay, "0", "pull of the weights towards 0"))
	return o
}

func (t *Training) objectiveObject() object {
	const denoising, gaussian, adversarial = string(train.Denoising), string(train.Gaussian), string(train.Adversarial)
	norm := func(v any) { t.Norm, _ = attacks.ParseNorm(v.(string)) }
	trained := []string{attacks.Linf.String(), attacks.L2.String(), attacks.L1.String()}
	return object{forms: formsBy("kind", objectives), rows: []row{
		required("kind", t.objectiveName(),
			"which objective; reconstruction is another name of clean"),
		required("epsilon", decimal(&t.Epsilon, setting.Positive),
			"radius of the ball, ℓ∞ for denoising, in pixel units of [0,1]").in(denoising, adversarial),
		required("norm", of(setting.Setting{Type: setting.Choice, Choices: trained}, norm), "norm of the ball").
			in(adversarial),
		optional("steps", count(&t.Steps), "7", "steps of the inner maximisation").in(denoising),
		optional("steps", count(&t.Steps), "1", "steps of PGD from a random start; one is fast training").
			in(adversarial),
		optional("step_size", decimal(&t.StepSize, setting.Positive), "",
			"size of these steps; default: epsilon/4, or 1.25·epsilon for a single one").in(denoising, adversarial),
		required("sigma", decimal(&t.Sigma, setting.Positive),
			"deviation of the noise, in pixel units of [0,1]").in(gaussian),
		optional("loss", choice((*string)(&t.Loss), []string{string(train.MSE), string(train.Stability)}),
			string(train.MSE), "mse: weight·‖E(x+η) − x‖². stability: that, and the cross-entropy with the network's "+
				"answer to x").in(gaussian),
		optional("loss", choice((*string)(&t.Loss), []string{string(train.CrossEntropy), string(train.TRADES)}),
			string(train.CrossEntropy), "ce: cross-entropy of the perturbed image. trades: of the clean one, and beta "+
				"times the divergence of the answers to both").in(adversarial),
		optional("beta", decimal(&t.Beta, setting.Positive), "", "of trades; default: 6").in(adversarial),
		optional("warmup", decimal(&t.Warmup, setting.NotNegative), "0", "epochs without perturbation").in(adversarial),
		optional("ramp", decimal(&t.Ramp, setting.NotNegative), "0",
			"epochs after these over which epsilon grows from 0").in(adversarial),
		optional("weight_end", decimal(&t.WeightEnd, setting.Positive), "",
			"what `weight` goes on to over the ramp; default: it stays").in(adversarial),
		optional("joint", boolean(&t.Joint), "false",
			"train the control's embedding of kind along by the same steps").in(adversarial),
	}, check: func(d *decoder, n *node, where string) {
		if t.StepSize == 0 {
			if t.StepSize = t.Epsilon / 4; t.Objective == train.Adversarial && t.Steps == 1 {
				t.StepSize = 1.25 * t.Epsilon
			}
		}
		if t.Objective == train.Denoising || t.Objective == train.Adversarial {
			withinReach(d, n, where, t.Norm, t.Epsilon)
		}
		if t.Objective == train.Gaussian && t.Sigma > 1 {
			d.fail(n.pos, "%s: sigma is %v, and pixels lie in [0,1]; did you mean %v/255?", where, t.Sigma, t.Sigma)
		}
		if t.Loss != train.TRADES && t.Beta > 0 {
			d.fail(n.pos, "%s: beta is for loss: trades", where)
		} else if t.Loss == train.TRADES && t.Beta == 0 {
			t.Beta = 6
		}
	}}
}

func (t *Training) objectiveName() value {
	return choice((*string)(&t.Objective), objectives).then(func(*decoder, *node, string) {
		if t.Objective == reconstruction {
			t.Objective = train.Clean
		}
	})
}

// objective reads the name clean, or a mapping.
func (t *Training) objective() value {
	name := t.objectiveName().then(func(d *decoder, n *node, where string) {
		switch t.Objective {
		case train.Denoising:
			d.fail(n.pos, "%s denoising needs a radius; write {kind: denoising, epsilon: 8/255}", where)
		case train.Gaussian:
			d.fail(n.pos, "%s gaussian needs a deviation; write {kind: gaussian, sigma: 0.25}", where)
		case train.Adversarial:
			d.fail(n.pos, "%s adversarial needs a ball; write {kind: adversarial, norm: linf, epsilon: 8/255}", where)
		}
	})
	name.schema = func() schema { return schema{"const": string(train.Clean)} }
	return either("`clean`, or a mapping", name, t.objectiveObject().value())
}
