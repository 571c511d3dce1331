package open

import (
	"context"
	"fmt"
	"sync"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/plan"
)

// Job is a job of a plan with everything open that its cells share. In a merge nothing is open, and only Set, Recipes
// and the classifiers' Info are known.
type Job struct {
	*plan.Job
	Net         *control.Network
	Attacked    *control.Network // Net, or the same network where attacks run, if that is somewhere else
	Set         Images
	Recipes     []attacks.Recipe // of the job's trials
	Classifiers []Classifier     // the network alone, then under each control

	opener  *Opener
	file    *Original // once it was asked for
	opening sync.Mutex
}

// Job opens a job's images and network and makes its recipes. Close it.
func (o *Opener) Job(j *plan.Job) (b *Job, err error) {
	b = &Job{Job: j, opener: o}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if b.Set, err = o.Scored(j.Suite.Dataset); err != nil {
		return b, err
	}
	if b.Net, err = o.Network(j.Model, false); err != nil {
		return b, err
	}
	if err := fits(b.Set.Dataset, b.Net); err != nil {
		return b, fmt.Errorf("suite %s: dataset %s and model %s: %w", j.Suite.Name, j.Suite.Dataset, b.Net.Name, err)
	}
	if b.Attacked = b.Net; o.Pool.Target(true) != o.Pool.Target(false) {
		if b.Attacked, err = o.Network(j.Model, true); err != nil {
			return b, err
		}
	}
	b.Recipes = make([]attacks.Recipe, len(j.Trials))
	for i := 0; i < len(b.Recipes) && err == nil; i++ {
		b.Recipes[i], err = RecipeFor(j.Trials[i], b.Attacked)
	}
	return b, err
}

// Defend opens the job's classifiers: the network alone, and under each control.
func (b *Job) Defend(ctx context.Context) error {
	b.Classifiers = append(b.Classifiers, Alone(b.Net))
	for _, name := range b.Suite.Controls {
		loop, err := b.opener.Controller(ctx, b.Net, b.opener.Config.Control(name), true)
		if err != nil {
			return err
		}
		b.Classifiers = append(b.Classifiers, Under(loop, b.Net))
	}
	return nil
}

// Classifier is that of a defense.
func (b *Job) Classifier(defense string) (c Classifier) {
	for _, c = range b.Classifiers {
		if c.Defense() == defense {
			break
		}
	}
	return c
}

// Recipe is that of one of the job's trials.
func (b *Job) Recipe(t plan.Trial) (r attacks.Recipe) {
	for i, own := range b.Trials {
		if own == t {
			return b.Recipes[i]
		}
	}
	return r
}

// Close frees a job's networks.
func (b *Job) Close() {
	if b.file != nil {
		b.file.Close()
	}
	for _, c := range b.Classifiers {
		if c.Loop != nil {
			c.Loop.Close()
		}
	}
	if b.Attacked != nil && b.Attacked != b.Net {
		b.Attacked.Close()
	}
	if b.Net != nil {
		b.Net.Close()
	}
}

// Oracle is the one that the job's attacker asks instead of a classifier. Close it before the classifier.
func (b *Job) Oracle(c Classifier) (*Oracle, error) {
	if b.Attacked == b.Net {
		return OracleOf(c, b.Suite.Mode)
	}
	exact, err := OracleOf(c, b.Suite.Mode)
	if err != nil {
		return nil, err
	}
	there, closeLoop := Alone(b.Attacked), func() {}
	if c.Loop != nil {
		loop, err := c.Loop.around(b.Attacked)
		if err != nil {
			exact.Close()
			return nil, err
		}
		there, closeLoop = Under(loop, b.Attacked), loop.Close
	}
	on, err := OracleOf(there, b.Suite.Mode)
	if err != nil {
		closeLoop()
		exact.Close()
		return nil, err
	}
	inner := on.Close
	on.Of, on.Exact, on.Close = c, exact, func() { inner(); closeLoop(); exact.Close() }
	return on, nil
}

// Original opens the file of the job's model, once, and compares it with the opened network.
func (b *Job) Original(ctx context.Context) (*Original, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.file != nil {
		return b.file, nil
	}
	file, err := b.opener.original(b.Model, b.Net)
	if err != nil {
		return nil, err
	}
	if err := file.compare(ctx, b.Net, b.Set); err != nil {
		file.Close()
		return nil, err
	}
	b.file = file
	return file, nil
}
