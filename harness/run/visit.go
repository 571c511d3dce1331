package run

import (
	"context"
	"errors"
	"fmt"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/certify"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/journal"
)

// walk visits a plan's parts for a run and makes their trials.
type walk struct {
	*run
	gallery *gallery
	images  *images
	probes  map[cell.Made][]result.Warning
	at      *stop // the present job; nil between jobs
}

// stop is a job while it is visited.
type stop struct {
	*open.Job
	prover *certify.Prover
	clean  map[string]*judgement // by defense; nil if the clean images have no verdicts
	target *target               // of the present group; nil until images are made
}

// walk goes over the plan, again if the journal lacks results from images that are already freed.
func (r *run) walk() error {
	w := &walk{run: r, probes: map[cell.Made][]result.Warning{},
		images: &images{plan: r.plan, whole: r.cells != nil, journal: r.journal, again: map[folder.Key]bool{}}}
	defer w.leave()
	for {
		w.images.reserve()
		w.gallery = newGallery(r.plan.Config, r.record)
		err := r.plan.Walk(w)
		if !errors.Is(err, journal.ErrNoVector) || !w.images.lost(w.at.Job.Job) {
			return err
		}
		w.leave()
		r.record.Cells, r.record.Solver, r.record.Failed = []result.Cell{}, nil, nil
		if r.out.Close() != nil {
			return err
		}
	}
}

func (w *walk) Begin(j *plan.Job) error {
	b, err := w.source.Open(w.ctx, j)
	if err != nil {
		return err
	}
	w.at = &stop{Job: b, prover: w.prover(b), clean: map[string]*judgement{}}
	w.gallery.begin(j)
	return nil
}

func (w *walk) prover(b *open.Job) *certify.Prover {
	return &certify.Prover{Job: b, Journal: w.journal, Progress: w.progress, Seed: w.plan.Config.Seed}
}

// Clean scores a group on clean images. A classifier with an answer there that is not finite is not attacked.
func (w *walk) Clean(_ *plan.Job, g plan.Group) (err error) {
	for _, defense := range g.Scored {
		if w.at.clean[defense], err = w.clean(w.at.Job, defense).score(); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) Try(s plan.Step) error { return s.Trial.Do(w, s) }

// End makes the results that need all trials of a job, and frees what the job kept.
func (w *walk) End(j *plan.Job) error {
	w.at.target.close() // its gradients are not needed any more
	if err := w.exhibit(); err != nil {
		return err
	}
	if err := w.study(); err != nil {
		return err
	}
	var needed []cell.Made
	for _, s := range w.plan.Steps(j) {
		if s.First {
			needed = append(needed, s.Keys()...)
		}
	}
	if w.images.studied(j) != nil {
		needed = append(needed, j.Studied.Key(j.Row(cell.None), "", w.plan.Config.Seed))
	}
	for _, k := range needed {
		if err := w.images.used(k); err != nil {
			return err
		}
	}
	w.leave()
	return nil
}

func (w *walk) leave() {
	if w.at != nil {
		w.at.target.close()
		w.at.prover.Close()
		w.at.Close()
		w.at = nil
	}
}

// clean returns the scoring of a job's clean images.
func (w *walk) clean(b *open.Job, defense string) scoring {
	return scoring{walk: w, job: b, Step: plan.Step{Job: b.Job, Trial: plan.Clean, First: true},
		who: b.Classifier(defense), made: &crafted{}}
}

func (w *walk) scoring(s plan.Step, defense string, made *crafted) scoring {
	one := scoring{walk: w, job: w.at.Job, Step: s, who: w.at.Classifier(defense), recipe: w.at.Recipes[s.Trial],
		made: made, clean: w.at.clean[defense]}
	if made != nil && made.recipe.Components != nil { // the attacked network may have another number of classes
		one.recipe = made.recipe
	}
	return one
}

// Attack makes an attack's images and scores the group on them.
func (w *walk) Attack(s plan.Step) (err error) {
	var made *crafted
	if w.at.clean[s.Scored[0]] != nil {
		if made, err = w.crafted(s); err != nil {
			return err
		}
	}
	return w.scoreAll(s, made)
}

// Corrupt scores a group on a corruption's images. They are the same for all classifiers, and made again for each.
func (w *walk) Corrupt(s plan.Step, c attacks.Corruption) error {
	var made *crafted
	if w.at.clean[s.Scored[0]] != nil {
		made = &crafted{within: s.Within(), corrupt: func(im attacks.Image) ([]float32, error) {
			x, err := c.Apply(im, s.Seed)
			if err != nil {
				err = fmt.Errorf("image %d: %w", im.ID, err)
			}
			return x, err
		}}
	}
	return w.scoreAll(s, made)
}

// scoreAll scores a group on images, saves them and frees them.
func (w *walk) scoreAll(s plan.Step, made *crafted) error {
	for _, defense := range s.Scored {
		if err := w.scoring(s, defense, made).step(); err != nil {
			return err
		}
	}
	if !s.First { // the gallery and studies take the first seed's
		return w.images.used(s.Keys()[0])
	}
	if made != nil && s.Suite.SaveAdversarial {
		return w.adversarial(s, made)
	}
	return nil
}

// Certify proves a certificate of every classifier of a group and scores them by it. A smoothed classifier may be
// right on images on which the classifier itself is wrong; bounds prove nothing about those.
func (w *walk) Certify(s plan.Step) error {
	for _, defense := range s.Scored {
		one := w.scoring(s, defense, nil)
		if one.clean != nil {
			proofs, err := w.at.prover.Prove(w.ctx, one.certificate(s.Trial, s.Seed))
			if err != nil {
				return err
			}
			one.proof = proofs
			one.made = &crafted{seconds: proofs.Seconds, warnings: proofs.Warnings}
		}
		if err := one.step(); err != nil {
			return err
		}
	}
	return nil
}

// crafted makes an attack's images under a seed, once in a run. It returns nil if another source has answers on clean
// images that are not finite.
func (w *walk) crafted(s plan.Step) (made *crafted, err error) {
	use := w.images.uses[s.Keys()[0]]
	if use.made == nil {
		if err := w.aim(s.Group); err != nil || w.at.target.clean == nil {
			return nil, err
		}
		one, at := w.scoring(s, s.Attacked, nil), w.at.target
		recipe := at.job.Recipes[s.Trial]
		use.made, err = w.craft(at.job, at.oracle, at.prover, order{recipe: recipe, trial: s.Trial, seed: s.Seed,
			verdictOnly: !use.images && !recipe.Minimises, cell: one.id(), label: one.label(),
			key: craftKey(s.Keys()[0]), set: at.job.Set, clean: at.clean.verdicts})
		if err != nil {
			return nil, fmt.Errorf("suite %s, %s, attack %s: %w", s.Suite.Name, at.oracle.Of, s.Trial.Name(), err)
		}
	}
	return use.made.limited(s.Within()), nil
}

type target struct {
	from   *plan.Job
	of     string    // the defense
	mode   string    // of the attacker
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
func (w *walk) aim(g plan.Group) (err error) {
	if t := w.at.target; t != nil && t.oracle != nil && t.from == g.From && t.of == g.Attacked && t.mode == g.Knows {
		return nil
	}
	w.at.target.close()
	t := &target{from: g.From, of: g.Attacked, mode: g.Knows, job: w.at.Job, prover: w.at.prover,
		clean: w.at.clean[g.Attacked], other: g.From != w.at.Job.Job}
	if t.other {
		if t.job, err = w.source.Open(w.ctx, g.From.Alone()); err != nil {
			return err
		}
		t.prover = w.prover(t.job)
	}
	if t.oracle, err = w.source.Oracle(t.job, t.job.Classifier(g.Attacked), g.Knows); err != nil {
		if t.other {
			t.job.Close()
		}
		return err
	}
	w.at.target = t
	if t.other {
		s := w.clean(t.job, g.Attacked)
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
	// Oracle returns the oracle that attackers of a mode ask about a classifier. Close it before the job.
	Oracle(j *open.Job, c open.Classifier, mode string) (*open.Oracle, error)
	// Adversarial gives the rows of a file of adversarial images to row. made returns this run's own rows, as far as
	// it has them.
	Adversarial(j *open.Job, file string, made func(i int) ([]float32, error), row func([]float32) bool) error
}

func (r *computed) Open(ctx context.Context, j *plan.Job) (_ *open.Job, err error) {
	b, kept := r.kept[j]
	if delete(r.kept, j); !kept {
		if b, err = r.Job(ctx, j); err != nil {
			return nil, err
		}
	}
	if b.Classifiers == nil {
		err = b.Defend(ctx, true)
	}
	if err == nil && r.part != nil {
		b.Set = b.Set.Share(r.part.Shard)
		err = r.keep(b)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// keep writes what a merge needs of a job to the journal: classifiers, and the names of this shard's images.
func (r *computed) keep(b *open.Job) error {
	for _, c := range b.Classifiers {
		_, err := folder.Once(r.journal, InfoKey(b.Job, c.Defense()),
			func() (open.Info, error) { return c.Info, nil })
		if err != nil {
			return err
		}
	}
	names, todo, err := folder.Recall[open.ImageName](r.journal, ImagesKey(b.Job), b.Set, b.Set.Places(nil), nil)
	for k := 0; k < len(todo) && err == nil; k++ {
		i := todo[k]
		err = names.Done(i, open.ImageName{ID: b.Set.ID(i), Label: b.Set.Label(i), File: b.Set.File(i)})
	}
	return err
}

// InfoKey returns the journal's key for a classifier's [open.Info].
func InfoKey(j *plan.Job, defense string) folder.Key { return suiteKey(j, folder.Classifier, defense) }

// CostKey returns the journal's key for the cost of an attacker's passes through a classifier.
func CostKey(j *plan.Job, defense, mode string) folder.Key {
	k := suiteKey(j, folder.Cost, defense)
	k.Mode = mode
	return inMode(j, k)
}

// inMode leaves the mode out of a key of a suite that has one mode: journals of earlier versions do not have it.
func inMode(j *plan.Job, k folder.Key) folder.Key {
	if j.Suite.Modes == nil {
		k.Mode = ""
	}
	return k
}

// suiteKey returns the key for a suite's result about a job's model, under a defense or "" for all.
func suiteKey(j *plan.Job, what, defense string) folder.Key {
	return folder.Key{Of: what, Made: cell.Made{ID: cell.Of(j.Suite.Name, j.Model.Name, defense, "", 0)}}
}

// ImagesKey returns the journal's key for the ids and labels of a shard's images of a network.
func ImagesKey(j *plan.Job) folder.Key {
	return folder.Key{Of: folder.Images, Made: j.Row("").Made()}
}

func (r *computed) Oracle(b *open.Job, c open.Classifier, mode string) (*open.Oracle, error) {
	on, err := b.Oracle(c, mode)
	if err == nil && r.part != nil {
		_, err = folder.Once(r.journal, CostKey(b.Job, c.Defense(), mode),
			func() (control.Cost, error) { return on.Cost, nil })
	}
	if err != nil {
		return nil, fmt.Errorf("suite %s: %w", b.Suite.Name, err)
	}
	return on, nil
}

func (r *computed) Adversarial(b *open.Job, _ string, made func(i int) ([]float32, error),
	row func([]float32) bool) error {
	for _, i := range b.Set.Places(nil) {
		if x, err := made(i); err != nil || !row(x) {
			return err
		}
	}
	return nil
}
