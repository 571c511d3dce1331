package harness

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"time"

	"selfheal/attacks"
)

// rehearsal is what a component costs an image that stands and one that falls to it.
type rehearsal struct {
	Stands work `json:"stands"`
	Falls  work `json:"falls"`
	Early  work `json:"early"` // as Falls, where a verdict is all that is asked for
}

// rehearsed is how long one rehearsal of an image may take: large images and long searches are cut there.
const rehearsed = 150 * time.Millisecond

// How far the rehearsal's images are from the boundary, in epsilons.
const (
	beyond = 2.0
	within = 0.5
)

// rehearse runs a component on a classifier made up for it, a single plane at a known distance, which
// answers at once: what that costs is what the attack itself computes, and what it asks is what it asks of
// an image that is as far away. No network is asked.
func rehearse(ctx context.Context, a attacks.Attack, norm attacks.Norm, epsilon float64, shape attacks.Shape,
	classes int) rehearsal {
	try := func(distance float64, verdict bool) work {
		o := newPlane(norm, distance, epsilon, shape, classes)
		whole := ctx
		ctx, cancel := context.WithTimeout(ctx, rehearsed)
		defer cancel()
		image := attacks.Image{Pixels: o.centre}
		watch := newStopwatch()
		_, err := a.Perturb(ctx, o, image, attacks.Options{VerdictOnly: verdict})
		wall, processor := watch.read()
		w := work{Forward: o.forward, Gradients: o.gradients, Seconds: cmp.Or(min(wall, processor), wall)}
		if whole.Err() != nil {
			return work{}
		}
		if err != nil { // cut short: the most that it would have asked
			f, g := a.Passes(classes)
			per := w.Seconds / float64(max(w.passes(), 1))
			w = work{Forward: int64(max(f-g, 0)), Gradients: int64(g)}
			w.Seconds = per * float64(w.passes())
		}
		return w
	}
	return rehearsal{try(beyond, false), try(within, false), try(within, true)}
}

// fall is what an image at a distance costs that falls. One near the boundary of a network, which is no
// plane, is asked about more often before the first success.
func (r *rehearsal) fall(verdict bool, distance float64, rng *rand.Rand) work {
	if !verdict {
		return r.Falls
	}
	near := min(max(math.Abs(distance), 0), 1)
	factor := 1 + 15*near*near*near*rng.ExpFloat64()
	limit := float64(r.Stands.passes()) / float64(max(r.Early.passes(), 1))
	factor = max(min(factor, limit), 1)
	return work{int64(factor * float64(r.Early.Forward)), int64(factor * float64(r.Early.Gradients)),
		factor * r.Early.Seconds}
}

// plane is a classifier whose label, class 0, ends at a plane.
type plane struct {
	shape     attacks.Shape
	classes   int
	centre    []float32 // the image, which is grey
	normal    []float32
	margin    float64 // at the image
	forward   int64
	gradients int64
}

// newPlane makes one at a distance in epsilons, which is also the margin: a large one would leave the cross-entropy no
// gradient in float32.
func newPlane(norm attacks.Norm, distance, epsilon float64, shape attacks.Shape, classes int) *plane {
	p := &plane{shape: shape, classes: classes, centre: make([]float32, shape.Size()),
		normal: make([]float32, shape.Size())}
	rng := rand.New(rand.NewPCG(0, 0))
	for i := range p.centre {
		p.centre[i], p.normal[i] = 0.5, float32(1-2*rng.IntN(2))
	}
	slope := 1 / (epsilon * norm.Dual().Length(p.normal))
	for i := range p.normal {
		p.normal[i] *= float32(slope)
	}
	p.margin = distance
	return p
}

func (p *plane) Shape() attacks.Shape { return p.shape }
func (p *plane) Classes() int         { return p.classes }

func (p *plane) answer(x, out []float32) {
	sum := 0.0
	for i, v := range x {
		sum += float64(p.normal[i] * (v - p.centre[i]))
	}
	for j := range out {
		out[j] = float32(-p.margin * float64(j) / 1e3)
	}
	out[0] = float32(p.margin - sum)
}

func (p *plane) Logits(_ context.Context, x, out []float32) error {
	p.forward++
	p.answer(x, out)
	return nil
}

func (p *plane) Gradient(_ context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	p.gradients++
	if len(e.Logits) != p.classes {
		e.Logits = make([]float32, p.classes)
	}
	if len(e.Gradient) != len(x) {
		e.Gradient = make([]float32, len(x))
	}
	p.answer(x, e.Logits)
	e.Loss = float32(loss.Value(e.Logits, label, target))
	cotangent := make([]float32, p.classes)
	loss.Cotangent(e.Logits, label, target, cotangent)
	for i, w := range p.normal {
		e.Gradient[i] = -cotangent[0] * w
	}
	return nil
}
