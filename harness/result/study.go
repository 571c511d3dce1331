package result

import (
	"fmt"
	"math"

	"selfheal/harness/cell"
)

// The kinds of images in a solver study.
const (
	CleanImages       = "clean"
	AdversarialImages = "adversarial" // made on the undefended network, like those of oblivious cells
)

// SolverStudy compares the ways to solve for the controls of one model under one control. Objectives are the control
// problem's, Σ_t ½‖E_t(x_t + u_t) − (x_t + u_t)‖² + (c/2)‖u_t‖², a sum per image. Passes are in units of one forward
// pass of the model, by FLOPs.
type SolverStudy struct {
	cell.Job
	Control string `json:"control"`
	N       int    `json:"n"` // images of each kind
	// attack that made the adversarial images; "" if there are only clean ones
	Attack  string       `json:"attack,omitempty"`
	Norm    string       `json:"norm,omitempty"`
	Epsilon cell.Epsilon `json:"epsilon,omitzero"`
	Recipe  string       `json:"recipe,omitempty"`
	// Baseline is the undefended network on the same images.
	Baseline []Score `json:"baseline"`
	// Solver is the control's own; Defaults is the solver of a control that sets none.
	Solver   SolverSettings `json:"solver"`
	Defaults SolverSettings `json:"defaults"`
	// Curves follow greedy control, msa and pmp from the same start and, if the control's rate and momentum are not
	// the default, its method with the default ones. There is a curve for each of these and each kind of images.
	Curves []SolverCurve `json:"curves"`
	// Runs are the control's own solver, the same with the default rate and momentum if its own differ, and the same
	// with one setting changed.
	Runs    []SolverRun  `json:"runs"`
	Costs   []SolverCost `json:"costs"`
	Seconds float64      `json:"seconds"` // time of the study, without making its adversarial images
}

// SolverSettings are a solver's settings. A setting that its method does not use is 0.
type SolverSettings struct {
	Method         string  `json:"method"`
	Outer          int     `json:"outer"`
	Inner          int     `json:"inner"` // ascent steps a layer and sweep; 1 for pmp
	Regularization float64 `json:"regularization"`
	LearningRate   float64 `json:"learning_rate"`
	Momentum       float64 `json:"momentum"`
}

// Score is how many of the images of a kind are right.
type Score struct {
	Images   string  `json:"images"` // clean or adversarial
	Correct  int     `json:"correct"`
	Accuracy float64 `json:"accuracy"`
}

// SolverCurve follows one solver over images of one kind.
type SolverCurve struct {
	Images   string         `json:"images"`
	Default  bool           `json:"default,omitempty"` // with the default rate and momentum instead of the control's
	Settings SolverSettings `json:"settings"`
	Points   []SolverPoint  `json:"points"`
}

// SolverPoint is a stage of a solver, after the greedy start (sweep 0) or an ascent step. Its numbers belong to a
// controlled network whose solver stops here.
type SolverPoint struct {
	Sweep  int     `json:"sweep"`
	Layer  int     `json:"layer"` // segment whose control was moved; −1 at the greedy start
	Step   int     `json:"step"`  // ascent steps at this layer in this sweep
	Done   bool    `json:"done"`  // the greedy start, or the end of a sweep
	Passes float64 `json:"passes"`
	Mean
	Correct  int     `json:"correct"`
	Accuracy float64 `json:"accuracy"`
}

// Mean is the mean of the objective over the images, with its standard error (0 for a single image). Objective is
// null if it is not finite on some image.
type Mean struct {
	Objective     *float64 `json:"objective"`
	StandardError float64  `json:"standard_error"`
}

// The reasons for a SolverRun.
const (
	OwnSolver         = "own"
	DefaultRate       = "default" // and momentum
	SetRegularization = "regularization"
	SetOuter          = "outer"
	SetInner          = "inner"
	SetLearningRate   = "learning_rate"
	SetMomentum       = "momentum"
)

// SolverRun is one solver on all images.
type SolverRun struct {
	Why      string          `json:"why"`   // own, default, or the setting that was changed
	Value    float64         `json:"value"` // of that setting
	Own      bool            `json:"own"`   // it is the control's own value
	Settings SolverSettings  `json:"settings"`
	Passes   float64         `json:"passes"`
	Outcomes []SolverOutcome `json:"outcomes"` // one for each kind of images
}

// SolverOutcome is a solver's result on images of one kind. Fractions are of all images.
type SolverOutcome struct {
	Score
	Sweeps []Mean `json:"sweeps"` // the objective at the greedy start and after each sweep
	// BelowGreedy is the fraction of images whose objective ends strictly below the greedy start's. NonIncreasing is
	// the fraction on which no sweep raises it (by more than a millionth of it). NotFinite is the fraction whose
	// objective or logits end infinite or NaN.
	BelowGreedy   float64 `json:"below_greedy"`
	NonIncreasing float64 `json:"non_increasing"`
	NotFinite     float64 `json:"not_finite"`
}

// Final returns the objective at the end.
func (o SolverOutcome) Final() Mean { return o.Sweeps[len(o.Sweeps)-1] }

// check returns an error for a study that no run writes. Readers rely on a mean for each sweep, and on costs above 0.
func (s SolverStudy) check() error {
	for _, c := range s.Curves {
		for _, p := range c.Points {
			if !(p.Passes > 1e-6 && p.Passes < 1e15) {
				return fmt.Errorf("a point of its curves costs %g passes", p.Passes)
			}
			if !share(p.Accuracy) || p.Objective != nil && !(math.Abs(*p.Objective) < mostOf) {
				return fmt.Errorf("a point of its curves has an accuracy of %g or an objective that is none",
					p.Accuracy)
			}
		}
	}
	for _, r := range s.Runs {
		for _, o := range r.Outcomes {
			if len(o.Sweeps) != r.Settings.Outer+1 || r.Settings.Outer < 1 {
				return fmt.Errorf("a run of %d sweeps has %d means", r.Settings.Outer, len(o.Sweeps))
			}
		}
		if (r.Why == OwnSolver || r.Why == DefaultRate) && r.Settings.Outer != s.Solver.Outer {
			return fmt.Errorf("its own solver makes %d sweeps, its run %q %d", s.Solver.Outer, r.Why, r.Settings.Outer)
		}
	}
	return nil
}

// SolverCost is the cost of an answer.
type SolverCost struct {
	Method string  `json:"method"` // "none": the undefended network
	Passes float64 `json:"passes"`
	// Milliseconds is the median time of one image, one at a time, over Images images.
	Milliseconds float64 `json:"milliseconds"`
	Images       int     `json:"images"`
}
