package result

import (
	"fmt"
	"math"

	"selfheal/harness/cell"
)

// CleanImages and AdversarialImages are what a solver study is made on.
const (
	CleanImages       = "clean"
	AdversarialImages = "adversarial" // made on the undefended network, like those of oblivious cells
)

// SolverStudy compares the ways to solve for the controls of one model under one control. Objectives are those of the
// control problem, Σ_t ½‖E_t(x_t + u_t) − (x_t + u_t)‖² + (c/2)‖u_t‖², a sum per image; passes are in units of one
// forward pass of the model, by FLOPs.
type SolverStudy struct {
	cell.Job
	Control string       `json:"control"`
	N       int          `json:"n"`                // images of each kind
	Attack  string       `json:"attack,omitempty"` // that made the adversarial images; "" for clean ones alone
	Norm    string       `json:"norm,omitempty"`
	Epsilon cell.Epsilon `json:"epsilon,omitzero"`
	Recipe  string       `json:"recipe,omitempty"`
	// Baseline is the undefended network on the same images.
	Baseline []Score `json:"baseline"`
	// Solver is the control's own, Defaults the one of a control that says nothing.
	Solver   SolverSettings `json:"solver"`
	Defaults SolverSettings `json:"defaults"`
	// Curves follow greedy control, msa and pmp from the same start, and the control's method at the default rate and
	// momentum where its own are others: a curve for each of them and each kind of images.
	Curves []SolverCurve `json:"curves"`
	// Runs are the control's own solver, that one with the default rate and momentum where its own are others, and
	// those with one setting changed.
	Runs    []SolverRun  `json:"runs"`
	Costs   []SolverCost `json:"costs"`
	Seconds float64      `json:"seconds"` // of the study, its adversarial images not included
}

// SolverSettings are a solver's. Those that its method has no use for are 0.
type SolverSettings struct {
	Method         string  `json:"method"`
	Outer          int     `json:"outer"`
	Inner          int     `json:"inner"` // ascent steps a layer and sweep; 1 of pmp
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

// SolverPoint is a stage of a solver: after the greedy start (sweep 0) or an ascent step. Its numbers are those of a
// controlled network whose solver stops here.
type SolverPoint struct {
	Sweep  int     `json:"sweep"`
	Layer  int     `json:"layer"` // segment whose control was moved; −1 at the greedy start
	Step   int     `json:"step"`  // ascent steps made there in this sweep
	Done   bool    `json:"done"`  // the greedy start, or the end of a sweep
	Passes float64 `json:"passes"`
	Mean
	Correct  int     `json:"correct"`
	Accuracy float64 `json:"accuracy"`
}

// Mean is that of the objective over the images, with its standard error (0 of a single image); Objective is null where
// it is not finite on some image.
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

// SolverOutcome is what a solver comes to on images of one kind. Shares are of all images.
type SolverOutcome struct {
	Score
	Sweeps []Mean `json:"sweeps"` // the objective at the greedy start and after each sweep
	// BelowGreedy is the share of images whose objective ends strictly below the greedy start's, NonIncreasing of those
	// where no sweep raises it (by more than a millionth of it), NotFinite of those where objective or logits end
	// infinite or NaN.
	BelowGreedy   float64 `json:"below_greedy"`
	NonIncreasing float64 `json:"non_increasing"`
	NotFinite     float64 `json:"not_finite"`
}

// Final is the objective at the end.
func (o SolverOutcome) Final() Mean { return o.Sweeps[len(o.Sweeps)-1] }

// check is an error for a study that no run writes: readers rely on a mean for each sweep, and on costs above 0.
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

// SolverCost is what an answer costs.
type SolverCost struct {
	Method string  `json:"method"` // "none": the network alone
	Passes float64 `json:"passes"`
	// Milliseconds is the median time of one image, one at a time, over Images of them.
	Milliseconds float64 `json:"milliseconds"`
	Images       int     `json:"images"`
}
