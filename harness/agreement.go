package harness

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/result"
	"selfheal/models/ort"
)

// Attacks may run in another arithmetic than the judge. What they break the judge sees. What they leave is attacked
// again in the judge's arithmetic, a sample of it: at least leastAgain images, and a share of againShare.
const (
	leastAgain = 50
	againShare = 0.05
)

// again attacks the sample of a crafting's images that stand, and counts those that stand again.
func (w *workshop) again(ctx context.Context) error {
	sample := w.sample()
	stands := map[int]bool{}
	work, err := recall(w.run.journal, "again "+w.key, func(i int, stood bool) { stands[i] = stood })
	if err != nil {
		return err
	}
	todo := slices.DeleteFunc(slices.Clone(sample), func(i int) bool { _, held := stands[i]; return held })
	if len(todo) > 0 {
		exact, each := &counted{oracle: w.on.exact}, 0
		for _, c := range w.recipe.Components {
			f, b := c.Passes(w.on.Classes())
			each += f + b
		}
		p := w.run.progress.component(componentID{w.cell, "again in float32", w.seed, w.label}, len(todo), w.standing,
			w.own, int64(len(todo))*int64(each), exact)
		err = w.run.over(ctx, w.set, todo, w.on.state, func(ctx context.Context, i int) error {
			stood, err := w.standsExactly(ctx, exact, i)
			if err == nil {
				err = work.done(i, stood)
			}
			p.image(w.standing)
			w.mu.Lock()
			defer w.mu.Unlock()
			stands[i] = stood
			return err
		})
		if err != nil {
			p.stop()
		} else {
			p.finish(w.standing)
		}
	}
	w.agreement = &result.Agreement{N: len(sample), Agree: howMany(sample, func(i int) bool { return stands[i] })}
	return err
}

// sample is of the images that stand, in the order that a hash gives them: which ones follows from the seed, their ids
// and how many stand. A shard, which knows only its own, takes all that may be among them.
func (w *workshop) sample() []int {
	var standing []int
	for i, a := range w.each {
		if a.Robust && w.set.own(i) {
			standing = append(standing, i)
		}
	}
	rank := func(i int) uint64 { return hashed(fmt.Sprintf("%d %d", w.seed, w.set.ID(i))) }
	slices.SortFunc(standing, func(a, b int) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	most := len(standing)
	if w.set.shard > 0 {
		most += w.set.Len() - w.own
	}
	return standing[:min(sampled(most), len(standing))]
}

// sampled is the size of the sample of so many images that stand.
func sampled(standing int) int {
	return min(standing, max(leastAgain, int(math.Ceil(againShare*float64(standing)))))
}

// standsExactly attacks an image in the judge's arithmetic, for a verdict alone: at full strength where that is
// refuted.
func (w *workshop) standsExactly(ctx context.Context, exact attacks.Oracle, i int) (bool, error) {
	im, err := w.set.image(i)
	if err != nil {
		return false, err
	}
	for _, component := range w.recipe.Components {
		for _, verdictOnly := range []bool{true, false} {
			how := attacks.Options{Seed: w.seed, VerdictOnly: verdictOnly}
			res, broken, err := w.try(ctx, component, exact, im, how)
			if err != nil || broken {
				return false, err
			}
			if !refuted(res, broken) {
				break
			}
		}
	}
	return true, nil
}

// comparedImages is how many images' gradients are compared.
const comparedImages = 8

// comparable refuses a provider whose gradients are not those of the CPU provider, which judges. Where
// it does not judge, as on a device, a small pool on the CPU computes the same.
func (r *run) comparable(ctx context.Context, b *bench) error {
	onCPU := !r.pool.Row(true).All
	if b.attacked == b.net && onCPU || r.near[b.Model.Name] {
		return nil
	}
	reference := b.net
	if !onCPU {
		pool := ort.NewPool(0, comparedImages)
		defer pool.Close()
		here, err := r.networkOn(pool, b.Model, false)
		if err != nil {
			return err
		}
		defer here.Close()
		reference = here
	}
	apart, err := control.Apart(ctx, reference, b.attacked, min(comparedImages, b.set.Len()), b.set.image)
	if err == nil {
		err = apart.Check()
	}
	if err != nil {
		return fmt.Errorf("model %s: %w; take provider cpu", b.Model.Name, err)
	}
	r.near[b.Model.Name] = true
	return nil
}
