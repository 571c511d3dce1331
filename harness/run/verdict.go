package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/internal/number"
)

// verdict is the judge's word on one image.
type verdict struct {
	Class   int        `json:"class"`             // of the largest logit
	Margin  number.Any `json:"margin"`            // z_y − max other logit
	Norm    float64    `json:"norm,omitempty"`    // of the perturbation
	Loop    *solved    `json:"loop,omitempty"`    // nil of a network alone
	Right   bool       `json:"right"`             // it is the label
	Simplex bool       `json:"simplex,omitempty"` // the answer looks like probabilities
	Logs    bool       `json:"logs,omitempty"`    // the answer looks like their logarithms
	Broken  bool       `json:"broken,omitempty"`  // a number that must be finite is not: see [open.NotFinite]
}

// solved are the numbers of a closed loop's outcome.
type solved struct {
	Objective float64             `json:"objective"`
	Greedy    float64             `json:"greedy"`
	Norm      float64             `json:"norm"`
	Layers    []control.LayerCost `json:"layers"`
	Sweeps    []number.Any        `json:"sweeps,omitempty"` // the objective at the greedy start and after each sweep
}

// unlabelled stands for a label that nobody knows: the margin is that of the answer's own class.
const unlabelled = -1

// How much the judge asks a controlled classifier for, beside its answer. The answer is the
// same, to the bit.
const (
	answerOnly = iota
	withCosts  // what its loop did
	withSweeps // and that from sweep to sweep
)

// decide reads an answer, of which NaN is none that is right, and reports whether its margin is finite.
func decide(logits []float32, label int) (v verdict, finite bool) {
	v.Class = attacks.Argmax(logits)
	if label == unlabelled {
		label = v.Class
	}
	v.Right, v.Margin = attacks.Right(logits, label), number.Any(attacks.LogitMargin(logits, label))
	v.Simplex, v.Logs = simplex(logits), logarithms(logits)
	return v, number.Finite(float64(v.Margin))
}

// judge is the one place that decides whether a classifier is right on an image x, which must lie in a ball around the
// clean one. Its errors are a [plan.Outside] and, with the verdict all the same, an [open.NotFinite]: where a loop's
// numbers or the answer for the clean image itself are not finite. An attack that leads to such an answer has broken
// the image.
func judge(ctx context.Context, c open.Classifier, im attacks.Image, x []float32, within plan.Ball, want int) (
	v verdict, err error) {
	norm, err := within.Measure(im.Pixels, x)
	if err != nil {
		return verdict{Norm: norm}, err
	}
	im.Pixels = nil // hundreds of images wait for a solver at once
	var logits []float32
	var o *control.Outcome
	if c.Loop == nil || want == answerOnly {
		logits, err = c.Logits(ctx, x)
	} else if o, err = c.Solve(ctx, x, want == withSweeps); err == nil {
		logits = o.Logits
	}
	if err != nil {
		return v, err
	}
	v, finite := decide(logits, im.Label)
	if v.Norm = norm; within != (plan.Ball{}) {
		finite = true
	}
	if o != nil {
		finite = finite && number.Finite(o.Objective) && number.Finite(o.Greedy) && number.Finite(o.Norm)
		v.Loop = &solved{Objective: o.Objective, Greedy: o.Greedy, Norm: o.Norm, Layers: o.Layers}
		for _, s := range o.Sweeps {
			v.Loop.Sweeps = append(v.Loop.Sweeps, number.Any(s.Objective))
		}
	}
	if !finite {
		return v, open.NotFinite{Who: c.Info, Image: im.ID}
	}
	return v, nil
}

// simplex reports whether an answer looks like probabilities, by the reference
// AutoAttack's test: within [0,1] and adding up to 1, to 1e-5.
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

// judge asks a classifier about the images that were made of a set, except those that the journal holds under a key.
// Clean are its verdicts on the clean images, which hold where no attack broke the image; nil where there are none. The
// first images are followed from sweep to sweep where that is asked for.
func (r *run) judge(key folder.Key, who open.Classifier, set open.Images, made *crafted, clean *judgement,
	sweeps bool) (*judgement, error) {
	out := newJudgement(set.Len(), who.Info)
	if made.proof != nil { // nothing but the proof is new
		for i := range out.verdicts {
			out.same(i, clean)
			out.verdicts[i].Right = made.proof.Right(i, set.Label(i))
		}
		return out, nil
	}
	known := make([]bool, set.Len())
	work, err := folder.Recall(r.journal, key, func(i int, v verdict) {
		if i >= 0 && i < len(known) && out.loops.fits(v) {
			out.take(i, v)
			known[i] = true
		}
	})
	if err != nil {
		return out, err
	}
	var todo []int
	for i := range known {
		if clean != nil && made.Untried(i) {
			out.same(i, clean)
		} else if !known[i] && set.Own(i) {
			todo = append(todo, i)
		}
	}
	if err := r.journal.Open(set, todo); err != nil {
		return out, err
	}
	err = r.ForEach(r.ctx, len(todo), who.State(), func(ctx context.Context, k int) error {
		i := todo[k]
		want := withCosts
		if sweeps && i < traced {
			want = withSweeps
		}
		im, err := set.Read(i)
		if err != nil {
			return err
		}
		var v verdict
		x, err := made.Image(im, i)
		if err == nil {
			v, err = judge(ctx, who, im, x, made.within, want)
		}
		if errors.As(err, new(open.NotFinite)) { // of several the first counts, whichever is met first
			v, err = verdict{Broken: true}, nil
		}
		if err == nil {
			out.take(i, v)
			err = work.Done(i, v)
		}
		if errors.As(err, new(plan.Outside)) {
			err = fmt.Errorf("image %d: %w", set.ID(i), err)
		}
		return err
	})
	out.seconds = work.Seconds()
	if i := slices.IndexFunc(out.verdicts, func(v verdict) bool { return v.Broken }); i >= 0 && err == nil {
		err = open.NotFinite{Who: who.Info, Image: set.ID(i)}
	}
	return out, err
}
