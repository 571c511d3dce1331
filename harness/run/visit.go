package run

import (
	"context"
	"fmt"
	"slices"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/certify"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
)

func (r *run) Begin(j *plan.Job) (err error) {
	if r.job, err = r.source.Open(r.ctx, j); err != nil {
		return err
	}
	r.prover = &certify.Prover{Job: r.job, Opener: r.Opener, Journal: r.journal}
	r.gallery.begin(j)
	return nil
}

// Clean scores a group on clean images. A classifier with an answer there that is not finite is not attacked.
func (r *run) Clean(_ *plan.Job, g plan.Group) (err error) {
	r.clean = map[string]*judgement{}
	for _, defense := range g.Scored {
		s := scoring{run: r, Job: r.job, who: r.job.Classifier(defense), made: untouched()}
		if r.clean[defense], err = s.score(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) Try(s plan.Step) error { return s.Trial.Do(r, s) }

// End makes the results that need all trials of a job, and frees what the job kept.
func (r *run) End(j *plan.Job) error {
	r.target.close() // its gradients are not needed any more
	if err := r.exhibit(); err != nil {
		return err
	}
	if err := r.study(); err != nil {
		return err
	}
	var needed []cell.Made
	for _, s := range r.plan.Steps(j) {
		if s.First {
			needed = append(needed, s.Keys()...)
		}
	}
	if r.images.studied(j) != nil {
		needed = append(needed, j.Studied.Key(j, cell.None, r.Config.Seed))
	}
	for _, k := range needed {
		if err := r.images.used(k); err != nil {
			return err
		}
	}
	r.leave()
	return nil
}

func (r *run) leave() {
	r.target.close()
	r.target = nil
	if r.job != nil {
		r.prover.Close()
		r.job.Close()
		r.job = nil
	}
}

func (r *run) scoring(s plan.Step, defense string, made *crafted) scoring {
	one := scoring{run: r, Job: r.job, Trial: s.Trial, Seed: s.Seed, First: s.First, who: r.job.Classifier(defense),
		source: s.Source(), own: s.From == s.Job && slices.Contains(s.Of(s.Group), defense),
		recipe: r.job.Recipes[s.Trial], made: made, clean: r.clean[defense]}
	if made != nil && made.recipe != nil { // the network may have another number of classes
		one.recipe = *made.recipe
	}
	return one
}

// Attack makes an attack's images and scores the group on them.
func (r *run) Attack(s plan.Step) (err error) {
	var made *crafted
	if r.clean[s.Scored[0]] != nil {
		if made, err = r.crafted(s); err != nil {
			return err
		}
	}
	return r.scoreAll(s, made)
}

// Corrupt scores a group on a corruption's images. They are the same for all classifiers, and made again for each.
func (r *run) Corrupt(s plan.Step, c attacks.Corruption) error {
	var made *crafted
	if r.clean[s.Scored[0]] != nil {
		made = untouched()
		made.within = s.Within()
		made.corrupt = func(im attacks.Image) ([]float32, error) {
			x, err := c.Apply(im, s.Seed)
			if err != nil {
				err = fmt.Errorf("image %d: %w", im.ID, err)
			}
			return x, err
		}
	}
	return r.scoreAll(s, made)
}

// scoreAll scores a group on images, saves them and frees them.
func (r *run) scoreAll(s plan.Step, made *crafted) error {
	for _, defense := range s.Scored {
		if err := r.scoring(s, defense, made).step(); err != nil {
			return err
		}
	}
	if !s.First { // the gallery and studies take the first seed's
		return r.images.used(s.Keys()[0])
	}
	if made != nil && s.Suite.SaveAdversarial {
		return r.adversarial(s, made)
	}
	return nil
}

// Certify proves a certificate of every classifier of a group and scores them by it. A smoothed classifier may be
// right on images on which the classifier itself is wrong; bounds prove nothing about those.
func (r *run) Certify(s plan.Step) error {
	for _, defense := range s.Scored {
		one := r.scoring(s, defense, nil)
		if one.clean != nil {
			proofs, err := r.prover.Prove(r.ctx, one.certificate(s.Trial, s.Seed))
			if err != nil {
				return err
			}
			one.made = untouched()
			one.made.proof, one.made.seconds, one.made.warnings = proofs.Proof, proofs.Seconds, proofs.Warnings
		}
		if err := one.step(); err != nil {
			return err
		}
	}
	return nil
}

// crafted makes an attack's images under a seed, once in a run. It returns nil if another source has answers on clean
// images that are not finite.
func (r *run) crafted(s plan.Step) (made *crafted, err error) {
	key := s.Keys()[0]
	use := r.images.uses[key]
	if use.made == nil {
		if err := r.aim(s.Group); err != nil || r.target.clean == nil {
			return nil, err
		}
		one, at := r.scoring(s, s.Attacked, nil), r.target
		w := &crafting{run: r, on: at.oracle, prover: at.prover, recipe: at.job.Recipes[s.Trial], seed: s.Seed,
			cell: one.id(), label: one.label(), key: craftKey(key), set: at.job.Set,
			clean: at.clean.verdicts, trial: s.Trial}
		w.verdictOnly = !use.images && !w.recipe.Minimises
		if use.made, err = w.craft(); err != nil {
			err = fmt.Errorf("suite %s, %s, attack %s: %w", s.Suite.Name, at.oracle.Of, s.Trial.Name(), err)
		}
	}
	if err != nil {
		return nil, err
	}
	return use.made.limited(s.Within()), nil
}

type target struct {
	from   *plan.Job
	of     string    // the defense
	job    *open.Job // the walk's, or another source's
	prover *certify.Prover
	oracle *open.Oracle
	clean  *judgement // nil if the clean images have no verdicts
	other  bool       // another source, which is opened for its images alone
}

func (t *target) close() {
	if t != nil && t.oracle != nil {
		t.oracle.Close()
		t.oracle = nil
		if t.other {
			t.prover.Close()
			t.job.Close()
		}
	}
}

// aim opens the target of a group's attacks, unless it is open.
func (r *run) aim(g plan.Group) (err error) {
	if t := r.target; t != nil && t.oracle != nil && t.from == g.From && t.of == g.Attacked {
		return nil
	}
	r.target.close()
	t := &target{from: g.From, of: g.Attacked, job: r.job, prover: r.prover, clean: r.clean[g.Attacked],
		other: g.From != r.job.Job}
	if t.other {
		if t.job, err = r.source.Open(r.ctx, g.From.Alone()); err != nil {
			return err
		}
		t.prover = &certify.Prover{Job: t.job, Opener: r.Opener, Journal: r.journal}
	}
	who := t.job.Classifier(g.Attacked)
	if t.oracle, err = r.source.Oracle(t.job, who); err != nil {
		if t.other {
			t.job.Close()
		}
		return err
	}
	r.target = t
	if t.other {
		s := scoring{run: r, Job: t.job, who: who, made: untouched()}
		got, failure, err := s.judged(false, "suite "+s.Suite.Name)
		if failure == "" {
			t.clean = got
		}
		return err
	}
	return nil
}

// Source provides a run's inputs: from open networks, or from the journals of shards.
type Source interface {
	// Open opens a job with its classifiers. Close it.
	Open(ctx context.Context, j *plan.Job) (*open.Job, error)
	// Oracle returns the oracle that the job's attacks ask about a classifier. Close it before the job.
	Oracle(j *open.Job, c open.Classifier) (*open.Oracle, error)
	// Adversarial gives the rows of a file of adversarial images to row. made returns this run's own rows, as far as
	// it has them.
	Adversarial(j *open.Job, file string, made func(i int) ([]float32, error), row func([]float32) bool) error
}

type live struct{ *run }

func (l live) Open(ctx context.Context, j *plan.Job) (_ *open.Job, err error) {
	b, kept := l.kept[j]
	if delete(l.kept, j); !kept {
		if b, err = l.Job(j); err != nil {
			return nil, err
		}
	}
	if b.Classifiers == nil {
		err = b.Defend(ctx, true)
	}
	if err == nil && l.part != nil {
		b.Set = b.Set.Share(l.part.Shard)
		err = l.keep(b)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// keep writes what a merge needs of a job to the journal: classifiers, and the names of this shard's images.
func (l live) keep(b *open.Job) error {
	for _, c := range b.Classifiers {
		_, err := folder.Once(l.journal, InfoKey(b.Job, c.Defense(), folder.Classifier),
			func() (open.Info, error) { return c.Info, nil })
		if err != nil {
			return err
		}
	}
	names, todo, err := folder.Recall[open.ImageName](l.journal, ImagesKey(b.Job), b.Set, b.Set.Places(nil), nil)
	for k := 0; k < len(todo) && err == nil; k++ {
		i := todo[k]
		err = names.Done(i, open.ImageName{ID: b.Set.ID(i), Label: b.Set.Label(i)})
	}
	return err
}

// InfoKey returns the journal's key for a classifier's [open.Info], or for the cost of a pass.
func InfoKey(j *plan.Job, defense, what string) folder.Key {
	return suiteKey(j, what, defense)
}

// suiteKey returns the key for a suite's result about a job's model, under a defense or "" for all.
func suiteKey(j *plan.Job, what, defense string) folder.Key {
	return folder.Key{Of: what, Made: cell.Made{ID: cell.Of(j.Suite.Name, j.Model.Name, defense, "", 0)}}
}

// ImagesKey returns the journal's key for the ids and labels of a shard's images of a network.
func ImagesKey(j *plan.Job) folder.Key {
	return folder.Key{Of: folder.Images, Made: j.Row("").Made()}
}

func (l live) Oracle(b *open.Job, c open.Classifier) (*open.Oracle, error) {
	on, err := b.Oracle(c)
	if err == nil && l.part != nil {
		_, err = folder.Once(l.journal, InfoKey(b.Job, c.Defense(), folder.Cost),
			func() (control.Cost, error) { return on.Cost, nil })
	}
	if err != nil {
		return nil, fmt.Errorf("suite %s: %w", b.Suite.Name, err)
	}
	return on, nil
}

func (l live) Adversarial(b *open.Job, _ string, made func(i int) ([]float32, error), row func([]float32) bool) error {
	for _, i := range b.Set.Places(nil) {
		if x, err := made(i); err != nil || !row(x) {
			return err
		}
	}
	return nil
}
