package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"selfheal/attacks"
	"selfheal/harness/certify"
	"selfheal/internal/vector"
)

// proof is what a certificate says of every image of a set, for one classifier.
type proof struct {
	certify.Smoothing
	votes   []certify.Vote
	epsilon float64
}

// radius is the certified radius of the i-th image's label.
func (p *proof) radius(i, label int) float64 { return p.Radius(p.votes[i], label) }

// right reports whether the label is proven at the proof's epsilon.
func (p *proof) right(i, label int) bool { return p.radius(i, label) >= p.epsilon }

// judged are verdicts with a proof's word on them: all else is that of the clean images.
func (p *proof) judged(set images, clean *judged, who subject) *judged {
	out := newJudged(set.Len(), who)
	for i := range out.verdicts {
		out.same(i, clean)
		out.verdicts[i].Right = p.right(i, set.Label(i))
	}
	return out
}

// smoothingOf is the certificate's procedure. Its noise is drawn anew for every seed.
func smoothingOf(a PlannedAttack, r attacks.Recipe) certify.Smoothing {
	s := r.Certificate.(attacks.Smoothing)
	out := certify.Smoothing{Sigma: s.Sigma, N0: s.N0, N: s.N, Alpha: s.Alpha}
	if s.Stopping {
		out.Radii = slices.Sorted(slices.Values(a.Epsilons))
	}
	return out
}

// certified proves a certificate of a classifier on all images, also on those of which the clean image is classified
// wrong: under noise they may not be. What the journal holds is not done again; so all epsilons but the first cost
// nothing.
func (r *run) certified(ctx context.Context, s scoring) (*crafted, error) {
	p := &proof{smoothingOf(*s.attack, s.recipe), make([]certify.Vote, s.set.Len()), s.attack.Epsilon}
	key := s.Job.key(*s.attack, s.who.defense(), s.seed)
	known := make([]bool, s.set.Len())
	work, err := recall(r.journal, "votes "+key.String(), func(i int, v certify.Vote) {
		if i >= 0 && i < len(known) {
			p.votes[i], known[i] = v, true
		}
	})
	if err != nil {
		return nil, err
	}
	var todo []int
	open := s.set.mine() // images that are or may be proven
	for i := range known {
		switch {
		case !s.set.own(i):
		case !known[i]:
			todo = append(todo, i)
		case !p.right(i, s.set.Label(i)):
			open--
		}
	}
	made := untouched()
	made.proof = p
	if len(todo) == 0 {
		return made, nil
	}
	if r.merging {
		return nil, lacks{shard: s.set.owner[todo[0]], image: s.set.ID(todo[0])}
	}
	on := &counted{oracle: listening(s.who)}
	most, _ := s.recipe.Passes(s.who.Classes)
	id := componentID{identity(s.cell()), s.recipe.Certificate.Name(), s.seed, r.label(s)}
	shown := r.progress.component(id, len(todo), open, s.set.mine(), int64(len(todo))*most, on)
	samples := p.N
	if p.Radii != nil {
		samples = certify.Chunk
	}
	var mu sync.Mutex
	err = r.sideBySide(ctx, todo, samples, func(ctx context.Context, i int) error {
		v, err := r.vote(ctx, on, p.Smoothing, s, i)
		if err == nil {
			err = work.done(i, v)
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if p.votes[i] = v; !p.right(i, s.set.Label(i)) {
			open--
		}
		shown.image(open)
		return nil
	})
	if err != nil {
		shown.stop()
		return nil, fmt.Errorf("suite %s, %s, certificate %s: %w", s.Suite.Name, s.who, s.attack.Name, err)
	}
	shown.finish(open)
	made.seconds = work.seconds()
	return made, nil
}

// sideBySide works on images of which each takes so many samples at a time: on as many side by side as fill the pool's
// batches twice.
func (r *run) sideBySide(ctx context.Context, todo []int, samples int,
	fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(1 + (2*r.pool.Workers()*r.pool.Batch()+samples-1)/samples)
	for _, i := range todo {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fn(ctx, i)
		})
	}
	return g.Wait()
}

// vote certifies one image of a classifier. The noise of its samples depends on the seed, the image's id and the
// sample's number alone.
func (r *run) vote(ctx context.Context, on *counted, how certify.Smoothing, s scoring, i int) (certify.Vote, error) {
	im, err := s.set.image(i)
	if err != nil {
		return certify.Vote{}, err
	}
	return how.Certify(im.Label, func(from, n int, answers []int) error {
		return r.draw(ctx, on, how.Sigma, s, im, from, n, answers)
	}, s.who.Classes)
}

// draw adds to the answers those to n noisy copies of an image, from a number on.
func (r *run) draw(ctx context.Context, on *counted, sigma float64, s scoring, im attacks.Image, from, n int,
	answers []int) error {
	type sample struct{ x, logits []float32 }
	free := sync.Pool{New: func() any {
		return &sample{make([]float32, len(im.Pixels)), make([]float32, len(answers))}
	}}
	votes := make([]atomic.Int64, len(answers))
	state := s.who.state() + 4*int64(len(im.Pixels))
	err := r.forEach(ctx, n, state, func(ctx context.Context, k int) error {
		one := free.Get().(*sample)
		defer free.Put(one)
		vector.Noisy(im.Pixels, float32(sigma), vector.NewKey(s.seed, uint64(im.ID), uint64(from+k)), one.x)
		if err := on.Logits(ctx, one.x, one.logits); err != nil {
			return err
		}
		if class := attacks.Argmax(one.logits); attacks.Right(one.logits, class) { // not so of NaN
			votes[class].Add(1)
		}
		return nil
	})
	for c := range votes {
		answers[c] += int(votes[c].Load())
	}
	return err
}
