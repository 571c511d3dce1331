package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/harness/result"
)

// What the probes look at. A closed loop costs many passes, so fewer of its images
// are probed.
const (
	probed           = 32 // images of a plain network
	probedControlled = 8
	repeats          = 5 // answers compared by the randomness probe, as in the reference AutoAttack
	neighbours       = 10
	// probeRadius is half a grey level: noise that an image does not show.
	probeRadius = 0.5 / 255
	// unstable is the relative change of the margin, for the median image, above which
	// a loss is called unstable. Trained networks are at 1 % and below.
	unstable = 0.1
	// repeatable is the largest distance of normalised answers that counts as equal,
	// the reference's.
	repeatable = 1e-4
)

// probeKey identifies a classifier and the images it is probed on.
type probeKey struct{ dataset, model, defense string }

// probed is what the probes found, which concerns every cell of a classifier. They are made
// once a run, at its first clean cell.
func (r *run) probed(ctx context.Context, s scoring, v []verdict) ([]result.Warning, error) {
	key := probeKey{s.Suite.Dataset, s.Model.Name, s.who.defense()}
	if found, done := r.probes[key]; done || s.attack != nil {
		return found, nil
	}
	if !s.set.tail() {
		return nil, nil
	}
	found, err := once(r, fmt.Sprintf("probe %q", key), func() ([]result.Warning, error) {
		return r.probe(ctx, s.who, s.set, v)
	})
	if err == nil {
		r.probes[key] = found
	}
	return found, err
}

// probeLimit is how many images of a classifier are probed at most.
func probeLimit(who classifier) int {
	if who.Control != nil {
		return probedControlled
	}
	return probed
}

// firstOf are the first places of n that hold, as many as are probed of a classifier.
func firstOf(n int, who classifier, holds func(i int) bool) (todo []int) {
	for i := 0; i < n && len(todo) < probeLimit(who); i++ {
		if holds(i) {
			todo = append(todo, i)
		}
	}
	return todo
}

// probe asks a classifier about clean images again and about images beside them, and
// warns where the answers are random or jump.
func (r *run) probe(ctx context.Context, who classifier, set images, clean []verdict) ([]result.Warning,
	error) {
	if r.merging {
		return nil, lacks{shard: set.owner[0], image: set.ID(0)}
	}
	var failed error
	todo := firstOf(set.Len(), who, func(i int) bool {
		if set.own(i) || failed != nil {
			return clean[i].Right
		}
		var v verdict // which another shard keeps
		im, err := set.image(i)
		if err == nil {
			v, err = who.judge(ctx, im, im.Pixels, ball{}, answerOnly)
		}
		if err != nil && !errors.As(err, new(notFinite)) {
			failed = err
		}
		return v.Right
	})
	if failed != nil || len(todo) == 0 {
		return nil, failed
	}
	changes, apart := make([]float64, len(todo)), make([]float64, len(todo))
	err := r.forEach(ctx, len(todo), who.state(), func(ctx context.Context, k int) error {
		im, err := set.image(todo[k])
		if err != nil {
			return err
		}
		first, err := who.logits(ctx, im.Pixels)
		if err != nil {
			return err
		}
		for range repeats - 1 {
			again, err := who.logits(ctx, im.Pixels)
			if err != nil {
				return err
			}
			apart[k] = math.Max(apart[k], normalisedDistance(first, again))
		}
		margin := attacks.LogitMargin(first, im.Label)
		rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(im.ID)))
		beside := make([]float32, len(im.Pixels))
		for range neighbours {
			for i, v := range im.Pixels {
				beside[i] = min(max(v+float32(probeRadius*(2*rng.Float64()-1)), 0), 1)
			}
			z, err := who.logits(ctx, beside)
			if err != nil {
				return err
			}
			changes[k] += math.Abs(attacks.LogitMargin(z, im.Label)-margin) / math.Max(margin, 1e-12) / neighbours
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []result.Warning
	random := slices.Max(apart) > repeatable
	if random {
		list = append(list, result.WarnRandomized.New(
			"the answers of %s to one image differ from pass to pass: attack it with AutoAttack's version rand, "+
				"which averages gradients", who))
	}
	slices.Sort(changes)
	if median := changes[len(changes)/2]; median > unstable && !random {
		list = append(list, result.WarnUnstableLoss.New(
			"noise of half a grey level changes the margin of the median image by %.0f %%: "+
				"gradients lead attacks astray", 100*median))
	}
	return list, nil
}

// normalisedDistance is ‖a/‖a‖ − b/‖b‖‖₂, as the reference compares answers; NaN, of
// answers that are not finite, is left to the judge.
func normalisedDistance(a, b []float32) float64 {
	na, nb := attacks.L2.Length(a)+1e-10, attacks.L2.Length(b)+1e-10
	sum := 0.0
	for i := range a {
		d := float64(a[i])/na - float64(b[i])/nb
		sum += d * d
	}
	return math.Sqrt(sum)
}

// unbounded attacks images that stood in ℓ∞ once more at epsilon 1, where every
// image is within reach of every other. Whatever still stands shows an attack that
// is stopped by something else than robustness.
func (r *run) unbounded(ctx context.Context, on *oracle, order order, made *crafted) ([]result.Warning, error) {
	asked := firstOf(order.set.Len(), on.of, func(i int) bool { return made.each[i].Robust })
	attack := attacks.APGD{Norm: attacks.Linf, Epsilon: 1, Loss: attacks.Margin, Steps: 20}
	var mu sync.Mutex
	stood := map[int]bool{}
	work, err := recall(r.journal, "unbounded "+order.key, func(i int, stands bool) { stood[i] = stands })
	if err != nil {
		return nil, err
	}
	todo := slices.DeleteFunc(slices.Clone(asked), func(i int) bool { _, known := stood[i]; return known })
	err = r.over(ctx, order.set, todo, on.state, func(ctx context.Context, i int) error {
		im, err := order.set.image(i)
		if err != nil {
			return err
		}
		res, err := attack.Perturb(ctx, on, im, attacks.Options{Seed: r.cfg.Seed, VerdictOnly: true})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		stood[i] = res.Adversarial == nil
		return work.done(i, stood[i])
	})
	if err != nil {
		return nil, err
	}
	left := howMany(asked, func(i int) bool { return stood[i] })
	if left == 0 {
		return nil, nil
	}
	return []result.Warning{result.WarnStandsAtEpsilonOne.New(
		"%s stand even at epsilon 1, where any image may become any other: something else than robustness "+
			"stops the attack",
		share(left, len(asked)))}, nil
}
