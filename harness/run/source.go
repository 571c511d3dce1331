package run

import (
	"context"
	"fmt"

	"selfheal/control"
	"selfheal/harness/folder"
	"selfheal/harness/open"
	"selfheal/harness/plan"
)

// Source is where a run has from what it scores: networks that are open, or the journals of shards.
type Source interface {
	// Open opens a job with its classifiers. Close it.
	Open(ctx context.Context, j *plan.Job) (*open.Job, error)
	// Oracle is the one that the job's attacks ask instead of a classifier. Close it before the job.
	Oracle(j *open.Job, c open.Classifier) (*open.Oracle, error)
	// Adversarial gives the rows of a file of adversarial images one by one: those of the run's images, which made
	// gives as far as it has them.
	Adversarial(j *open.Job, file string, made func(i int) ([]float32, error), row func([]float32) bool) error
}

// live is a source of open networks.
type live struct{ *run }

func (l live) Open(ctx context.Context, j *plan.Job) (*open.Job, error) {
	b, err := l.Job(j)
	if err != nil {
		return nil, err
	}
	if err = b.Defend(ctx); err == nil && l.part != nil {
		b.Set = b.Set.Share(l.part.Shard)
		err = l.keep(b)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// keep has the journal keep what a merge needs to know about a job: its classifiers, and the ids and labels of this
// shard's images.
func (l live) keep(b *open.Job) error {
	for _, c := range b.Classifiers {
		_, err := folder.Once(l.journal, InfoKey(b.Job, c.Defense(), folder.Classifier),
			func() (open.Info, error) { return c.Info, nil })
		if err != nil {
			return err
		}
	}
	held := map[int]bool{}
	names, err := folder.Recall(l.journal, ImagesKey(b.Job), func(i int, _ open.ImageName) { held[i] = true })
	for i := 0; i < b.Set.Len() && err == nil; i++ {
		if b.Set.Own(i) && !held[i] {
			err = names.Done(i, open.ImageName{ID: b.Set.ID(i), Label: b.Set.Label(i)})
		}
	}
	return err
}

// InfoKey is the journal's, of what a merge needs to know about a classifier: its [open.Info], or the cost of a pass.
func InfoKey(j *plan.Job, defense, what string) folder.Key {
	return folder.Key{Of: what, Suite: j.Suite.Name, Key: plan.Key{Model: j.Model.Name, Defense: defense}}
}

// ImagesKey is the journal's, of the ids and labels of the images of a network that are a shard's.
func ImagesKey(j *plan.Job) folder.Key {
	return folder.Key{Of: folder.Images, Key: plan.Key{Dataset: j.Suite.Dataset, Model: j.Model.Name}}
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
	for i := range b.Set.Len() {
		if !b.Set.Own(i) {
			continue
		}
		if x, err := made(i); err != nil || !row(x) {
			return err
		}
	}
	return nil
}
