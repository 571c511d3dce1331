package harness

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"selfheal/attacks"
	"selfheal/harness/certify"
	"selfheal/harness/result"
	"selfheal/internal/vector"
)

// ballot is a proof by smoothing, for one of a certificate's epsilons.
type ballot struct {
	certify.Smoothing
	votes   []certify.Vote
	epsilon float64
}

// radius is the certified radius of the i-th image's label.
func (b *ballot) radius(i, label int) float64 { return b.Radius(b.votes[i], label) }

func (b *ballot) right(i, label int) bool { return b.radius(i, label) >= b.epsilon }

func (b *ballot) tell(i int, r *result.Record) { r.Radius = new(b.radius(i, r.Label)) }

// smoothingOf is the certificate's procedure. Its noise is drawn anew for every seed.
func smoothingOf(a PlannedAttack, r attacks.Recipe) certify.Smoothing {
	s := r.Certificate.(attacks.Smoothing)
	out := certify.Smoothing{Sigma: s.Sigma, N0: s.N0, N: s.N, Alpha: s.Alpha}
	if s.Stopping {
		out.Radii = slices.Sorted(slices.Values(a.Epsilons))
	}
	return out
}

// voted proves a certificate by smoothing. The journal has it for all epsilons at once; so all but the first cost
// nothing.
func (r *run) voted(ctx context.Context, s scoring) (*crafted, error) {
	b := &ballot{smoothingOf(*s.attack, s.recipe), make([]certify.Vote, s.set.Len()), s.attack.Epsilon}
	samples := b.N
	if b.Radii != nil {
		samples = certify.Chunk
	}
	most, _ := s.recipe.Passes(s.who.Classes)
	key := s.Job.key(*s.attack, s.who.defense(), s.seed)
	made, err := prove(ctx, r, s, proving[certify.Vote]{b, "votes " + key.String(), most,
		func() int { return r.sampling(samples) }, func(i int, v certify.Vote) { b.votes[i] = v },
		func(ctx context.Context, on *counted, i int) (certify.Vote, error) {
			return r.vote(ctx, on, b.Smoothing, s, i)
		}, nil})
	if err == nil && !s.attack.smooths() {
		made.seconds = 0 // which the first epsilon has
	}
	return made, err
}

// sampling is how many images of which each takes so many samples at a time fill the pool's batches twice.
func (r *run) sampling(samples int) int {
	return 1 + (2*r.pool.Workers()*r.pool.Batch()+samples-1)/samples
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
	held := len(im.Pixels)
	if s.who.loop == nil {
		held = 0
	}
	free := sync.Pool{New: func() any { return &sample{make([]float32, held), make([]float32, len(answers))} }}
	votes := make([]atomic.Int64, len(answers))
	noise := vector.NewKey(s.seed, uint64(im.ID))
	// As many draws as sampling says are under way beside each other.
	state := int64(r.sampling(n)) * (s.who.state() + 4*int64(held))
	err := r.forEach(ctx, n, state, func(ctx context.Context, k int) error {
		one := free.Get().(*sample)
		defer free.Put(one)
		fill := func(x []float32) { vector.Noisy(im.Pixels, float32(sigma), noise.At(uint64(from+k)), x) }
		if err := on.LogitsOf(ctx, fill, one.x, one.logits); err != nil {
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
