package harness

import (
	"context"
	"fmt"
	"math"

	"selfheal/attacks"
	"selfheal/control"
)

// normTolerance is how far, relatively, a perturbation may exceed epsilon: what
// float32 images can't avoid.
const normTolerance = 1e-5

// simplex reports whether an answer looks like probabilities, by the reference
// AutoAttack's test: within [0,1] and adding up to 1, to 1e-5.
func simplex(z []float32) bool {
	low, high, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range z {
		low, high, sum = min(low, float64(v)), max(high, float64(v)), sum+float64(v)
	}
	return low > -1e-5 && high < 1+1e-5 && math.Abs(sum-1) < 1e-5
}

// measure is the one place where a perturbation is judged: its norm in float64.
// A norm above epsilon or a pixel outside [0,1] is an error of the attack,
// never a result.
func measure(norm attacks.Norm, epsilon float64, clean, adversarial []float32) (float64, error) {
	if len(clean) != len(adversarial) {
		return 0, fmt.Errorf("adversarial image has %d values, the clean one %d", len(adversarial), len(clean))
	}
	for i, v := range adversarial {
		if !(v >= 0 && v <= 1) {
			return 0, fmt.Errorf("adversarial pixel %d is %v, outside [0,1]", i, v)
		}
	}
	d := norm.Distance(clean, adversarial)
	if !(d <= epsilon*(1+normTolerance)) {
		return d, fmt.Errorf("perturbation has %s norm %g, above epsilon %g", norm, d, epsilon)
	}
	return d, nil
}

// verdict is the judge's word on one image of a cell.
type verdict struct {
	class   int // of the largest logit
	right   bool
	margin  float64
	simplex bool // the answer looks like probabilities
	outcome *control.Outcome
}

// notFinite is a classifier's answer that no margin follows from.
type notFinite struct {
	what       string
	image      int
	controlled bool
}

// Error says what to do.
func (e notFinite) Error() string {
	hint := ""
	if e.controlled {
		hint = "; where the network alone is finite, a smaller learning_rate of an msa or pmp solver may help"
	}
	return fmt.Sprintf("%s gives numbers that are not finite on image %d%s", e.what, e.image, hint)
}

// traced is how many images of a cell, its first ones, have their controls followed from
// sweep to sweep. Each sweep costs such an image a pass more; its verdict is the same.
const traced = 8

// judge asks a classifier about every image, but for those whose verdict is known (nil
// where none is). Logits that are not finite are an error, as no margin follows from them.
func (r *runner) judge(ctx context.Context, who subject, set []attacks.Image, images [][]float32, known []*verdict) ([]verdict, error) {
	out := make([]verdict, len(set))
	err := r.forEach(ctx, len(set), who.state, func(ctx context.Context, i int) error {
		if known != nil && known[i] != nil {
			out[i] = *known[i]
			return nil
		}
		var logits []float32
		var o *control.Outcome
		var err error
		if who.follow != nil && i < traced {
			if o, err = who.follow(ctx, images[i]); err == nil {
				logits = o.Logits
			}
		} else if who.solve == nil {
			logits, err = who.logits(ctx, images[i])
		} else if o, err = who.solve(ctx, images[i]); err == nil {
			logits = o.Logits
		}
		if err != nil {
			return err
		}
		margin := attacks.LogitMargin(logits, set[i].Label)
		finite := margin - margin
		if o != nil {
			finite += o.Objective - o.Objective + o.Greedy - o.Greedy + o.Norm - o.Norm
		}
		if finite != 0 { // NaN: something was infinite or NaN
			return notFinite{who.what, set[i].ID, o != nil}
		}
		class := attacks.Argmax(logits)
		out[i] = verdict{class: class, right: class == set[i].Label, margin: margin, simplex: simplex(logits), outcome: o}
		if o != nil {
			o.Controls, o.Logits = nil, nil // only the numbers are kept
		}
		return nil
	})
	return out, err
}
