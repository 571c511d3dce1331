package train

import (
	"fmt"
	"math"
	"strings"

	"selfheal/internal/setting"
)

// Optimizer is an optimiser by its name, as PyTorch defines it; "" is SGD.
type Optimizer string

// The optimisers.
const (
	Adam Optimizer = "adam"
	SGD  Optimizer = "sgd"
)

// OptimizerSpec is a row of [Optimizers].
type OptimizerSpec struct {
	Name                   Optimizer
	Doc                    string
	LearningRate, Momentum float64 // defaults
	NoMomentum             string  // why it can't be given a momentum; "" where it can
}

// Optimizers is the table of optimisers.
var Optimizers = []OptimizerSpec{
	{Adam, "Kingma & Ba 2015, β = 0.9 and 0.999, ε = 1e-8, bias corrected", 0.001, 0,
		"its averages are fixed at 0.9 and 0.999"},
	{SGD, "with momentum: v ← μ·v + g, p ← p − lr·v", 0.01, 0.9, ""},
}

// Schedule is how the learning rate moves over a training, by its name; "" is constant.
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
	Doc  string
	rate func(k, all int) float64 // the factor of the learning rate at step k, from 0, of all
}

// Schedules is the table of schedules.
var Schedules = []ScheduleSpec{
	{Cosine, "(1 + cos(π·k/K))/2 at step k of K: down to 0 (Loshchilov & Hutter 2017)", func(k, all int) float64 {
		return (1 + math.Cos(math.Pi*float64(k)/float64(max(all, 1)))) / 2
	}},
	{Step, "a tenth after half of the steps, a hundredth after three quarters", func(k, all int) float64 {
		switch {
		case 4*k >= 3*all:
			return 0.01
		case 2*k >= all:
			return 0.1
		}
		return 1
	}},
	{Constant, "the same at every step", func(_, _ int) float64 { return 1 }},
}

// rate is the factor of the learning rate at step k, from 0, of all.
func (s Schedule) rate(k, all int) float64 {
	for _, row := range Schedules {
		if row.Name == s {
			return row.rate(k, all)
		}
	}
	return 1
}

// Objective is what a training minimises, by its name; "" is clean.
type Objective string

// The objectives.
const (
	Clean     Objective = "clean"     // the paper's Eq. 4
	Denoising Objective = "denoising" // the same on the worst image of an ℓ∞ ball, whose clean state is to be found
)

// Settings say how an embedding is trained. [Rows] describe them.
type Settings struct {
	Epochs       int
	Batch        int // the last step of an epoch takes what is left
	Weight       float64
	Optimizer    Optimizer
	LearningRate float64
	Momentum     float64
	WeightDecay  float64
	Schedule     Schedule
	Augment
	Objective Objective
	Epsilon   float64 // in [0,1] pixel units
	Steps     int
	StepSize  float64
	Seed      uint64 `json:"-"`
	Workers   int    `json:"-"` // runs side by side; 0: as many as there are cores. They don't change a number
}

// Augment says how an image is varied each time it is drawn.
type Augment struct {
	Flip bool
	Crop int
}

// Row describes one of the [Settings].
type Row struct {
	setting.Setting
	Group string // the mapping in a config that holds it: optimizer, augment or objective; "" for none
	// Field is where Settings keep it: an *int, *float64, *bool or, of a choice, *string.
	Field func(s *Settings) any
}

// Rows is the table of settings. Epochs must be given, and epsilon where the objective is denoising.
var Rows = []Row{
	whole("epochs", "", setting.Count, nil, "passes over the data set", func(s *Settings) any { return &s.Epochs }),
	whole("batch", "", setting.Count, 128, "images a step", func(s *Settings) any { return &s.Batch }),
	number("weight", "", setting.NotNegative, 0.1, "w of w·‖E(x) − x‖² beside the cross-entropy, per image",
		func(s *Settings) any { return &s.Weight }),
	choice("kind", "optimizer", names(Optimizers, func(r OptimizerSpec) Optimizer { return r.Name }), "the optimiser",
		func(s *Settings) any { return (*string)(&s.Optimizer) }),
	number("lr", "optimizer", setting.Positive, byOptimizer(func(r OptimizerSpec) float64 { return r.LearningRate }),
		"learning rate", func(s *Settings) any { return &s.LearningRate }),
	number("momentum", "optimizer", setting.BelowOne, byOptimizer(func(r OptimizerSpec) float64 { return r.Momentum }),
		"μ of the optimiser", func(s *Settings) any { return &s.Momentum }),
	number("weight_decay", "optimizer", setting.NotNegative, 0., "decay·p is added to the gradient by p",
		func(s *Settings) any { return &s.WeightDecay }),
	choice("schedule", "", names(Schedules, func(r ScheduleSpec) Schedule { return r.Name }),
		"of the learning rate over the steps",
		func(s *Settings) any { return (*string)(&s.Schedule) }),
	{setting.Setting{Name: "flip", Type: setting.Flag, Default: false, Doc: "mirror images left to right at random"},
		"augment",
		func(s *Settings) any { return &s.Flip }},
	whole("crop", "augment", setting.Interval{Max: math.MaxInt32}, 0,
		"shift images by up to so many pixels each way, black coming in",
		func(s *Settings) any { return &s.Crop }),
	choice("kind", "objective", []string{string(Clean), string(Denoising)}, "what is minimised",
		func(s *Settings) any { return (*string)(&s.Objective) }),
	number("epsilon", "objective", setting.Positive, nil, "denoising: radius of the ℓ∞ ball",
		func(s *Settings) any { return &s.Epsilon }),
	whole("steps", "objective", setting.Count, 7, "denoising: sign steps of the inner maximisation",
		func(s *Settings) any { return &s.Steps }),
	number("step_size", "objective", setting.Positive, "epsilon/4", "denoising: length of a sign step",
		func(s *Settings) any { return &s.StepSize }),
}

func whole(name, group string, within setting.Interval, byDefault any, doc string, field func(*Settings) any) Row {
	return Row{setting.Setting{Name: name, Type: setting.Whole, Within: within, Default: byDefault, Doc: doc}, group,
		field}
}

// number's default is a number, or a text that says what it follows from.
func number(name, group string, within setting.Interval, byDefault any, doc string, field func(*Settings) any) Row {
	s := setting.Setting{Name: name, Type: setting.Number, Within: within, Default: byDefault, Doc: doc}
	if rule, ok := byDefault.(string); ok {
		s.Default, s.Rule = nil, rule
	}
	return Row{s, group, field}
}

// choice's default is the first.
func choice(name, group string, choices []string, doc string, field func(*Settings) any) Row {
	return Row{setting.Setting{Name: name, Type: setting.Choice, Choices: choices, Default: choices[0], Doc: doc},
		group, field}
}

func names[R any, N ~string](table []R, name func(R) N) []string {
	var all []string
	for _, r := range table {
		all = append(all, string(name(r)))
	}
	return all
}

// byOptimizer is a default that differs between optimisers, "0.001 (adam), 0.01 (sgd)".
func byOptimizer(value func(OptimizerSpec) float64) string {
	var parts []string
	for _, r := range Optimizers {
		if v := value(r); v > 0 {
			parts = append(parts, fmt.Sprintf("%g (%s)", v, r.Name))
		}
	}
	return strings.Join(parts, ", ")
}
