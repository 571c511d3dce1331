package open

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
	"selfheal/internal/lists"
)

// Job is a [plan.Job] with its networks and images, which all of its cells share. In a merge only Set, Recipes and
// the classifiers' Info are set.
type Job struct {
	*plan.Job
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
	if b.Net, err = o.Network(j.Model, j.Suite.Dataset); err != nil {
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
		loop, err := b.opener.Controller(ctx, b.Net, b.opener.Config.Control(name), fit)
		if err != nil {
			return err
		}
		b.Classifiers = append(b.Classifiers, Under(loop, b.Net))
	}
	return nil
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

// Oracle returns the oracle that the job's attacker asks about a classifier. Close it before the classifier.
func (b *Job) Oracle(c Classifier) (*Oracle, error) {
	there, loop := Alone(b.Attacked), (*Controller)(nil)
	if c.Loop != nil {
		var err error
		if loop, err = c.Loop.around(b.Attacked); err != nil {
			return nil, err
		}
		there = Under(loop, b.Attacked)
	}
	on, err := OracleOf(there, b.Suite.Mode)
	if err != nil {
		loop.free()
		return nil, err
	}
	var exact *Oracle
	on.Exact = sync.OnceValues(func() (_ *Oracle, err error) {
		exact, err = OracleOf(c, b.Suite.Mode)
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

// Images are the first images of a data set. They are read on demand, as the memory may not hold all.
type Images struct {
	*dataset.Dataset        // nil if only the names are known
	name             string // the data set's in the config; "" if it belongs to no suite
	n                int
	owner            []int       // the shard of each image; nil if the run has no shards
	shard            int         // the shard of this run; 0 if it has all images
	names            []ImageName // in place of an open data set
}

// ImageName is an image's id in the file and its label.
type ImageName struct{ ID, Label int }

// Named returns images of which only the names are known, and their shards.
func Named(names []ImageName, owner []int) Images {
	return Images{n: len(names), names: names, owner: owner}
}

// Share returns the images with the owner of each, for the run of one shard.
func (s Images) Share(shard plan.Shard) Images {
	ids := make([]int, s.Len())
	for i := range ids {
		ids[i] = s.ID(i)
	}
	s.owner, s.shard = plan.Deal(ids, shard.N), shard.I
	return s
}

// Len returns the number of images.
func (s Images) Len() int { return s.n }

// ID returns the i-th image's id in its file.
func (s Images) ID(i int) int {
	if s.names != nil {
		return s.names[i].ID
	}
	return s.Dataset.ID(i)
}

// Label returns the i-th image's label.
func (s Images) Label(i int) int {
	if s.names != nil {
		return s.names[i].Label
	}
	return s.Dataset.Label(i)
}

// Owner returns the i-th image's shard, or 0 if the run has no shards.
func (s Images) Owner(i int) int {
	if s.owner == nil {
		return 0
	}
	return s.owner[i]
}

// Shared reports whether other shards own some of the images.
func (s Images) Shared() bool { return s.shard > 0 }

// Own reports whether this run works on the i-th image.
func (s Images) Own(i int) bool { return s.shard == 0 || s.owner[i] == s.shard }

// Places returns the indices of this run's images for which wanted is true, or of all if wanted is nil.
func (s Images) Places(wanted func(i int) bool) (places []int) {
	for i := range s.n {
		if s.Own(i) && (wanted == nil || wanted(i)) {
			places = append(places, i)
		}
	}
	return places
}

// First reports whether this run owns the first image, and with it the work that is done once for the whole set.
func (s Images) First() bool { return s.shard == 0 || s.n > 0 && s.owner[0] == s.shard }

// Mine returns the number of this run's images.
func (s Images) Mine() int {
	return len(s.Places(nil))
}

// OwnedBy returns the number of a shard's images.
func (s Images) OwnedBy(shard int) int {
	return lists.Count(s.owner, func(owner int) bool { return owner == shard })
}

// Read reads the i-th image.
func (s Images) Read(i int) (im attacks.Image, err error) {
	if im.ID, im.Pixels, im.Label, err = s.Image(i); err != nil {
		err = fmt.Errorf("image %d: %w", s.ID(i), err)
	}
	return im, err
}

// Head returns the set of the first n images, or of all if there are fewer. It belongs to no shard.
func (s Images) Head(n int) Images {
	return Images{Dataset: s.Dataset, name: s.name, names: s.names, owner: s.owner, n: min(s.n, n)}
}
