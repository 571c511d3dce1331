package harness

import (
	"context"
	"errors"
	"fmt"
	"math"

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
	class   int     // of the largest logit
	right   bool    // it is the label
	margin  float64 // z_y − max other logit; on images of an attack it may be NaN or infinite
	norm    float64 // of the perturbation
	simplex bool    // the answer looks like probabilities
	logs    bool    // the answer looks like their logarithms
	outcome *control.Outcome
}

// notFinite is a classifier's answer that no margin follows from.
type notFinite struct {
	what  classifier
	image int
}

// Error says what to do.
func (e notFinite) Error() string {
	hint := ""
	if e.what.loop != nil {
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
	v.class = attacks.Argmax(logits)
	if label == unlabelled {
		label = v.class
	}
	v.right, v.margin = attacks.Right(logits, label), attacks.LogitMargin(logits, label)
	v.simplex, v.logs = simplex(logits), logarithms(logits)
	return v, number.Finite(v.margin)
}

// judge is the one place that decides whether a classifier is right on an image x, which
// must lie in a ball around the clean one. Its errors are an [Outside] and, with the verdict
// all the same, a [notFinite]: where a loop's numbers or the answer for the clean image itself
// are not finite. An attack that leads to such an answer has broken the image.
func (c classifier) judge(ctx context.Context, im attacks.Image, x []float32, within ball, want int) (v verdict,
	err error) {
	norm, err := within.measure(im.Pixels, x)
	if err != nil {
		return verdict{norm: norm}, err
	}
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
	if v.norm = norm; within != (ball{}) {
		finite = true
	}
	if o != nil {
		finite = finite && number.Finite(o.Objective) && number.Finite(o.Greedy) && number.Finite(o.Norm)
		o.Controls, o.Logits = nil, nil // only the numbers are kept
		v.outcome = o
	}
	if !finite {
		return v, notFinite{c, im.ID}
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

// traced: record the solver's sweeps for the first 8 images of each cell. Each sweep costs
// such an image a pass more.
const traced = 8

// images is what a classifier is judged on: clean images, and what an attack made of them.
type images struct {
	clean       []attacks.Image
	adversarial [][]float32
	within      ball
	known       []*verdict // nil, or verdicts that are known already; nil for the others
}

// judge asks a classifier about every image whose verdict is not known.
func (o *opener) judge(ctx context.Context, who classifier, of images, sweeps bool) ([]verdict, error) {
	out := make([]verdict, len(of.clean))
	err := o.forEach(ctx, len(out), who.state(), func(ctx context.Context, i int) error {
		if of.known != nil && of.known[i] != nil {
			out[i] = *of.known[i]
			return nil
		}
		want := withCosts
		if sweeps && i < traced {
			want = withSweeps
		}
		var err error
		out[i], err = who.judge(ctx, of.clean[i], of.adversarial[i], of.within, want)
		if errors.As(err, new(Outside)) {
			err = fmt.Errorf("image %d: %w", of.clean[i].ID, err)
		}
		return err
	})
	return out, err
}
