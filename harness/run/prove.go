package run

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/progress"
	"selfheal/harness/result"
)

// lately is how many proofs the chance of the next is told by.
const lately = 8

// prove has bounds decide images that the first component has left, those of large margins first, as long as that pays:
// as long as the components to come would take longer for an image, times the chance that it is proven, than a proof.
// No verdict depends on it, since a proven image stands every attack.
func (w *crafting) prove() error {
	prove, err := w.run.prover.Image(w.trial, w.on.Of)
	if err != nil {
		return err
	}
	work, err := folder.Recall(w.run.journal, w.key.As("proven"), func(i int, is bool) { w.proven[i] = is })
	if err != nil {
		return err
	}
	var todo []int
	for i, a := range w.each {
		if _, known := w.proven[i]; a.Robust && !known {
			todo = append(todo, i)
		}
	}
	slices.SortStableFunc(todo, func(i, j int) int { return cmp.Compare(w.clean[j].Margin, w.clean[i].Margin) })
	rest := w.rest()
	var recent []bool
	pays := func() bool {
		proofs := work.Seconds() / float64(max(len(w.proven), 1)) // seconds each, all cores at work
		hits := howMany(recent, func(is bool) bool { return is })
		return rest*float64(hits+1)/float64(len(recent)+2) > proofs
	}
	began := time.Now()
	for len(todo) > 0 && prove != nil && pays() {
		some := todo[:min(w.run.Cores(), len(todo))]
		todo = todo[len(some):]
		var mu sync.Mutex
		err := open.SideBySide(w.run.ctx, some, len(some), func(ctx context.Context, i int) error {
			im, err := w.set.Read(i)
			if err != nil {
				return err
			}
			is, err := prove(ctx, im)
			if err == nil {
				err = work.Done(i, is)
			}
			mu.Lock()
			defer mu.Unlock()
			w.proven[i] = is
			recent = append(recent, is)
			return err
		})
		if err != nil {
			return err
		}
		recent = recent[max(0, len(recent)-lately):]
		if len(todo) == 0 || !pays() {
			w.run.Progress.Report(progress.ImagesProven{CellID: w.cell, Proven: w.certain(), Tried: len(w.proven),
				Robust: w.standing, Took: time.Since(began), Label: w.label})
		}
	}
	if len(w.proven) == 0 {
		return nil
	}
	seconds := work.Seconds()
	w.seconds += seconds
	w.steps = append(w.steps, result.Step{Attack: attacks.BoundsKind, Attacked: len(w.proven), Proven: w.certain(),
		Robust: w.steps[0].Robust, Seconds: seconds})
	return nil
}

// certain is how many images are proven.
func (w *crafting) certain() int {
	n := 0
	for _, is := range w.proven {
		if is {
			n++
		}
	}
	return n
}

// rest is about how long the components behind the first take for an image that stands, going by the first one's time.
func (w *crafting) rest() float64 {
	first := w.steps[0]
	passes := 0.0
	for _, c := range w.recipe.Components[1:] {
		f, b := c.Passes(w.on.Classes())
		passes += float64(f)*w.on.Cost.Forward + float64(b)*w.on.Cost.Backward
	}
	return passes * first.Seconds / float64(max(first.Forward+first.Backward, 1))
}
