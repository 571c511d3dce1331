package harness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"selfheal/attacks"
	"selfheal/internal/number"
)

// How many images are looked at, at most, and about how long.
const (
	lookedAt   = 256
	timedLooks = 400 * time.Millisecond
)

// glance is what one gradient tells of an image.
type glance struct {
	Margin float64 `json:"margin"` // 0 where the answer is wrong
	// Slopes are the lengths of the margin's gradient in the duals of all norms; nil where none was taken.
	Slopes []float64 `json:"slopes,omitempty"`
}

func (g glance) right() bool { return g.Margin > 0 }

// glances asks an oracle once about images spread over the set, as many as the time allows.
func (s *surveyor) glances(ctx context.Context, b *bench, on *oracle, v speed, key string) ([]glance, error) {
	climbs, n := v.gradient != nil, 1
	share := 0.0
	if climbs {
		share = 1
	}
	for n < min(b.set.Len(), lookedAt) && v.round(n+1, share) < timedLooks.Seconds() {
		n++
	}
	key = fmt.Sprintf("glances/1 %s of %d images %s", key, b.set.Len(), s.record.Datasets[b.Suite.Dataset].SHA256)
	sound := func(all []glance) bool {
		return len(all) > 0 && len(all) <= b.set.Len() && !slices.ContainsFunc(all, func(g glance) bool {
			return !(g.Margin >= 0) || climbs && g.right() != (len(g.Slopes) == len(attacks.Norms()))
		})
	}
	return recalled(s.costs, key, sound, func() ([]glance, error) {
		all := make([]glance, n)
		err := s.forEach(ctx, n, on.state, func(ctx context.Context, i int) error {
			im, err := b.set.image(i * b.set.Len() / n)
			if err != nil {
				return err
			}
			e := attacks.Evaluation{Logits: make([]float32, on.Classes())}
			if !climbs {
				err = on.Logits(ctx, im.Pixels, e.Logits)
				all[i] = glanceAt(&e, im.Label)
				return err
			}
			err = on.Gradient(ctx, im.Pixels, attacks.Margin, im.Label, -1, &e)
			all[i] = glanceAt(&e, im.Label)
			return err
		})
		return all, err
	})
}

// glanceAt reads what an oracle gave for the loss [attacks.Margin].
func glanceAt(e *attacks.Evaluation, label int) (g glance) {
	margin := attacks.LogitMargin(e.Logits, label)
	if !(margin > 0) || !number.Finite(margin) {
		return g
	}
	g.Margin = margin
	for _, n := range attacks.Norms() {
		if e.Gradient != nil {
			g.Slopes = append(g.Slopes, min(max(n.Dual().Length(e.Gradient), 1e-30), 1e30))
		}
	}
	return g
}

// distances are the images' from the boundary, in epsilons of an attack: 0 where the answer is wrong, -1 where the
// distance is not known. To first order it is the margin divided by the slope. Where an image's slope is
// unusual, the way to the boundary soon leads where it is not: a quarter of the distance's logarithm is that of
// the median slope.
func distances(images []glance, n attacks.Norm, epsilon float64) []float64 {
	out := make([]float64, len(images))
	var slopes []float64
	for _, g := range images {
		if g.Slopes != nil {
			slopes = append(slopes, g.Slopes[n])
		}
	}
	slices.Sort(slopes)
	for i, g := range images {
		switch {
		case !g.right():
		case g.Slopes == nil:
			out[i] = -1
		default:
			slope := math.Pow(g.Slopes[n], 0.75) * math.Pow(slopes[len(slopes)/2], 0.25)
			out[i] = max(g.Margin/slope/epsilon, 1e-9)
		}
	}
	return out
}
