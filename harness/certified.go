package harness

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"selfheal/harness/result"
)

// proof is what a certificate says of every image of a set, for one classifier.
type proof interface {
	// right reports whether the i-th image's label is proven.
	right(i, label int) bool
	// tell completes the i-th image's record.
	tell(i int, r *result.Record)
}

// proven are verdicts with a proof's word on them: all else is that of the clean images.
func proven(p proof, set images, clean *judged, who subject) *judged {
	out := newJudged(set.Len(), who)
	for i := range out.verdicts {
		out.same(i, clean)
		out.verdicts[i].Right = p.right(i, set.Label(i))
	}
	return out
}

// certified proves a certificate of a classifier. A smoothed one may be right on images on which the classifier itself
// is wrong; bounds prove nothing of those.
func (r *run) certified(ctx context.Context, s scoring) (*crafted, error) {
	if s.attack.bounds() {
		return r.bounded(ctx, s)
	}
	return r.voted(ctx, s)
}

// certificate proves the i-th of a job's attacks, for the classifier of a scoring: a certificate, by the config's seed.
func (r *run) certificate(ctx context.Context, s scoring, i int) (scoring, *crafted, error) {
	s.attack, s.recipe, s.seed = &s.Attacks[i], s.recipes[i], r.cfg.Seed
	made, err := r.certified(ctx, s)
	return s, made, err
}

// proving is how a certificate is proven: T is what the journal keeps of an image.
type proving[T any] struct {
	proof
	key    string     // in the journal
	passes int64      // of an image, at most
	width  func() int // images side by side
	take   func(i int, v T)
	prove  func(ctx context.Context, on *counted, i int) (T, error)
	wrong  func(i int) bool // nothing can be proven of the image; nil: of any something can
}

// prove proves what the journal does not hold yet.
func prove[T any](ctx context.Context, r *run, s scoring, p proving[T]) (*crafted, error) {
	known := make([]bool, s.set.Len())
	work, err := recall(r.journal, p.key, func(i int, v T) {
		if i >= 0 && i < len(known) {
			p.take(i, v)
			known[i] = true
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
		case p.wrong != nil && p.wrong(i):
			open--
		case !known[i]:
			todo = append(todo, i)
		case !p.right(i, s.set.Label(i)):
			open--
		}
	}
	made := untouched()
	made.proof = p.proof
	if made.seconds = work.before; len(todo) == 0 {
		return made, nil
	}
	if r.merging {
		return nil, lacks{shard: s.set.owner[todo[0]], image: s.set.ID(todo[0])}
	}
	on := &counted{oracle: listening(s.who)}
	id := componentID{identity(s.cell()), s.recipe.Certificate.Name(), s.seed, r.label(s)}
	shown := r.progress.component(id, len(todo), open, s.set.mine(), int64(len(todo))*p.passes, on)
	var mu sync.Mutex
	err = sideBySide(ctx, todo, p.width(), func(ctx context.Context, i int) error {
		v, err := p.prove(ctx, on, i)
		if err == nil {
			err = work.done(i, v)
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if p.take(i, v); !p.right(i, s.set.Label(i)) {
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

// sideBySide works on so many images at once.
func sideBySide(ctx context.Context, todo []int, width int, fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(width)
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
