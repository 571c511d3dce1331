package harness

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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
	// Turn is 1 − the cosine between that gradient and the one at the image with noise of ℓ2 length
	// [noise]·√n on its n values: from 0, the gradient is the same, to 2.
	Turn float64 `json:"turn"`
}

// noise is the standard deviation of what is added to an image's values.
const noise = 0.009

func (g glance) right() bool { return g.Margin > 0 }

// affordable is how many images may be looked at, most at most, where n of them take so many seconds.
func affordable(most int, seconds func(n int) float64) int {
	n := 1
	for n < most && seconds(n+1) < timedLooks.Seconds() {
		n++
	}
	return n
}

// glances asks an oracle once about images spread over the set, as many as the time allows.
func (s *surveyor) glances(ctx context.Context, b *bench, on *oracle, v speed, key string) ([]glance, error) {
	climbs, share := v.gradient != nil, 0.0
	if climbs {
		share = 1
	}
	n := affordable(min(b.set.Len(), lookedAt), func(n int) float64 { return v.round(n, share) * (1 + share) })
	key = fmt.Sprintf("glances/2 %s of %d images %s", key, b.set.Len(), s.record.Datasets[b.Suite.Dataset].SHA256)
	sound := func(all []glance) bool {
		return len(all) > 0 && len(all) <= b.set.Len() && !slices.ContainsFunc(all, func(g glance) bool {
			return !(g.Margin >= 0 && g.Turn >= 0 && g.Turn <= 2) ||
				climbs && g.right() != (len(g.Slopes) == len(attacks.Norms()))
		})
	}
	return recalled(s.costs, key, sound, func() ([]glance, error) {
		all := make([]glance, n)
		err := s.forEach(ctx, n, on.state, func(ctx context.Context, i int) error {
			im, err := b.set.image(i * b.set.Len() / n)
			if err == nil {
				all[i], err = s.glance(ctx, on, im, climbs)
			}
			return err
		})
		return all, err
	})
}

// glance takes the margin's gradients at an image and beside it, or where an oracle has none its answer.
func (o *opener) glance(ctx context.Context, on attacks.Oracle, im attacks.Image, climbs bool) (glance, error) {
	e := attacks.Evaluation{Logits: make([]float32, on.Classes())}
	if !climbs {
		err := on.Logits(ctx, im.Pixels, e.Logits)
		return glanceAt(&e, im.Label), err
	}
	err := on.Gradient(ctx, im.Pixels, attacks.Margin, im.Label, -1, &e)
	g := glanceAt(&e, im.Label)
	if err != nil || !g.right() {
		return g, err
	}
	beside, there := slices.Clone(im.Pixels), attacks.Evaluation{}
	rng := rand.New(rand.NewPCG(o.cfg.Seed, uint64(im.ID)))
	for j := range beside {
		beside[j] += float32(noise * rng.NormFloat64())
	}
	err = on.Gradient(ctx, beside, attacks.Margin, im.Label, -1, &there)
	g.Turn = turned(e.Gradient, there.Gradient)
	return g, err
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

// turned is 1 − the cosine between two vectors.
func turned(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	turn := 1 - sum/(attacks.L2.Length(a)*attacks.L2.Length(b))
	if !(turn >= 0) { // NaN where a gradient is 0
		return 0
	}
	return min(turn, 2)
}

// reach is the ℓ2 length of noise of a norm's epsilon on n values.
func reach(norm attacks.Norm, epsilon, n float64) float64 {
	switch norm {
	case attacks.Linf:
		return epsilon * math.Sqrt(n/3)
	case attacks.L1:
		return epsilon * math.Sqrt(math.Pi/2/n)
	}
	return epsilon
}

// distances are the images' from the boundary, in epsilons of an attack on n values: 0 where the answer is wrong, -1
// where the distance is not known. To first order it is the margin divided by the slope. Where an image's slope is
// unusual, the way to the boundary soon leads where it is not: a part of the distance's logarithm is that of the
// median slope. And where gradients turn within epsilon, attacks find nearer points than the first order has: how
// far they turn grows with the distance from the image.
func distances(images []glance, norm attacks.Norm, epsilon float64, n int) []float64 {
	const usual, turning, most = 0.15, 4, 0.5
	out := make([]float64, len(images))
	var slopes, turns []float64
	for _, g := range images {
		if g.Slopes != nil {
			slopes, turns = append(slopes, g.Slopes[norm]), append(turns, g.Turn)
		}
	}
	slices.Sort(slopes)
	slices.Sort(turns)
	nearer := 1.0
	if len(turns) > 0 {
		turn := turns[len(turns)/2] * reach(norm, epsilon, float64(n)) / (noise * math.Sqrt(float64(n)))
		nearer = math.Exp(-turning * min(turn, most))
	}
	for i, g := range images {
		switch {
		case !g.right():
		case g.Slopes == nil:
			out[i] = -1
		default:
			slope := math.Pow(g.Slopes[norm], 1-usual) * math.Pow(slopes[len(slopes)/2], usual)
			out[i] = max(nearer*g.Margin/slope/epsilon, 1e-9)
		}
	}
	return out
}
