package run

import (
	"context"
	"fmt"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
)

// Attacks may run in another arithmetic than the judge. The judge sees every image that they break. A sample of the
// images that they leave is attacked again in the judge's arithmetic: at least leastAgain images, and a share of
// againShare.
const (
	leastAgain = 50
	againShare = 0.05
)

// again attacks the sample of a crafting's images that stand, and counts those that stand again.
func (w *crafting) again() error {
	sample := w.sample()
	stands := map[int]bool{}
	work, err := folder.Recall(w.run.journal, w.key.As("again"), func(i int, stood bool) { stands[i] = stood })
	if err != nil {
		return err
	}
	todo := slices.DeleteFunc(slices.Clone(sample), func(i int) bool { _, held := stands[i]; return held })
	if err := w.run.journal.Open(w.set, todo); err != nil {
		return err
	}
	if len(todo) > 0 {
		exact := &open.Counted{Oracle: w.on.Exact}
		p := w.run.Progress.Component(progress.ComponentID{CellID: w.cell, Component: "again in float32", Seed: w.seed,
			Label: w.label}, w.work(todo, exact, w.recipe.Components...))
		err = w.run.ForEach(w.run.ctx, len(todo), w.on.State, func(ctx context.Context, k int) error {
			i := todo[k]
			stood, err := w.standsExactly(ctx, exact, i)
			if err == nil {
				err = work.Done(i, stood)
			}
			p.Image(w.standing)
			w.mu.Lock()
			defer w.mu.Unlock()
			stands[i] = stood
			return err
		})
		if err != nil {
			p.Stop()
		} else {
			p.Finish(w.standing)
		}
	}
	w.agreement = &result.Agreement{N: len(sample), Agree: howMany(sample, func(i int) bool { return stands[i] })}
	return err
}

// sample is a sample of the images that stand: the first in the order that a hash gives them, so that it follows from
// the seed, their ids and how many stand. A shard, which knows only its own, takes all that may be in it.
func (w *crafting) sample() []int {
	var standing, ids []int
	for i, a := range w.each {
		if a.Robust && w.set.Own(i) {
			standing, ids = append(standing, i), append(ids, w.set.ID(i))
		}
	}
	most := len(standing)
	if w.set.Shared() {
		most += w.set.Len() - w.own
	}
	var sample []int
	for _, k := range plan.ByHash(ids, fmt.Sprintf("%d ", w.seed))[:min(Sampled(most), len(standing))] {
		sample = append(sample, standing[k])
	}
	return sample
}

// Sampled is the size of the sample of so many images that stand.
func Sampled(standing int) int {
	return min(standing, max(leastAgain, int(math.Ceil(againShare*float64(standing)))))
}

// standsExactly attacks an image in the judge's arithmetic, for a verdict alone: at full strength where that is
// refuted.
func (w *crafting) standsExactly(ctx context.Context, exact attacks.Oracle, i int) (bool, error) {
	im, err := w.set.Read(i)
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
