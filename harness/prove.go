package harness

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/models/bounds"
)

// prover proves an image of an oracle's classifier within an attack's ball.
type prover func(ctx context.Context, im attacks.Image) (bool, error)

// proverOf is an attack's where the config asks for it and the classifier has bounds; a merge's proves nothing anew.
func (r *run) proverOf(s scoring, who classifier) (prover, error) {
	if !s.attack.Prove || r.merging {
		return nil, nil
	}
	n, err := s.bounder(who)
	if err != nil {
		if errors.As(err, new(unbounded)) {
			err = nil
		}
		return nil, err
	}
	return func(ctx context.Context, im attacks.Image) (bool, error) {
		region := s.attack.region(im.Pixels)
		margins, err := n.Margins(ctx, bounds.AlphaCROWN, region, im.Label, bounds.Positive)
		if err != nil || !bounds.Positive(margins) {
			return false, err
		}
		return true, s.hold(ctx, who, region, im)
	}, nil
}

// lately is how many proofs the chance of the next is told by.
const lately = 8

// prove has bounds decide images that the first component has left, those of large margins first, as long as that
// pays: as long as what the components to come would take for an image, times the chance that it is proven, is more
// than a proof takes. No verdict depends on it, since a proven image stands every attack.
func (w *workshop) prove(ctx context.Context) error {
	work, err := recall(w.run.journal, "proven "+w.key, func(i int, is bool) { w.proven[i] = is })
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
		proofs := work.seconds() / float64(max(len(w.proven), 1)) // seconds each, all cores at work
		hits := howMany(recent, func(is bool) bool { return is })
		return rest*float64(hits+1)/float64(len(recent)+2) > proofs
	}
	began := time.Now()
	for len(todo) > 0 && w.prover != nil && pays() {
		some := todo[:min(w.run.cores(), len(todo))]
		todo = todo[len(some):]
		var mu sync.Mutex
		err := sideBySide(ctx, some, len(some), func(ctx context.Context, i int) error {
			im, err := w.set.image(i)
			if err != nil {
				return err
			}
			is, err := w.prover(ctx, im)
			if err == nil {
				err = work.done(i, is)
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
			w.run.progress.report(imagesProven{w.cell, w.certain(), len(w.proven), w.standing, time.Since(began),
				w.label})
		}
	}
	if len(w.proven) == 0 {
		return nil
	}
	seconds := work.seconds()
	w.seconds += seconds
	w.steps = append(w.steps, result.Step{Attack: attacks.Bounds{}.Name(), Attacked: len(w.proven), Proven: w.certain(),
		Robust: w.steps[0].Robust, Seconds: seconds})
	return nil
}

// certain is how many images are proven.
func (w *workshop) certain() int {
	n := 0
	for _, is := range w.proven {
		if is {
			n++
		}
	}
	return n
}

// rest is about how long the components behind the first take for an image that stands, going by the first one's time.
func (w *workshop) rest() float64 {
	first := w.steps[0]
	passes := 0.0
	for _, c := range w.recipe.Components[1:] {
		f, b := c.Passes(w.on.Classes())
		passes += float64(f)*w.on.cost.Forward + float64(b)*w.on.cost.Backward
	}
	return passes * first.Seconds / float64(max(first.Forward+first.Backward, 1))
}

// unrewritten reports whether a model runs as its file has it, not as package optimize rewrites it: bounds are of the
// network that is judged.
func unrewritten(cfg *config.Config, model string) bool {
	return slices.ContainsFunc(cfg.Suites, func(s config.Suite) bool {
		return slices.Contains(s.Models, model) && slices.ContainsFunc(s.Attacks, func(name string) bool {
			a := cfg.Attack(name)
			return a != nil && (a.Prove || PlannedAttack{Attack: a}.bounds())
		})
	})
}
