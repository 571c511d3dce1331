package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
)

// crafting is the making of adversarial images: a recipe on an oracle.
type crafting struct {
	recipe      attacks.Recipe
	trial       plan.Trial // whose images bounds may decide behind the first component; nil for none
	seed        uint64
	verdictOnly bool // nobody needs the images: an attack ends at an image's first success
	cell        progress.CellID
	label       string // of the cell in lines of progress
	key         folder.Key
	set         open.Images
	clean       []verdict // of the oracle's classifier

	*crafted
	run    *run
	on     *open.Oracle
	freed  bool // nobody needs the images
	own    int  // images that are this run's to attack
	tally  *folder.Tally
	proven map[int]bool // whether bounds prove the images that they were asked about

	mu       sync.Mutex // guards what follows, and crafted.refuted
	standing int        // images that are still right
}

// craft runs a recipe's components in order on an oracle, each on the images that its classifier still gets right, from
// the clean image. After each component the judge measures its images and asks the classifier again; only that decides.
// Work that the journal holds is not done again.
func (r *run) craft(on *open.Oracle, w *crafting) (*crafted, error) {
	w.crafted, w.run, w.on, w.proven = untouched(), r, on, map[int]bool{}
	w.each = slices.Repeat([]attempt{intact}, w.set.Len())
	w.within, w.crafted.verdictOnly = plan.Ball{Norm: w.recipe.Norm, Epsilon: w.recipe.Epsilon}, w.verdictOnly
	var err error
	if w.images, err = r.journal.Vectors(fileOf(w.key), on.Shape().Size()); err != nil {
		return nil, err
	}
	w.freed = w.images == nil || !r.again[w.key.String()] && r.journal.Block(w.key.As("freed")).Written()
	for i, v := range w.clean {
		if w.each[i].Robust = v.Right; v.Right {
			w.standing++
		}
	}
	if w.own = w.set.Mine(); w.set.Shared() {
		w.tally = r.tally
	}
	w.tally.At(w.own, w.standing, false)
	for k, component := range w.recipe.Components {
		if w.standing == 0 {
			break
		}
		if err := w.apply(k, component); err != nil {
			return nil, err
		}
		if k == 0 && w.trial != nil && w.trial.Setting().Prove {
			if err := w.prove(); err != nil {
				return nil, err
			}
		}
	}
	w.tally.At(w.own, w.standing, true)
	if r.Config.Runtime.Reduced() != "" {
		if err := w.again(); err != nil {
			return nil, err
		}
	}
	asked := slices.ContainsFunc(w.each, func(a attempt) bool { return a.Seen.Asked })
	if w.recipe.Norm == attacks.Linf && asked {
		w.warnings, err = r.unbounded(w)
	}
	return w.crafted, err
}

// fileOf names the file of a key's images.
func fileOf(k folder.Key) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(k.String())))[:16] }

// componentResult is the journal's unit of crafting: an image after a component.
type componentResult struct {
	attempt
	Refuted   bool  `json:"refuted,omitempty"` // a success was claimed that the judge did not see
	Logits    int64 `json:"logits"`            // passes that the component made for it
	Gradients int64 `json:"gradients,omitempty"`
}

// take takes in an image after a component.
func (w *crafting) take(i int, to componentResult) (standing int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each[i] = to.attempt
	if to.Refuted {
		w.refuted++
	}
	if !to.Robust {
		w.standing--
	}
	w.tally.At(w.own, w.standing, false)
	return w.standing
}

// work is what a component, or several, have to do on images.
func (w *crafting) work(todo []int, on *open.Counted, components ...attacks.Attack) progress.Work {
	each := 0
	for _, c := range components {
		f, b := c.Passes(w.on.Classes())
		each += f + b
	}
	return progress.Work{Images: len(todo), Standing: w.standing, N: w.own, Passes: int64(len(todo)) * int64(each),
		Width: w.run.Width(on.State), Made: on.Made}
}

// apply runs the k-th component on the images that still stand.
func (w *crafting) apply(k int, component attacks.Attack) error {
	var todo []int
	for i, a := range w.each {
		if a.Robust && !w.proven[i] {
			todo = append(todo, i)
		}
	}
	of, n, counter := len(todo), len(w.each), &open.Counted{Oracle: w.on}
	id := progress.ComponentID{CellID: w.cell, Component: component.Name(), Seed: w.seed, Label: w.label}
	held, lost := make([]bool, n), 0
	key := w.key.As("component")
	key.Part, key.Number = component.Name(), k
	work, err := folder.Recall(w.run.journal, key, func(i int, to componentResult) {
		if _, open := slices.BinarySearch(todo, i); !open || held[i] {
			return
		}
		if !to.Robust && !w.freed {
			if at := to.Image; at == nil || !w.images.Has(*at) {
				lost++
				return
			}
		}
		held[i] = true
		counter.Add(to.Logits, to.Gradients)
		w.take(i, to)
	})
	if err != nil {
		return err
	}
	if lost > 0 {
		w.run.Progress.Report(progress.ImagesLost{ComponentID: id, Lost: lost})
	}
	todo = slices.DeleteFunc(todo, func(i int) bool { return held[i] })
	if err := w.run.journal.Open(w.set, todo); err != nil {
		return err
	}
	if len(todo) > 0 {
		p := w.run.Progress.Component(id, w.work(todo, counter, component))
		err := w.run.ForEach(w.run.ctx, len(todo), w.on.State, func(ctx context.Context, k int) error {
			i := todo[k]
			made, err := w.attack(ctx, component, counter, i)
			if err == nil {
				err = work.Done(i, made)
			}
			if err == nil {
				p.Image(w.take(i, made))
			}
			return err
		})
		if err != nil {
			p.Stop()
			return err
		}
		p.Finish(w.standing)
	}
	forward, backward := counter.Passes()
	seconds := work.Seconds()
	w.seconds += seconds
	w.steps = append(w.steps, result.Step{
		Attack: component.Name(), Attacked: of, Robust: float64(w.standing) / float64(n),
		Forward: forward, Backward: backward, Seconds: seconds,
	})
	return nil
}

// attack runs a component on one image and has its claim judged.
//
// The judge may refute a claim, at a boundary, with random answers or because it has another arithmetic than the
// attack. Then the component is run once more, at full strength and in the judge's arithmetic, and the image that it
// returns then is judged instead.
func (w *crafting) attack(ctx context.Context, component attacks.Attack, counter *open.Counted, i int) (
	made componentResult, err error) {
	made.attempt = w.each[i]
	im, err := w.set.Read(i)
	if err != nil {
		return made, err
	}
	how := attacks.Options{Seed: w.seed, VerdictOnly: w.verdictOnly}
	res, broken, err := w.try(ctx, component, &watch{Counted: counter, made: &made}, im, how)
	if exact := counter.Exact; err == nil && refuted(res, broken) && (how.VerdictOnly || exact != nil) {
		how.VerdictOnly = false
		again := &open.Counted{Oracle: cmp.Or(exact, counter.Oracle)}
		res, broken, err = w.try(ctx, component, &watch{Counted: again, made: &made}, im, how)
		counter.Add(again.Counts())
	}
	if err != nil {
		return made, err
	}
	if broken {
		at, err := w.images.Put(res.Adversarial)
		if err != nil {
			return made, err
		}
		made.Robust, made.Image = false, &at
		made.First, made.Queries = made.Spent+res.FirstSuccess, made.Asked+res.FirstForward
	}
	made.Spent += res.Iterations
	made.Asked += res.Forward
	if d := res.Distance; d > 0 && (made.Nearest == 0 || d < made.Nearest) {
		made.Nearest = d
	}
	made.Refuted = refuted(res, broken)
	return made, nil
}

// try runs an attack on one image; whether that is broken is the judge's word on the image that the attack returned.
func (w *crafting) try(ctx context.Context, a attacks.Attack, on attacks.Oracle, im attacks.Image,
	how attacks.Options) (res attacks.Result, broken bool, err error) {
	if res, err = a.Perturb(ctx, on, im, how); err != nil || res.Adversarial == nil {
		return res, false, err
	}
	v, err := judge(ctx, w.on.Of, im, res.Adversarial, w.within, answerOnly)
	if err != nil && !errors.As(err, new(open.NotFinite)) {
		return res, false, fmt.Errorf("%s, image %d: %w", a.Name(), im.ID, err)
	}
	return res, !v.Right, nil
}

// refuted reports whether an attack claimed a success that the judge did not see.
func refuted(res attacks.Result, broken bool) bool { return res.Adversarial != nil && !broken }

// howMany counts what holds of a list.
func howMany[T any](list []T, holds func(T) bool) (n int) {
	for _, v := range list {
		if holds(v) {
			n++
		}
	}
	return n
}
