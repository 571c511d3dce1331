package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/result"
	"selfheal/internal/number"
	"selfheal/models/bounds"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// least is what the journal keeps of an image that was bounded: its least margin. Nil where there is no bound.
type least struct {
	*bounds.Bound
}

// limits are a proof by bounds.
type limits []least

func (l limits) right(i, _ int) bool { return l[i].Bound != nil && l[i].Least() > 0 }

func (l limits) tell(i int, r *result.Record) {
	if b := l[i].Bound; b != nil {
		r.Bound, r.Slack = &b.Value, &b.Slack
	}
}

// exponents are the p of the norms ℓ_p.
var exponents = map[attacks.Norm]float64{attacks.L1: 1, attacks.L2: 2, attacks.Linf: math.Inf(1)}

// region is where a certificate must hold: wherever the judge takes an attack's image to lie within epsilon.
func (a PlannedAttack) region(image []float32) bounds.Region {
	return bounds.Ball(image, exponents[a.Norm], a.Epsilon*(1+normTolerance), 0, 1)
}

// unbounded is why nothing can be proven of a classifier.
type unbounded struct{ error }

// proves reports why nothing can be proven of a network's file.
func proves(g *onnx.Graph) error {
	if g.Inexact {
		return errors.New("no bounds for a file that is computed otherwise than it is opened, as those with weights " +
			"in float64, float16 and integers are")
	}
	return bounds.Check(g)
}

// bounder is a classifier prepared for bounds: a controlled one with its loop unrolled. The error is an [unbounded]
// where there are none.
func (b *bench) bounder(who classifier) (*bounds.Network, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	if n := b.bounders[who.defense()]; n != nil {
		return n, nil
	}
	g := who.net.Graph
	if err := proves(g); err != nil {
		return nil, unbounded{fmt.Errorf("%s: %w", who, err)}
	}
	if who.loop != nil {
		var err error
		if g, err = who.loop.Literal(); err == nil {
			err = simplify.Graph(g)
		}
		if err == nil {
			err = bounds.Check(g)
		}
		if err != nil {
			return nil, unbounded{fmt.Errorf("%s: %w", who, err)}
		}
	}
	n, err := bounds.New(g, bounds.Unit)
	if err == nil {
		if b.bounders == nil {
			b.bounders = map[string]*bounds.Network{}
		}
		b.bounders[who.defense()] = n
	}
	return n, err
}

// bound is the least margin of an image's label over an attack's ball.
func (a PlannedAttack) bound(ctx context.Context, n *bounds.Network, how attacks.Bounds, im attacks.Image) (least,
	error) {
	margins, err := n.Margins(ctx, bounds.Method(how.Method.String()), a.region(im.Pixels), im.Label, nil)
	if err != nil {
		return least{}, fmt.Errorf("image %d: %w", im.ID, err)
	}
	worst := margins[0]
	for _, m := range margins {
		if !number.Finite(m.Least()) {
			return least{}, nil
		}
		if m.Least() < worst.Least() {
			worst = m
		}
	}
	return least{&worst}, nil
}

// bounded proves a certificate by bounds. Of a control that can't be bounded nothing is proven, and a warning says so.
func (r *run) bounded(ctx context.Context, s scoring) (*crafted, error) {
	key := s.Job.key(*s.attack, s.who.defense(), s.seed).String()
	l := make(limits, s.set.Len())
	cannot, err := once(r, "unbounded "+key, func() ([]string, error) {
		_, err := s.bounder(s.who)
		if errors.As(err, new(unbounded)) {
			return []string{err.Error()}, nil
		}
		return []string{}, err
	})
	if err != nil {
		return nil, err
	}
	if len(cannot) > 0 {
		made := untouched()
		made.proof, made.warnings = l, []result.Warning{result.WarnNotBounded.New("%s", cannot[0])}
		return made, nil
	}
	how := s.recipe.Certificate.(attacks.Bounds)
	return prove(ctx, r, s, proving[least]{l, "bounds " + key, 1, r.cores, func(i int, v least) { l[i] = v },
		func(ctx context.Context, on *counted, i int) (v least, err error) {
			n, err := s.bounder(s.who)
			if err != nil {
				return v, err
			}
			im, err := s.set.image(i)
			if err == nil {
				v, err = s.attack.bound(ctx, n, how, im)
			}
			if err == nil && v.Bound != nil && v.Least() > 0 {
				err = s.hold(ctx, s.who, s.attack.region(im.Pixels), im)
			}
			on.logits.Add(1) // the image, for the progress
			return v, err
		}, func(i int) bool { return !s.clean.verdicts[i].Right }})
}

// disproved says which certificates by bounds prove images that the classifier answers wrong all the same within their
// ball: the certificate or the program is wrong.
func (r *run) disproved(ctx context.Context, s scoring, v []verdict) (list []string, err error) {
	for i, a := range s.Attacks {
		if !a.bounds() || s.attack == nil || s.attack.proves() {
			continue
		}
		_, made, err := r.certificate(ctx, s, i)
		if err != nil {
			return nil, err
		}
		inside, err := r.within(s, a, func(i int) bool {
			return !v[i].Right && made.proof.right(i, s.set.Label(i))
		})
		if err != nil {
			return nil, err
		}
		if found := howMany(slices.Collect(maps.Values(inside)), func(is bool) bool { return is }); found > 0 {
			list = append(list, fmt.Sprintf("%d images that %s certifies at %s %s are answered wrong within it", found,
				a.Name, a.Norm, number.Format(a.Epsilon)))
		}
	}
	return list, nil
}

// within reports which of some images a scoring's attack has left within another's ball.
func (r *run) within(s scoring, a PlannedAttack, asked func(i int) bool) (map[int]bool, error) {
	inside := map[int]bool{}
	work, err := recall(r.journal, fmt.Sprintf("within %q %v of %s", a.Name, a.Epsilon, s.key()), func(i int, is bool) {
		inside[i] = is
	})
	for i := 0; i < s.set.Len() && err == nil; i++ {
		if _, known := inside[i]; known || !asked(i) || !s.set.own(i) {
			continue
		}
		if r.merging {
			return nil, lacks{shard: s.set.owner[i], image: s.set.ID(i)}
		}
		var im attacks.Image
		var x []float32
		if im, err = s.set.image(i); err == nil {
			x, err = s.made.image(im, i)
		}
		if err == nil {
			inside[i] = a.Norm.Distance(im.Pixels, x) <= a.Epsilon
			err = work.done(i, inside[i])
		}
	}
	return inside, err
}
