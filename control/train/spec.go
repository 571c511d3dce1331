package train

import (
	"math"

	"selfheal/attacks"
	"selfheal/models/ort"
)

// Optimizer names an optimiser, as PyTorch defines it; "" is SGD.
type Optimizer string

// The optimisers.
const (
	Adam Optimizer = "adam"
	SGD  Optimizer = "sgd"
)

// OptimizerSpec is a row of [Optimizers].
type OptimizerSpec struct {
	Name                   Optimizer
	LearningRate, Momentum float64 // defaults
	NoMomentum             string  // why it takes no momentum; "" if it takes one
}

// Optimizers is the table of optimisers.
var Optimizers = []OptimizerSpec{
	{Adam, 0.001, 0, "its averages are fixed at 0.9 and 0.999"}, // Kingma & Ba 2015, bias corrected
	{SGD, 0.01, 0.9, ""}, // v ← μ·v + g, p ← p − lr·v
}

// Schedule names the course of the learning rate over a training; "" is constant.
type Schedule string

// The schedules.
const (
	Cosine   Schedule = "cosine"
	Step     Schedule = "step"
	Constant Schedule = "constant"
)

// ScheduleSpec is a row of [Schedules].
type ScheduleSpec struct {
	Name Schedule
	// default of Drops, if the schedule has them: fractions of the steps
	Drops []float64
	rate  func(drops []float64, k, all int) float64 // factor of the learning rate at step k of all, k from 0
}

// Schedules is the table of schedules.
var Schedules = []ScheduleSpec{
	{Cosine, nil, func(_ []float64, k, all int) float64 { // Loshchilov & Hutter 2017
		return (1 + math.Cos(math.Pi*float64(k)/float64(max(all, 1)))) / 2
	}},
	{Step, []float64{0.5, 0.75}, func(drops []float64, k, all int) float64 {
		factor := 1.0
		for _, at := range drops {
			if float64(k) >= at*float64(all) {
				factor /= 10
			}
		}
		return factor
	}},
	{Constant, nil, func([]float64, int, int) float64 { return 1 }},
}

// rate returns the factor of the learning rate at step k of all, k from 0.
func (s Settings) rate(k, all int) float64 {
	warm := int(math.Ceil(s.RateWarmup * float64(all)))
	if k < warm {
		return float64(k+1) / float64(warm)
	}
	k, all = k-warm, all-warm
	for _, row := range Schedules {
		if row.Name == s.Schedule {
			drops := s.Drops
			if drops == nil {
				drops = row.Drops
			}
			return row.rate(drops, k, all)
		}
	}
	return 1
}

// Reconstruction names the way to count ‖E(x) − x‖² in the weighted loss; "" is sum.
type Reconstruction string

// The ways to count it: the sum over a state's values, as Eq. 4 prints it, or their mean, as its authors' program has
// it. The mean makes the same weight smaller by the number of values.
const (
	Sum       Reconstruction = "sum"
	MeanValue Reconstruction = "mean"
)

// Draw says how often a training with several networks draws one; "" is each step.
type Draw string

// The ways to draw networks.
const (
	EachStep  Draw = "step"
	EachEpoch Draw = "epoch"
)

// Objective names the loss that a training minimises; "" is clean.
type Objective string

// The objectives.
const (
	Clean     Objective = "clean"     // the paper's Eq. 4
	Denoising Objective = "denoising" // Eq. 4 on the worst image of an ℓ∞ ball; E finds its clean state
	Gaussian  Objective = "gaussian"  // clean states of images under Gaussian noise (Salman et al. 2020)
	// Adversarial training of the embedding in front of the frozen network (Madry et al. 2018): the loss on the worst
	// image of a ball, which is looked for through both.
	Adversarial Objective = "adversarial"
)

// LossName names the loss of an objective.
type LossName string

// The losses of objective gaussian, "" is mse: those of denoised smoothing, sections 3.1 and 3.2. MSE is
// weight·‖E(x+η) − x‖² alone; Stability adds the cross-entropy against the network's own answer to the clean image.
const (
	MSE       LossName = "mse"
	Stability LossName = "stability"
)

// The losses of objective adversarial, "" is ce: the cross-entropy of the perturbed image, or TRADES (Zhang et al.
// 2019, Eq. 5): the cross-entropy of the clean image and beta times the Kullback-Leibler divergence of the answers to
// both.
const (
	CrossEntropy LossName = "ce"
	TRADES       LossName = "trades"
)

// perturbed reports whether the embedding sees perturbed images and is to give the states of clean ones.
func (o Objective) perturbed() bool { return o != Clean && o != "" }

// searched reports whether the perturbation is the worst one of a ball.
func (o Objective) searched() bool { return o == Denoising || o == Adversarial }

// Settings configure the training of an embedding. Their JSON names are the config's.
type Settings struct {
	Epochs int     `json:"epochs"`
	Batch  int     `json:"batch"`  // images a step; the last step of an epoch takes the rest
	Weight float64 `json:"weight"` // weight of ‖E(x) − x‖² beside the cross-entropy, per image (Eq. 4)
	// WeightStart is the weight at the first step. It falls to Weight, by equal factors, over [Settled] of the steps.
	// 0: it is Weight from the first step on.
	WeightStart    float64        `json:"weight_start,omitzero"`
	Reconstruction Reconstruction `json:"reconstruction,omitzero"`
	Optimizer      Optimizer      `json:"optimizer"`
	LearningRate   float64        `json:"lr"`
	Momentum       float64        `json:"momentum,omitzero"`     // SGD only
	WeightDecay    float64        `json:"weight_decay,omitzero"` // decay·p is added to the gradient by p
	Schedule       Schedule       `json:"schedule"`
	// RateWarmup is the fraction of the steps over which the learning rate climbs to its value; the schedule begins
	// after it.
	RateWarmup float64 `json:"lr_warmup,omitzero"`
	Clip       float64 `json:"clip,omitzero"` // largest ℓ2 norm of a step's gradient, by which it is scaled; 0: any
	// Average is the factor a of the average of the weights, m ← a·m + (1 − a)·p, smaller in the first steps. The
	// average is judged and written, with statistics of its own. 0: the last weights are.
	Average float64 `json:"average,omitzero"`
	// for schedule step: the rate falls to a tenth after each of these fractions of the steps
	Drops []float64 `json:"drops,omitempty"`
	Draw  Draw      `json:"draw,omitzero"`
	Augment
	HeldOut   int          `json:"held_out,omitzero"` // images that judge the embedding and take no part in training
	Objective Objective    `json:"objective"`
	Norm      attacks.Norm `json:"norm,omitzero"`      // adversarial: of the ball; denoising has ℓ∞
	Epsilon   float64      `json:"epsilon,omitzero"`   // radius of the ball, in [0,1] pixel units
	Steps     int          `json:"steps,omitzero"`     // steps of the inner maximisation
	StepSize  float64      `json:"step_size,omitzero"` // size of each of these steps
	// adversarial: epsilon is 0 for Warmup epochs and grows to its value over the Ramp epochs after them. Over these
	// the reconstruction's weight goes on to WeightEnd, by equal factors; 0: it stays.
	Warmup    float64 `json:"warmup,omitzero"`
	Ramp      float64 `json:"ramp,omitzero"`
	WeightEnd float64 `json:"weight_end,omitzero"`
	Beta      float64 `json:"beta,omitzero"` // of [TRADES]
	// Joint trains the embedding of a later state along; JointWeight is the weight of its reconstruction.
	Joint       bool    `json:"joint,omitzero"`
	JointWeight float64 `json:"joint_weight,omitzero"`
	// gaussian: standard deviation of the noise, in [0,1] pixel units
	Sigma   float64    `json:"sigma,omitzero"`
	Loss    LossName   `json:"loss,omitzero"` // of objectives gaussian and adversarial
	Seed    uint64     `json:"seed"`
	Workers int        `json:"-"` // concurrent runs; 0: as many as there are cores. They change no number
	On      ort.Target `json:"-"` // device that computes
}

// Settled is the fraction of the steps over which the reconstruction's weight falls from WeightStart to Weight, and
// after which [Trainer.Astray] looks.
const Settled = 0.3

// ramp returns how far epsilon has grown at step k of all, with so many an epoch: from 0 to 1.
func (s Settings) ramp(k, perEpoch int) float64 {
	if s.Objective != Adversarial {
		return 1
	}
	switch past := float64(k)/float64(perEpoch) - s.Warmup; {
	case past < 0:
		return 0
	case past < s.Ramp:
		return past / s.Ramp
	}
	return 1
}

// weight returns the weight of the sum over a state's values at step k of all, with so many an epoch.
func (s Settings) weight(k, all, perEpoch int, values int64) float64 {
	w := s.Weight
	if past := float64(k) / (Settled * float64(all)); s.WeightStart > 0 && past < 1 {
		w = s.WeightStart * math.Pow(w/s.WeightStart, past)
	}
	if s.WeightEnd > 0 {
		w *= math.Pow(s.WeightEnd/s.Weight, s.ramp(k, perEpoch))
	}
	if s.Reconstruction == MeanValue {
		w /= float64(values)
	}
	return w
}

// Augment says how an image changes each time it is drawn.
type Augment struct {
	Flip bool `json:"flip,omitzero"` // mirrored left to right with probability 1/2
	Crop int  `json:"crop,omitzero"` // shifted by up to so many pixels each way; the border is black
}
