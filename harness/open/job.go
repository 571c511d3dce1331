package open

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/plan"
)

// Job is a [plan.Job] with its networks and images, which all of its cells share. In a merge only Set, Recipes and
// the classifiers' Info are set.
type Job struct {
	*plan.Job
	Workers
	Net         *control.Network // the network that is judged
	Attacked    *control.Network // the same network in the form that attacks use
	Set         Images
	Recipes     map[plan.Trial]attacks.Recipe
	Classifiers []Classifier // the undefended network, then under each control

	opener    *Opener
	compared  bool // the file was compared with the opened network
	comparing sync.Mutex
}

// Job opens a job's images and network and makes its recipes. Close it.
func (o *Opener) Job(ctx context.Context, j *plan.Job) (b *Job, err error) {
	b = &Job{Job: j, Workers: o.Workers, opener: o}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if b.Set, err = o.Scored(j.Suite.Dataset); err != nil {
		return b, err
	}
	if b.Net, err = o.Network(ctx, j.Model, j.Suite.Dataset); err != nil {
		return b, err
	}
	if err := fits(b.Set.Dataset, b.Net); err != nil {
		return b, fmt.Errorf("suite %s: dataset %s and model %s: %w", j.Suite.Name, j.Suite.Dataset, b.Net.Name, err)
	}
	if b.Attacked, err = o.ForAttacks(b.Net); err != nil {
		return b, err
	}
	b.Recipes = map[plan.Trial]attacks.Recipe{}
	for _, t := range j.Trials {
		if b.Recipes[t], err = RecipeFor(t, b.Attacked); err != nil {
			return b, err
		}
	}
	return b, nil
}

// Defend opens the job's classifiers: the undefended network, and under each control. For fit see
// [Opener.Controller].
func (b *Job) Defend(ctx context.Context, fit bool) error {
	b.Classifiers = append(b.Classifiers, Alone(b.Net))
	for _, name := range b.Suite.Controls {
		loop, err := b.Controller(ctx, name, fit)
		if err != nil {
			return err
		}
		b.Classifiers = append(b.Classifiers, Under(loop, b.Net))
	}
	return nil
}

// Controller closes the loop of a control around the job's network. For fit see [Opener.Controller].
func (b *Job) Controller(ctx context.Context, name string, fit bool) (*Controller, error) {
	return b.opener.Controller(ctx, b.Net, b.opener.Config.Control(name), fit)
}

// Better is [Opener.Better] for the job's model.
func (b *Job) Better(ctx context.Context, places []int, right []bool) (*Better, error) {
	return b.opener.Better(ctx, b.Model, b.Net, b.Set, places, right)
}

// Provisional reports whether the identity stands for a linear embedding of a control, as [Job.Defend] leaves it
// without fit.
func (b *Job) Provisional() bool {
	return slices.ContainsFunc(b.Suite.Controls, func(name string) bool {
		return slices.ContainsFunc(b.opener.Config.Control(name).Layers, func(l config.Layer) bool {
			return l.Embedding.Kind == control.Linear
		})
	})
}

// Undefend closes the classifiers that [Job.Defend] has opened.
func (b *Job) Undefend() {
	for _, c := range b.Classifiers {
		if c.Loop != nil {
			c.Loop.Close()
		}
	}
	b.Classifiers = nil
}

// Classifier returns the network under one of the defenses that [Job.Defend] has opened.
func (b *Job) Classifier(defense string) Classifier {
	i := slices.IndexFunc(b.Classifiers, func(c Classifier) bool { return c.Defense() == defense })
	if i < 0 {
		panic(fmt.Sprintf("open: model %s was not opened under defense %s", b.Model.Name, defense))
	}
	return b.Classifiers[i]
}

// TakesGradients reports whether any trial takes gradients.
func (b *Job) TakesGradients() bool {
	return slices.ContainsFunc(b.Trials, func(t plan.Trial) bool {
		return takesGradients(b.Recipes[t], b.Net.Classes())
	})
}

// Close frees the job's networks.
func (b *Job) Close() {
	b.Undefend()
	if b.Attacked != nil {
		b.Attacked.Close()
	}
	if b.Net != nil {
		b.Net.Close()
	}
}

// Oracle returns the oracle that an attacker of a mode asks about a classifier. Close it before the classifier.
func (b *Job) Oracle(c Classifier, mode string) (*Oracle, error) {
	there, loop := Alone(b.Attacked), (*Controller)(nil)
	if c.Loop != nil {
		var err error
		if loop, err = c.Loop.around(b.Attacked); err != nil {
			return nil, err
		}
		there = Under(loop, b.Attacked)
	}
	on, err := OracleOf(there, mode)
	if err != nil {
		loop.free()
		return nil, err
	}
	var exact *Oracle
	on.Exact = sync.OnceValues(func() (_ *Oracle, err error) {
		exact, err = OracleOf(c, mode)
		return exact, err
	})
	inner := on.Close
	on.Of, on.Close = c, func() {
		inner()
		loop.free()
		if exact != nil {
			exact.Close()
		}
	}
	return on, nil
}

// Original returns the file of the job's model. It first compares the file with the opened network, once.
func (b *Job) Original(ctx context.Context) (*Original, error) {
	b.comparing.Lock()
	defer b.comparing.Unlock()
	file, ok := b.Net.File().(*Original)
	if !ok {
		return nil, fmt.Errorf("model %s: its file gives no answers to hold proofs against", b.Model.Name)
	}
	if !b.compared {
		if err := file.compare(ctx, b.Net, b.Set); err != nil {
			return nil, err
		}
		b.compared = true
	}
	return file, nil
}
