package plan

import (
	"fmt"

	"selfheal/attacks"
	"selfheal/internal/number"
)

// NormTolerance is how far, relatively, a perturbation may exceed epsilon: what float32 images can't avoid.
const NormTolerance = 1e-5

// Ball is where an adversarial image must lie, beside the box [0,1]. The zero value holds the clean image alone.
type Ball struct {
	Norm    attacks.Norm
	Epsilon float64
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

// Measure is the one place where a perturbation is measured: its norm, in float64. The error is an [Outside].
func (b Ball) Measure(clean, adversarial []float32) (float64, error) {
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
	d := b.Norm.Distance(clean, adversarial)
	switch {
	case beyond > 0:
		return d, Outside{Norm: d, Excess: most, Problem: fmt.Sprintf(
			"%d of its %d values lie outside [0,1], by up to %.3g", beyond, len(adversarial), most)}
	case !(d <= b.Epsilon*(1+NormTolerance)):
		return d, Outside{Norm: d, Excess: d - b.Epsilon, Problem: fmt.Sprintf("its perturbation has %s norm %.6g, "+
			"%.3g above epsilon %s", b.Norm, d, d-b.Epsilon, number.Format(b.Epsilon))}
	}
	return d, nil
}
