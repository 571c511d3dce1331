package signs

import (
	"context"
	"math"

	"selfheal/attacks"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/internal/vector"
)

// Misled says how far the gradient at an image can be followed.
type Misled struct {
	Right bool    `json:"right"`           // the image is classified correctly; nothing else is known of others
	Zero  bool    `json:"zero,omitempty"`  // the margin's gradient is 0, or not finite
	Short bool    `json:"short,omitempty"` // slopes, in place of derivatives, raise the loss by much more
	Ratio float64 `json:"ratio"`           // see [Slope]
}

// Follow follows the margin's gradient in a ball around an image and, where operators have slopes, those as well. The
// change along the gradient is looked at for a radius above 0, see [Slope].
func Follow(ctx context.Context, o attacks.Oracle, im attacks.Image, n attacks.Norm, epsilon float64, radius float32) (
	m Misled, err error) {
	var e attacks.Evaluation
	if err = o.Gradient(ctx, im.Pixels, attacks.Margin, im.Label, -1, &e); err != nil {
		return m, err
	}
	m.Right, m.Ratio = attacks.Right(e.Logits, im.Label), 1
	if !m.Right {
		return m, nil
	}
	start := float64(e.Loss)
	if m.Zero = !number.Finite(start) || !vector.Finite(e.Gradient) || vector.Max(e.Gradient) == 0; m.Zero {
		return m, nil
	}
	if radius > 0 {
		if m.Ratio, err = Slope(ctx, o, im, radius); err != nil {
			return m, err
		}
	}
	by, err := attacks.Along(o, attacks.Slopes)
	if by == nil || err != nil {
		return m, err
	}
	var rises [2]float64
	for i, o := range []attacks.Oracle{o, by} {
		_, top, err := attacks.NewWalk(n, im.Pixels, epsilon).Climb(ctx, o, attacks.Margin, im.Label, -1, climbs)
		if err != nil {
			return m, err
		}
		rises[i] = top - start
	}
	m.Short = rises[1]-rises[0] > max(far*rises[0], negligible*math.Abs(start))
	return m, nil
}

const (
	far        = 0.25 // how much further slopes lead than gradients that hide something, and ratios from 1
	negligible = 0.01 // differences of the loss below this share of the margin
	climbs     = 30   // steps
)

// Differs returns the median of ratios of [Slope], and whether it is far from 1. It is taken as 1 for few images.
func Differs(ratios []float64) (median float64, differs bool) {
	const fewest = 8
	if len(ratios) < fewest {
		return 1, false
	}
	median = lists.Median(ratios)
	return median, math.Abs(median-1) > far
}

// Misleads reports whether the gradient misleads at a quarter of the images, or differs from what answers do.
func Misleads(all []Misled) bool {
	right := lists.Only(all, func(m Misled) bool { return m.Right })
	many := func(holds func(Misled) bool) bool { return len(right) > 0 && 4*lists.Count(right, holds) >= len(right) }
	_, differs := Differs(lists.Map(right, func(m Misled) float64 { return m.Ratio }))
	return differs || many(func(m Misled) bool { return m.Zero }) || many(func(m Misled) bool { return m.Short })
}
