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
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(together(p.Smoothing, r.pool.Workers()*r.pool.Batch()))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, i := range todo {
		g.Go(func() error {
			v, err := r.vote(ctx, on, p.Smoothing, s, i)
			if err == nil {
				err = work.done(i, v)
			}
			if err != nil {
				cancel(err)
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
	}
	if err := g.Wait(); err != nil {
		shown.stop()
		return nil, fmt.Errorf("suite %s, %s, certificate %s: %w", s.Suite.Name, s.who, s.attack.Name, err)
	}
	shown.finish(open)
	made.seconds = work.seconds()
	return made, nil
}

// together is how many images are certified side by side: enough that their samples fill the pool's batches twice.
func together(s certify.Smoothing, slots int) int {
	samples := s.N
	if s.Radii != nil {
		samples = certify.Chunk
	}
	return 1 + (2*slots+samples-1)/samples
}

// vote certifies one image of a classifier. The noise of its samples depends on the seed, the image's id and the
// sample's number alone.
func (r *run) vote(ctx context.Context, on *counted, how certify.Smoothing, s scoring, i int) (certify.Vote, error) {
	im, err := s.set.image(i)
	if err != nil {
		return certify.Vote{}, err
	}
	state := s.who.state() + 4*int64(len(im.Pixels))
	return how.Certify(im.Label, func(from, n int, answers []int) error {
		votes := make([]atomic.Int64, len(answers))
		err := r.forEach(ctx, n, state, func(ctx context.Context, k int) error {
			x := make([]float32, len(im.Pixels))
			vector.Noisy(im.Pixels, float32(how.Sigma), vector.NewKey(s.seed, uint64(im.ID), uint64(from+k)), x)
			z := make([]float32, len(answers))
			if err := on.Logits(ctx, x, z); err != nil {
				return err
			}
			if class := attacks.Argmax(z); attacks.Right(z, class) { // not so of NaN
				votes[class].Add(1)
			}
			return nil
		})
		for c := range votes {
			answers[c] += int(votes[c].Load())
		}
		return err
	}, s.who.Classes)
}
