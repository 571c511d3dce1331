package harness

import (
	"context"
	"fmt"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/result"
	"selfheal/internal/number"
)

// bench is a job with everything open that its cells share.
type bench struct {
	Job
	net         *control.Network
	set         []attacks.Image
	recipes     []attacks.Recipe // of the job's attacks
	classifiers []classifier     // the network alone, then under each control
}

// job makes the cells of one model of one suite, and its solver study: for each oracle and seed, every attack is
// crafted, and every classifier that listens is scored on it. In an oblivious suite all
// listen to what was made on the undefended network, in a white-box suite each to its own.
func (r *run) job(ctx context.Context, j Job) error {
	b := &bench{Job: j}
	var err error
	if b.set, b.net, b.recipes, err = r.prepare(j); err != nil {
		return err
	}
	defer b.net.Close()
	b.classifiers = []classifier{{net: b.net}}
	for _, name := range j.Suite.Controls {
		loop, err := r.controller(ctx, b.net, r.cfg.Control(name), true)
		if err != nil {
			return err
		}
		defer loop.Close()
		b.classifiers = append(b.classifiers, classifier{b.net, loop})
	}
	r.gallery.found = map[slot]*candidate{}
	together := 1 // classifiers that listen to the same images
	if j.Suite.Mode == result.Oblivious {
		together = len(b.classifiers)
	}
	for listeners := range slices.Chunk(b.classifiers, together) {
		if err := r.attackEach(ctx, b, listeners); err != nil {
			return err
		}
	}
	if err := r.exhibit(ctx, b); err != nil {
		return err
	}
	return r.study(ctx, b)
}

// attackEach scores listeners on clean images and under every attack on the first of them, under
// every seed. One whose answers on clean images are not finite is not attacked.
func (r *run) attackEach(ctx context.Context, b *bench, listeners []classifier) error {
	on, err := oracleOf(listeners[0], b.Suite.Mode)
	if err != nil {
		return fmt.Errorf("suite %s: %w", b.Suite.Name, err)
	}
	defer on.close()
	clean := make([][]verdict, len(listeners))
	untouched := untouched(b.set)
	for k, c := range listeners {
		if clean[k], err = r.score(ctx, scoring{bench: b, who: c, made: untouched}); err != nil {
			return err
		}
	}
	for n, seed := range r.seeds() {
		for i := range b.Attacks {
			a := &b.Attacks[i]
			var made *crafted
			if clean[0] != nil {
				if made, err = r.crafted(ctx, b, on, i, seed, clean[0]); err != nil {
					return err
				}
			}
			for k, c := range listeners {
				s := scoring{bench: b, who: c, attack: a, recipe: b.recipes[i], made: made, clean: clean[k], seed: seed}
				if n == 0 {
					_, err = r.score(ctx, s)
				} else {
					err = r.rescore(ctx, s)
				}
				if err != nil {
					return err
				}
			}
			if n == 0 && made != nil && b.Suite.SaveAdversarial {
				if err := r.journal.adversarial(b.Job, listeners[0].defense(), *a, b.net.Shape(), made); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// crafted makes the i-th attack on an oracle under a seed, unless the run has done so before.
func (r *run) crafted(ctx context.Context, b *bench, on *oracle, i int, seed uint64, clean []verdict) (*crafted,
	error) {
	a, recipe := b.Attacks[i], b.recipes[i]
	use := r.uses[b.key(a, on.of.defense(), seed)]
	if use.made == nil {
		label := fmt.Sprintf("[%d/%d] %s, %s", len(r.record.Cells)+1, r.plan.Cells(), b.Model.Name, a.Name)
		if len(a.Epsilons) > 1 {
			label += " " + number.Format(a.Epsilon)
		}
		if on.of.loop != nil {
			label += ", " + b.Suite.Mode + " " + on.of.defense()
		}
		if seed != r.cfg.Seed {
			label += fmt.Sprintf(", seed %d", seed)
		}
		var err error
		cell := identity(scoring{bench: b, who: on.of, attack: &a}.cell())
		use.made, err = r.craft(ctx, on, order{recipe: recipe, seed: seed, cell: cell, label: label, set: b.set,
			clean: clean, verdictOnly: !use.images && !recipe.Minimises})
		if err != nil {
			return nil, fmt.Errorf("suite %s, %s, attack %s: %w", b.Suite.Name, on.of, a.Name, err)
		}
	}
	return use.take(), nil
}
