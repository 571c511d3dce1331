package harness

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/harness/result"
)

// order is what is to be crafted: a recipe's images on an oracle.
type order struct {
	recipe      attacks.Recipe
	seed        uint64
	verdictOnly bool // nobody needs the images: an attack ends at an image's first success
	cell        cellID
	label       string // of the cell in lines of progress
	key         string // in the journal
	set         images
	clean       []verdict // of the oracle's classifier
	proves      bool      // bounds decide images behind the first component
	prover      prover    // that proves them; nil where none can be proven now
}

// craft runs a recipe's components in order on an oracle, each on the images that its
// classifier still gets right, from the clean image. After each component the judge
// measures what it returned and asks the classifier again; only that decides. What the
// journal holds is not done again.
func (r *run) craft(ctx context.Context, on *oracle, order order) (*crafted, error) {
	w := &workshop{crafted: untouched(), order: order, run: r, on: on,
		proven: map[int]bool{}, freed: !r.again[order.key] && r.journal.Block(freedKey(order.key)).Written()}
	w.each = slices.Repeat([]attempt{intact}, order.set.Len())
	w.within, w.crafted.verdictOnly = ball{order.recipe.Norm, order.recipe.Epsilon}, order.verdictOnly
	w.freed = w.freed || r.merging
	var err error
	if !r.merging {
		w.images, err = r.journal.Vectors(fileOf(order.key), on.Shape().Size())
	}
	if err != nil {
		return nil, err
	}
	for i, v := range order.clean {
		if w.each[i].Robust = v.Right; v.Right {
			w.standing++
		}
	}
	if w.own = order.set.mine(); order.set.shard > 0 {
		w.tally = r.tally
	}
	w.tally.at(w.own, w.standing, false)
	for k, component := range order.recipe.Components {
		if w.standing == 0 {
			break
		}
		if err := w.apply(ctx, k, component); err != nil {
			return nil, err
		}
		if k == 0 && order.proves {
			if err := w.prove(ctx); err != nil {
				return nil, err
			}
		}
	}
	w.tally.at(w.own, w.standing, true)
	if r.cfg.Runtime.Reduced() != "" && order.recipe.Corruption == nil {
		if err := w.again(ctx); err != nil {
			return nil, err
		}
	}
	if order.recipe.Norm == attacks.Linf && slices.ContainsFunc(w.each, func(a attempt) bool { return a.Seen.Asked }) {
		w.warnings, err = r.unbounded(ctx, on, order, w.crafted)
	}
	return w.crafted, err
}

// fileOf names the file of a key's images.
func fileOf(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key)))[:16] }

// freedKey says in the journal that nobody needs a key's images any more.
func freedKey(key string) string { return "freed " + key }

// workshop is the state of crafting.
type workshop struct {
	*crafted
	order
	run    *run
	on     *oracle
	freed  bool // nobody needs the images
	own    int  // images that are this run's to attack
	tally  *tally
	proven map[int]bool // images that bounds were asked about, and what came of it

	mu       sync.Mutex // guards what follows, and crafted.refuted
	standing int        // images that are still right
}

// aftermath is the journal's unit of crafting: an image after a component.
type aftermath struct {
	attempt
	Refuted   bool  `json:"refuted,omitempty"` // a success was claimed that the judge did not see
	Logits    int64 `json:"logits"`            // passes that the component made for it
	Gradients int64 `json:"gradients,omitempty"`
}

// take takes in what became of an image.
func (w *workshop) take(i int, to aftermath) (standing int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each[i] = to.attempt
	if to.Refuted {
		w.refuted++
	}
	if !to.Robust {
		w.standing--
	}
	w.tally.at(w.own, w.standing, false)
	return w.standing
}

// apply runs the k-th component on the images that still stand.
func (w *workshop) apply(ctx context.Context, k int, component attacks.Attack) error {
	var todo []int
	for i, a := range w.each {
		if a.Robust && !w.proven[i] {
			todo = append(todo, i)
		}
	}
	of, n, counter := len(todo), len(w.each), &counted{oracle: w.on}
	id := componentID{w.cell, component.Name(), w.seed, w.label}
	held, lost := make([]bool, n), 0
	work, err := recall(w.run.journal, fmt.Sprintf("%d %s %s", k, component.Name(), w.key), func(i int, to aftermath) {
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
		counter.logits.Add(to.Logits)
		counter.gradients.Add(to.Gradients)
		w.take(i, to)
	})
	if err != nil {
		return err
	}
	if lost > 0 {
		w.run.progress.report(imagesLost{id, lost})
	}
	todo = slices.DeleteFunc(todo, func(i int) bool { return held[i] })
	if len(todo) > 0 {
		f, b := component.Passes(w.on.Classes())
		p := w.run.progress.component(id, len(todo), w.standing, w.own, int64(len(todo))*int64(f+b), counter)
		err := w.run.over(ctx, w.set, todo, w.on.state, func(ctx context.Context, i int) error {
			made, err := w.attack(ctx, component, counter, i)
			if err == nil {
				err = work.done(i, made)
			}
			if err == nil {
				p.image(w.take(i, made))
			}
			return err
		})
		if err != nil {
			p.stop()
			return err
		}
		p.finish(w.standing)
	}
	forward, backward := counter.passes()
	seconds := work.seconds()
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
// attack. Then the component is run once more, at full strength and in the judge's arithmetic, and what it returns
// then is judged instead.
func (w *workshop) attack(ctx context.Context, component attacks.Attack, counter *counted, i int) (made aftermath,
	err error) {
	made.attempt = w.each[i]
	im, err := w.set.image(i)
	if err != nil {
		return made, err
	}
	how := attacks.Options{Seed: w.seed, VerdictOnly: w.order.verdictOnly}
	res, broken, err := w.try(ctx, component, &watch{counted: counter, made: &made}, im, how)
	if exact := counter.exact; err == nil && refuted(res, broken) && (how.VerdictOnly || exact != nil) {
		how.VerdictOnly = false
		again := &counted{oracle: cmp.Or(exact, counter.oracle)}
		res, broken, err = w.try(ctx, component, &watch{counted: again, made: &made}, im, how)
		counter.logits.Add(again.logits.Load())
		counter.gradients.Add(again.gradients.Load())
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

// try runs an attack on one image; whether that is broken is the judge's word on what the attack returned.
func (w *workshop) try(ctx context.Context, a attacks.Attack, on attacks.Oracle, im attacks.Image,
	how attacks.Options) (res attacks.Result, broken bool, err error) {
	if res, err = a.Perturb(ctx, on, im, how); err != nil || res.Adversarial == nil {
		return res, false, err
	}
	v, err := w.on.of.judge(ctx, im, res.Adversarial, w.within, answerOnly)
	if err != nil && !errors.As(err, new(notFinite)) {
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

// takesGradients reports whether any component does.
func takesGradients(r attacks.Recipe, classes int) bool {
	return slices.ContainsFunc(r.Components, func(c attacks.Attack) bool {
		_, backward := c.Passes(classes)
		return backward > 0
	})
}
