package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"selfheal/attacks"
	"selfheal/harness/result"
)

// crafted is what a recipe made of a set of images against one classifier.
type crafted struct {
	each    []attempt
	within  ball
	steps   []result.Step
	seconds float64
	wrong   int // successes that an attack claimed and the judge did not see
	// verdictOnly says that attacks ended at the first success: the images are
	// adversarial, but not what full strength would have made of them.
	verdictOnly bool
	warnings    []result.Warning
}

// attempt is what was made of one image. While it is attacked it belongs to one goroutine.
type attempt struct {
	image   []float32 // the clean image where the attack never succeeded
	first   int       // iteration of the first success over all components, −1 if never
	queries int       // forward passes made until then, −1 if never
	nearest float64   // smallest norm of a misclassified point that an attack which minimises it found, 0 if none did
	robust  bool      // still right after all components

	spent, asked int // iterations and forward passes of the components so far
	seen         watched
}

// untouched are the clean images as if an attack had made them.
func untouched(set []attacks.Image) *crafted {
	c := &crafted{each: make([]attempt, len(set)), steps: []result.Step{}}
	for i, im := range set {
		c.each[i] = attempt{image: im.Pixels, first: -1, queries: -1}
	}
	return c
}

// images is what was crafted, to judge a classifier on. clean are its verdicts on the clean
// images, which hold where no attack broke the image; nil where there are none.
func (c *crafted) images(set []attacks.Image, clean []verdict) images {
	of := images{clean: set, adversarial: make([][]float32, len(set)), within: c.within}
	if clean != nil {
		of.known = make([]*verdict, len(set))
	}
	for i, a := range c.each {
		of.adversarial[i] = a.image
		if clean != nil && a.first < 0 {
			of.known[i] = &clean[i]
		}
	}
	return of
}

// order is what is to be crafted: a recipe's images on an oracle.
type order struct {
	recipe      attacks.Recipe
	seed        uint64
	verdictOnly bool // nobody needs the images: an attack ends at an image's first success
	cell        cellID
	label       string // of the cell in lines of progress
	set         []attacks.Image
	clean       []verdict // of the oracle's classifier
}

// craft runs a recipe's components in order on an oracle, each on the images that its
// classifier still gets right, from the clean image. After each component the judge
// measures what it returned and asks the classifier again; only that decides.
func (r *run) craft(ctx context.Context, on *oracle, order order) (*crafted, error) {
	start, n := time.Now(), len(order.set)
	w := &workshop{crafted: untouched(order.set), order: order, on: on}
	w.within, w.crafted.verdictOnly = ball{order.recipe.Norm, order.recipe.Epsilon}, order.verdictOnly
	for i, v := range order.clean {
		if w.each[i].robust = v.right; v.right {
			w.standing++
		}
	}
	for _, component := range order.recipe.Components {
		var todo []int
		for i, a := range w.each {
			if a.robust {
				todo = append(todo, i)
			}
		}
		if len(todo) == 0 {
			break
		}
		began, counter := time.Now(), &counted{oracle: on}
		f, b := component.Passes(on.Classes())
		id := componentID{order.cell, component.Name(), order.seed, order.label}
		p := r.progress.component(id, len(todo), w.standing, n,
			int64(len(todo))*int64(f+b), counter)
		err := r.forEach(ctx, len(todo), on.state, func(ctx context.Context, k int) error {
			standing, err := w.attack(ctx, component, counter, todo[k])
			if err == nil {
				p.image(standing)
			}
			return err
		})
		if err != nil {
			p.stop()
			return nil, err
		}
		p.finish(w.standing)
		forward, backward := counter.passes()
		w.steps = append(w.steps, result.Step{
			Attack: component.Name(), Attacked: len(todo), Robust: float64(w.standing) / float64(n),
			Forward: forward, Backward: backward, Seconds: time.Since(began).Seconds(),
		})
	}
	w.seconds = time.Since(start).Seconds() // what follows looks for faults, and is no part of the attack
	if order.recipe.Norm == attacks.Linf && slices.ContainsFunc(w.each, func(a attempt) bool { return a.seen.asked }) {
		var err error
		if w.warnings, err = r.unbounded(ctx, on, order.set, w.crafted); err != nil {
			return nil, err
		}
	}
	return w.crafted, nil
}

// workshop is the state of crafting.
type workshop struct {
	*crafted
	order
	on *oracle

	mu       sync.Mutex // guards what follows, and crafted.wrong
	standing int        // images that are still right
}

// attack runs a component on one image and has its claim judged. It returns how many
// images still stand.
//
// Where a verdict alone was asked for and the judge refutes the claim, as it may at a
// boundary or with random answers, the component is run once more at full strength:
// it would have gone on, and what it returns then is judged instead.
func (w *workshop) attack(ctx context.Context, component attacks.Attack, counter *counted, i int) (standing int,
	err error) {
	a := &w.each[i]
	on := &watch{counted: counter, seen: &a.seen}
	how := attacks.Options{Seed: w.seed, VerdictOnly: w.order.verdictOnly}
	res, broken, err := w.try(ctx, component, on, i, how)
	if err == nil && how.VerdictOnly && res.Adversarial != nil && !broken {
		how.VerdictOnly = false
		res, broken, err = w.try(ctx, component, on, i, how)
	}
	if err != nil {
		return 0, err
	}
	a.spent += res.Iterations
	a.asked += res.Forward
	if d := res.Distance; d > 0 && (a.nearest == 0 || d < a.nearest) {
		a.nearest = d
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if broken {
		a.robust = false
		w.standing--
	} else if res.Adversarial != nil {
		w.wrong++
	}
	return w.standing, nil
}

// try runs an attack on one image; broken is the judge's word on what it returned.
func (w *workshop) try(ctx context.Context, a attacks.Attack, on attacks.Oracle, i int, how attacks.Options) (
	res attacks.Result, broken bool, err error) {
	im, made := w.set[i], &w.each[i]
	if res, err = a.Perturb(ctx, on, im, how); err != nil || res.Adversarial == nil {
		return res, false, err
	}
	v, err := w.on.of.judge(ctx, im, res.Adversarial, w.within, answerOnly)
	if err != nil && !errors.As(err, new(notFinite)) {
		return res, false, fmt.Errorf("%s, image %d: %w", a.Name(), im.ID, err)
	}
	if broken = !v.right; broken {
		made.image, made.first, made.queries = res.Adversarial, made.spent+res.FirstSuccess, made.asked+res.FirstForward
	}
	return res, broken, nil
}

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
