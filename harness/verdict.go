package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/internal/number"
)

// normTolerance is how far, relatively, a perturbation may exceed epsilon: what
// float32 images can't avoid.
const normTolerance = 1e-5

// ball is where an adversarial image must lie, beside the box [0,1]. The zero value holds
// the clean image alone.
type ball struct {
	norm    attacks.Norm
	epsilon float64
}

// Outside is an image that no attack may return, and the error about it.
type Outside struct {
	Image   int     `json:"image"`            // its id in the data set
	Problem string  `json:"problem"`          // what leaves the ball or the box, and by how much
	Norm    float64 `json:"norm,omitempty"`   // of its perturbation, 0 when it has none
	Excess  float64 `json:"excess,omitempty"` // over epsilon or beyond [0,1], 0 when its values are no numbers
}

// Error is the problem.
func (e Outside) Error() string { return e.Problem }

// measure is the one place where a perturbation is measured: its norm, in float64. The error
// is an [Outside].
func (b ball) measure(clean, adversarial []float32) (float64, error) {
	if len(clean) != len(adversarial) {
		return 0, Outside{Problem: fmt.Sprintf("it has %d values, the clean image %d", len(adversarial), len(clean))}
	}
	broken, beyond, most := 0, 0, 0.0
	for _, v := range adversarial {
		switch {
		case v >= 0 && v <= 1:
		case number.Finite(float64(v)):
			beyond++
			most = max(most, float64(-v), float64(v)-1)
		default:
			broken++
		}
	}
	if broken > 0 {
		return 0, Outside{Problem: fmt.Sprintf("%d of its %d values are NaN or infinite", broken, len(adversarial))}
	}
	d := b.norm.Distance(clean, adversarial)
	switch {
	case beyond > 0:
		return d, Outside{Norm: d, Excess: most, Problem: fmt.Sprintf(
			"%d of its %d values lie outside [0,1], by up to %.3g", beyond, len(adversarial), most)}
	case !(d <= b.epsilon*(1+normTolerance)):
		return d, Outside{Norm: d, Excess: d - b.epsilon, Problem: fmt.Sprintf("its perturbation has %s norm %.6g, "+
			"%.3g above epsilon %s", b.norm, d, d-b.epsilon, number.Format(b.epsilon))}
	}
	return d, nil
}

// verdict is the judge's word on one image.
type verdict struct {
	Class   int        `json:"class"`             // of the largest logit
	Margin  number.Any `json:"margin"`            // z_y − max other logit
	Norm    float64    `json:"norm,omitempty"`    // of the perturbation
	Loop    *solved    `json:"loop,omitempty"`    // nil of a network alone
	Right   bool       `json:"right"`             // it is the label
	Simplex bool       `json:"simplex,omitempty"` // the answer looks like probabilities
	Logs    bool       `json:"logs,omitempty"`    // the answer looks like their logarithms
	Broken  bool       `json:"broken,omitempty"`  // a number that must be finite is not: see [notFinite]
}

// solved are the numbers of a closed loop's outcome.
type solved struct {
	Objective float64             `json:"objective"`
	Greedy    float64             `json:"greedy"`
	Norm      float64             `json:"norm"`
	Layers    []control.LayerCost `json:"layers"`
	Sweeps    []number.Any        `json:"sweeps,omitempty"` // the objective at the greedy start and after each sweep
}

// notFinite is a classifier's answer that no margin follows from.
type notFinite struct {
	what  subject
	image int
}

// Error says what to do.
func (e notFinite) Error() string {
	hint := ""
	if e.what.Control != nil {
		hint = "; where the network alone is finite, a smaller learning_rate of an msa or pmp solver may help"
	}
	return fmt.Sprintf("%s gives numbers that are not finite on image %d%s", e.what, e.image, hint)
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

// judge is the one place that decides whether a classifier is right on an image x, which
// must lie in a ball around the clean one. Its errors are an [Outside] and, with the verdict
// all the same, a [notFinite]: where a loop's numbers or the answer for the clean image itself
// are not finite. An attack that leads to such an answer has broken the image.
func (c classifier) judge(ctx context.Context, im attacks.Image, x []float32, within ball, want int) (v verdict,
	err error) {
	norm, err := within.measure(im.Pixels, x)
	if err != nil {
		return verdict{Norm: norm}, err
	}
	im.Pixels = nil // hundreds of images wait for a solver at once
	var logits []float32
	var o *control.Outcome
	if c.loop == nil || want == answerOnly {
		logits, err = c.logits(ctx, x)
	} else if o, err = c.solve(ctx, x, want == withSweeps); err == nil {
		logits = o.Logits
	}
	if err != nil {
		return v, err
	}
	v, finite := decide(logits, im.Label)
	if v.Norm = norm; within != (ball{}) {
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
		return v, notFinite{c.subject, im.ID}
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

// judge asks a classifier about what was made of a set's images, but for those that the journal
// holds under a key. Clean are its verdicts on the clean images, which hold where no attack broke
// the image; nil where there are none. The first images are followed from sweep to sweep
// where that is asked for.
func (r *run) judge(ctx context.Context, key string, who classifier, set images, made *crafted, clean *judged,
	sweeps bool) (*judged, error) {
	if made.proof != nil {
		return proven(made.proof, set, clean, who.subject), nil
	}
	out := newJudged(set.Len(), who.subject)
	known := make([]bool, set.Len())
	work, err := recall(r.journal, key, func(i int, v verdict) {
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
		if clean != nil && made.untried(i) {
			out.same(i, clean)
		} else if !known[i] && set.own(i) {
			todo = append(todo, i)
		}
	}
	err = r.over(ctx, set, todo, who.state(), func(ctx context.Context, i int) error {
		want := withCosts
		if sweeps && i < traced {
			want = withSweeps
		}
		im, err := set.image(i)
		if err != nil {
			return err
		}
		var v verdict
		x, err := made.image(im, i)
		if err == nil {
			v, err = who.judge(ctx, im, x, made.within, want)
		}
		if errors.As(err, new(notFinite)) { // of several the first counts, whichever is met first
			v, err = verdict{Broken: true}, nil
		}
		if err == nil {
			out.take(i, v)
			err = work.done(i, v)
		}
		if errors.As(err, new(Outside)) {
			err = fmt.Errorf("image %d: %w", set.ID(i), err)
		}
		return err
	})
	out.seconds = work.seconds()
	if i := slices.IndexFunc(out.verdicts, func(v verdict) bool { return v.Broken }); i >= 0 && err == nil {
		err = notFinite{who.subject, set.ID(i)}
	}
	return out, err
}

// over works on images of a set. In a merge all is done that ever will be.
func (r *run) over(ctx context.Context, set images, todo []int, state int64,
	fn func(ctx context.Context, i int) error) error {
	if r.merging && len(todo) > 0 {
		return lacks{shard: set.owner[todo[0]], image: set.ID(todo[0])}
	}
	return r.forEach(ctx, len(todo), state, func(ctx context.Context, k int) error { return fn(ctx, todo[k]) })
}

// forEach is [opener.forEach]; in a merge there is nothing to do.
func (r *run) forEach(ctx context.Context, n int, state int64, fn func(ctx context.Context, i int) error) error {
	if n == 0 {
		return nil
	}
	return r.opener.forEach(ctx, n, state, fn)
}
