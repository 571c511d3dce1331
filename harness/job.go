package harness

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/number"
	"selfheal/models/bounds"
)

// bench is a job with everything open that its cells share.
type bench struct {
	Job
	net         *control.Network
	attacked    *control.Network // net, or the same where attacks run, if that is somewhere else
	set         images
	recipes     []attacks.Recipe           // of the job's attacks
	classifiers []classifier               // the network alone, then under each control
	bounders    map[string]*bounds.Network // by defense, as far as they were asked for
	file        *original                  // once it was asked for
	openFile    func() (*original, error)
	opening     sync.Mutex // guards bounders and file
}

// job makes the cells of one model of one suite, and its solver study: for each oracle and seed, every attack is
// crafted, and every classifier that listens is scored on it. In an oblivious suite all
// listen to what was made on the undefended network, in a white-box suite each to its own.
func (r *run) job(ctx context.Context, j Job) error {
	b, err := r.bench(ctx, j)
	if err != nil {
		return err
	}
	defer b.close()
	r.gallery.begin(j)
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
	if err := r.study(ctx, b); err != nil {
		return err
	}
	return r.release(j)
}

// bench opens what a job's cells share, and has the journal keep what a merge needs of it.
func (r *run) bench(ctx context.Context, j Job) (b *bench, err error) {
	if r.merging {
		return r.recorded(j)
	}
	if b, err = r.prepare(j); err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	b.classifiers = append(b.classifiers, alone(b.net))
	for _, name := range j.Suite.Controls {
		loop, err := r.controller(ctx, b.net, r.cfg.Control(name), true)
		if err != nil {
			return b, err
		}
		b.classifiers = append(b.classifiers, under(loop, b.net))
	}
	if r.shard.N == 0 {
		return b, nil
	}
	b.set.shard, b.set.owner = r.shard.I, r.shares.of(j)
	if len(b.set.owner) != b.set.Len() {
		return b, fmt.Errorf("%s is of other data; %w", sharesPath(filepath.Dir(r.out.dir), r.shard.N), ErrOtherRun)
	}
	return b, r.keep(b)
}

// close frees a job's networks.
func (b *bench) close() {
	if b.file != nil {
		b.file.Close()
	}
	for _, n := range b.bounders {
		n.Close()
	}
	for _, c := range b.classifiers {
		if c.loop != nil {
			c.loop.Close()
		}
	}
	if b.attacked != nil && b.attacked != b.net {
		b.attacked.Close()
	}
	if b.net != nil {
		b.net.Close()
	}
}

// oracle is what the job's attacker asks of a classifier. Close it before the classifier.
func (b *bench) oracle(c classifier) (*oracle, error) {
	if b.attacked == nil || b.attacked == b.net {
		return oracleOf(c, b.Suite.Mode)
	}
	exact, err := oracleOf(c, b.Suite.Mode)
	if err != nil {
		return nil, err
	}
	there, closeLoop := alone(b.attacked), func() {}
	if c.loop != nil {
		loop, err := c.loop.around(b.attacked)
		if err != nil {
			exact.close()
			return nil, err
		}
		there, closeLoop = under(loop, b.attacked), loop.Close
	}
	on, err := oracleOf(there, b.Suite.Mode)
	if err != nil {
		closeLoop()
		exact.close()
		return nil, err
	}
	inner := on.close
	on.of, on.exact, on.close = c, exact, func() { inner(); closeLoop(); exact.close() }
	return on, nil
}

// attackEach scores listeners on clean images and under every attack on the first of them, under
// every seed. One whose answers on clean images are not finite is not attacked.
func (r *run) attackEach(ctx context.Context, b *bench, listeners []classifier) error {
	on, err := r.oracle(b, listeners[0])
	if err != nil {
		return fmt.Errorf("suite %s: %w", b.Suite.Name, err)
	}
	defer on.close()
	clean := make([]*judged, len(listeners))
	for k, c := range listeners {
		if clean[k], err = r.score(ctx, scoring{bench: b, who: c, made: untouched()}); err != nil {
			return err
		}
	}
	for n, seed := range r.seeds() {
		for i, a := range b.Attacks {
			if n > 0 && a.bounds() {
				continue
			}
			s := scoring{bench: b, attack: &b.Attacks[i], recipe: b.recipes[i], seed: seed}
			if err := r.attack(ctx, s, on, n, listeners, clean); err != nil {
				return err
			}
		}
	}
	return nil
}

// attack crafts an attack under the n-th seed and scores listeners on it.
func (r *run) attack(ctx context.Context, s scoring, on *oracle, n int, listeners []classifier,
	clean []*judged) error {
	if clean[0] != nil && !s.attack.proves() {
		var err error
		if s.made, err = r.crafted(ctx, s, on, clean[0]); err != nil {
			return err
		}
	}
	for k, c := range listeners {
		s.who, s.clean = c, clean[k]
		var err error
		if s.attack.proves() && s.clean != nil {
			if s.made, err = r.certified(ctx, s); err != nil {
				return err
			}
		}
		if n == 0 {
			_, err = r.score(ctx, s)
		} else {
			err = r.rescore(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	if n > 0 && !s.attack.proves() { // the gallery and studies take the first seed's
		return r.used(s.Job.key(*s.attack, on.of.defense(), s.seed))
	}
	if s.made != nil && s.Suite.SaveAdversarial && !s.attack.proves() {
		return r.adversarial(s.bench, listeners[0].defense(), *s.attack, s.made)
	}
	return nil
}

// crafted makes an attack on an oracle under a seed, unless the run has done so before.
func (r *run) crafted(ctx context.Context, s scoring, on *oracle, clean *judged) (*crafted, error) {
	a, recipe := s.attack, s.recipe
	key := s.Job.key(*a, on.of.defense(), s.seed)
	use := r.uses[key]
	if use.made == nil && a.corruption() != nil {
		use.made = corrupted(*a, s.seed)
	}
	if use.made != nil {
		return use.made, nil
	}
	s.who = on.of
	prover, err := r.proverOf(s, on.of)
	if err != nil {
		return nil, err
	}
	made, err := r.craft(ctx, on, order{recipe: recipe, seed: s.seed, cell: identity(s.cell()), label: r.label(s),
		key: key.String(), set: s.set, clean: clean.verdicts, proves: a.Prove, prover: prover,
		verdictOnly: !use.images && !recipe.Minimises})
	if err != nil {
		return nil, fmt.Errorf("suite %s, %s, attack %s: %w", s.Suite.Name, on.of, a.Name, err)
	}
	use.made = made
	return made, nil
}

// label names what is attacked, or certified, in lines of progress.
func (r *run) label(s scoring) string {
	a := s.attack
	label := fmt.Sprintf("%s, %s", s.Model.Name, a.Name)
	if s.seed == r.cfg.Seed && r.shard.N == 0 {
		label = fmt.Sprintf("[%d/%d] ", len(r.record.Cells)+1, r.plan.Cells()) + label
	}
	if len(a.Epsilons) > 1 {
		label += " " + number.Format(a.Epsilon)
	}
	if s.who.Control != nil {
		label += ", " + s.Suite.Mode + " " + s.who.defense()
	}
	if s.seed != r.cfg.Seed {
		label += fmt.Sprintf(", seed %d", s.seed)
	}
	return label
}

// release gives up what a job, which is done, needed of the first seed.
func (r *run) release(j Job) error {
	for k := range j.needs(r.seeds()[:1]) {
		if err := r.used(k.craftKey); err != nil {
			return err
		}
	}
	if r.studied(j) != nil {
		return r.used(j.key(*j.StudyAttack, config.None, r.cfg.Seed))
	}
	return nil
}

// used says that one need of what was crafted under a key is met. After the last one its images are freed:
// those of a whole run would fill the disk.
func (r *run) used(k craftKey) error {
	u := r.uses[k]
	if u.left--; u.left > 0 || u.made == nil {
		return nil
	}
	images := u.made.images
	if u.made = nil; images == nil {
		return nil // of a corruption
	}
	return r.free(k.String(), images)
}

// free removes a key's images, once the journal says that nobody needs them.
func (r *run) free(key string, images *journal.Vectors) error {
	if r.merging { // which has none
		return nil
	}
	_, err := once(r, freedKey(key), func() (bool, error) { return true, nil })
	if err != nil {
		return err
	}
	return images.Remove()
}

// need is something that a job needs crafted: its attack under its n-th seed.
type need struct {
	craftKey
	attack PlannedAttack
	n      int
}

// needs are a job's, those of a defense together. Certificates are needed of every defense.
func (j Job) needs(seeds []uint64) iter.Seq[need] {
	return func(yield func(need) bool) {
		for i, defense := range append([]string{config.None}, j.Suite.Controls...) {
			attacked := i < len(j.attacked())
			for n, seed := range seeds {
				for _, a := range j.Attacks {
					if n > 0 && a.bounds() {
						continue
					}
					if (attacked || a.proves()) && !yield(need{j.key(a, defense, seed), a, n}) {
						return
					}
				}
			}
		}
	}
}

// crafts are what a plan's run crafts, each with the job that asks for it first, in the order in which it is made.
func (p *Plan) crafts() iter.Seq2[Job, need] {
	return func(yield func(Job, need) bool) {
		seen := map[craftKey]bool{}
		for _, j := range p.Jobs {
			for k := range j.needs(p.seeds()) {
				if !seen[k.craftKey] && !yield(j, k) {
					return
				}
				seen[k.craftKey] = true
			}
		}
	}
}
