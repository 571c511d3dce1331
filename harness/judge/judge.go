// Package judge decides whether a classifier is right on an image, and whether the image lies in the ball that its
// attack allows. No attack judges itself. [Judge] decides about one image, for a run or a probe; [Attack] runs an
// attack on one image and judges what it returns, for a run or a prover; [Verify] decides about somebody's file of
// images. All ask the classifier in the file's own arithmetic; NaN is never right.
package judge

import (
	"context"
	"fmt"
	"math"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/models/heads"
)

// Verdict is the judge's decision about one image.
type Verdict struct {
	Class  int        `json:"class"`  // of the largest logit
	Margin number.Any `json:"margin"` // z_y − max other logit
	// the class's probability: by softmax, or the fraction of the passes that answer it; 0 if the answer has none
	Confidence float64 `json:"confidence,omitempty"`
	Norm       float64 `json:"norm,omitempty"`    // norm of the perturbation
	Pixels     int     `json:"pixels,omitempty"`  // number of pixels that it changes, if the norm counts pixels
	Loop       *Solved `json:"loop,omitempty"`    // nil for an undefended network
	Right      bool    `json:"right"`             // the class is the label
	Simplex    bool    `json:"simplex,omitempty"` // the answer looks like probabilities
	Logs       bool    `json:"logs,omitempty"`    // the answer looks like logarithms of probabilities
	Unit       bool    `json:"unit,omitempty"`    // the answer has length 1
	Sum        float64 `json:"sum,omitempty"`     // the sum of the answer, if all values lie in (0,1)
	// passes that answer the label, for a network that draws random numbers
	Votes  int  `json:"votes,omitempty"`
	Rival  int  `json:"rival,omitempty"`  // passes that answer the most frequent other class
	Rounds bool `json:"rounds,omitempty"` // the opened form answers otherwise between levels of 8 bits
	Near   bool `json:"near,omitempty"`   // within rounding of the other verdict: see [attacks.WithinRounding]
	// Broken says that a number is not finite: of the answer to a clean image, or of a closed loop. An attack that
	// leads to such an answer has broken the image.
	Broken bool `json:"broken,omitempty"`
	// Parts are the image's of the task's measures, see [Measures]; absent for classification.
	Parts []heads.Part `json:"parts,omitempty"`
}

// Measures returns what a kind of task measures over the images that have been judged.
func Measures(kind string, all []Verdict) (measures []result.Measure) {
	all = lists.Only(all, func(v Verdict) bool { return len(v.Parts) > 0 })
	names, values := heads.Over(kind, lists.Map(all, func(v Verdict) []heads.Part { return v.Parts }))
	for i, name := range names {
		measures = append(measures, result.Measure{Name: name, Value: values[i]})
	}
	return measures
}

// Solved is the outcome of a closed loop for an image.
type Solved struct {
	Objective float64             `json:"objective"`
	Greedy    float64             `json:"greedy"`
	Norm      float64             `json:"norm"`
	Layers    []control.LayerCost `json:"layers"`
	Sweeps    []number.Any        `json:"sweeps,omitempty"` // the objective at the greedy start and after each sweep
}

// The parts of a closed loop's outcome that the judge records. The verdict is the same for each, to the bit.
const (
	AnswerOnly = iota
	WithCosts  // the loop's costs
	WithSweeps // the costs after each sweep too
)

// Decide reads an answer and reports whether its margin is finite. An answer with NaN is never right.
func Decide(logits []float32, label int) (v Verdict, finite bool) {
	v.Class = attacks.Argmax(logits)
	v.Right, v.Margin = attacks.Right(logits, label), number.Any(attacks.LogitMargin(logits, label))
	if v.Confidence = attacks.Confidence(logits, v.Class); !number.Finite(v.Confidence) {
		v.Confidence = 0
	}
	v.Simplex, v.Logs, v.Unit, v.Sum = simplex(logits), logarithms(logits), unit(logits), shares(logits)
	return v, number.Finite(float64(v.Margin))
}

// Judge decides whether a classifier is right on an image x in a ball around the clean one; nothing else decides
// this. If the ball's attack aims at a class, it is right on a changed image unless it answers that class. Its error is
// a [plan.Outside], or says why there is no answer.
func Judge(ctx context.Context, c open.Classifier, im attacks.Image, x []float32, within plan.Ball, want int) (
	v Verdict, err error) {
	norm, err := within.Measure(im.Pixels, x, c.Shape)
	if err != nil {
		return Verdict{Norm: norm}, err
	}
	ctx = attacks.About(ctx, im)
	var answered control.Answered
	if c.Net.Task != nil {
		ctx = control.Answering(ctx, &answered)
	}
	pixels := 0
	if within.Norm == attacks.L0 {
		pixels = attacks.Pixels(im.Pixels, x, c.Shape)
	}
	asked := x
	levels := c.Net.Graph.Levels && c.Loop == nil && within != (plan.Ball{})
	if levels { // the file takes only levels
		asked = open.Levels(x, nil)
		if _, err := within.Measure(im.Pixels, asked, c.Shape); err != nil {
			asked = open.Levels(x, im.Pixels)
		}
	}
	im.Pixels = nil // hundreds of images wait for a solver at once: free the memory
	var logits []float32
	var o *control.Outcome
	switch {
	case c.Loop == nil || want == AnswerOnly:
		logits, err = c.Logits(ctx, asked)
	case want == WithSweeps && c.Loop.Solver.Iterates(): // greedy control has no sweeps
		o, err = c.Loop.RunTraced(ctx, x)
	default:
		o, err = c.Loop.Run(ctx, x)
	}
	if err != nil {
		return v, err
	}
	if o != nil {
		logits = o.Logits
	}
	v, finite := Decide(logits, im.Label)
	v.Pixels, v.Parts = pixels, answered.Parts()
	decides, label := logits, im.Label
	if class, ok := within.Aim.Class(im, c.Classes); ok && norm > 0 {
		pair := attacks.Versus(logits, class)
		decides, label = pair[:], 0
		v.Right, v.Margin = attacks.Right(decides, label), number.Any(attacks.LogitMargin(decides, label))
	}
	if c.Net.Labels {
		v.Confidence = 0
	}
	if c.Net.Task != nil { // a head's scores have no such form
		v.Simplex, v.Logs, v.Unit, v.Sum = false, false, false, 0
	}
	if n := c.Net.Votes(); n > 0 {
		v.Confidence = math.Round(float64(logits[v.Class])*float64(n)) / float64(n) // float32 shares may exceed 1
		v.Votes, v.Rival = votes(logits, im.Label, n)
	} else {
		v.Near = attacks.WithinRounding(decides, label)
	}
	if levels {
		if err := c.Net.CopyLogits(ctx, x, logits); err != nil {
			return v, err
		}
		v.Rounds = attacks.Right(logits, im.Label) != v.Right && !within.Aim.Targeted()
	}
	v.Norm, v.Broken = norm, !finite && within == (plan.Ball{})
	if o != nil {
		v.Broken = v.Broken || !number.Finite(o.Objective, o.Greedy, o.Norm)
		v.Loop = &Solved{Objective: o.Objective, Greedy: o.Greedy, Norm: o.Norm, Layers: o.Layers}
		v.Loop.Sweeps = lists.Map(o.Sweeps, func(s control.SweepCost) number.Any { return number.Any(s.Objective) })
	}
	return v, nil
}

// Attack runs an attack of a recipe on one image and judges the image that it returns, if any. on answers the attack's
// questions; of is the classifier that is judged, as it answers.
func Attack(ctx context.Context, a attacks.Attack, r attacks.Recipe, on attacks.Oracle, of open.Classifier,
	im attacks.Image, how attacks.Options) (res attacks.Result, v Verdict, err error) {
	ctx = attacks.About(ctx, im)
	if res, err = a.Perturb(ctx, on, im, how); err != nil || res.Adversarial == nil {
		v.Right = true
		return res, v, err
	}
	if r.Limit != nil {
		if exceeds := r.Limit.Outside(im.Pixels, res, of.Shape); exceeds != "" {
			return res, v, fmt.Errorf("%s, image %d: %s", a.Name(), im.ID, exceeds)
		}
	}
	if v, err = Judge(ctx, of, im, res.Adversarial, plan.BallOf(r), AnswerOnly); err != nil {
		err = fmt.Errorf("%s, image %d: %w", a.Name(), im.ID, err)
	}
	return res, v, err
}

// votes returns how many of n passes answer the label, and how many the most frequent other class. shares are the
// fractions of the passes by class.
func votes(shares []float32, label, n int) (right, rival int) {
	for class, share := range shares {
		if k := int(math.Round(float64(share) * float64(n))); class == label {
			right = k
		} else {
			rival = max(rival, k)
		}
	}
	return right, rival
}

// simplex reports whether an answer looks like probabilities, by the reference AutoAttack's test.
func simplex(z []float32) bool {
	low, high, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range z {
		low, high, sum = min(low, float64(v)), max(high, float64(v)), sum+float64(v)
	}
	return low > -1e-5 && high < 1+1e-5 && math.Abs(sum-1) < 1e-5
}

// logarithms reports whether the exponentials of an answer add up to 1, to 1e-3.
func logarithms(z []float32) bool {
	sum := 0.0
	for _, v := range z {
		sum += math.Exp(float64(v))
	}
	return math.Abs(sum-1) < 1e-3
}

// outputs returns the values that the file gives: for a single logit z, whose answer is 0 and z, only z. No network
// of two outputs gives exactly 0 first.
func outputs(z []float32) []float32 {
	if len(z) == 2 && z[0] == 0 {
		return z[1:]
	}
	return z
}

// unit reports whether an answer is a vector of length 1, to 1e-4.
func unit(z []float32) bool {
	return len(outputs(z)) > 1 && math.Abs(attacks.L2.Length(z)-1) < 1e-4
}

// shares returns the sum of an answer whose values all lie in (0,1), or 0 for others.
func shares(z []float32) (sum float64) {
	for _, v := range outputs(z) {
		if !(v > 0 && v < 1) {
			return 0
		}
		sum += float64(v)
	}
	return sum
}
