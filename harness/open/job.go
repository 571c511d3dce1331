package open

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/dataset"
	"selfheal/harness/plan"
	"selfheal/internal/lists"
)

// Job is one with everything open that its cells share. In a merge only Set, Recipes and classifiers' Info are known.
type Job struct {
	*plan.Job
	Net         *control.Network // that judges
	Attacked    *control.Network // the same as attacks run it
	Set         Images
	Recipes     map[plan.Trial]attacks.Recipe
	Classifiers []Classifier // the network alone, then under each control

	opener    *Opener
	compared  bool // the file with the opened network
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

// Defend opens the job's classifiers: the network alone, and under each control, for which see [Opener.Controller].
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

// TakesGradients reports whether any trial does.
func (b *Job) TakesGradients() bool {
	return slices.ContainsFunc(b.Trials, func(t plan.Trial) bool {
		return takesGradients(b.Recipes[t], b.Net.Classes())
	})
}

// Close frees a job's networks.
func (b *Job) Close() {
	b.Undefend()
	if b.Attacked != nil {
		b.Attacked.Close()
	}
	if b.Net != nil {
		b.Net.Close()
	}
}

// Oracle is the one that the job's attacker asks instead of a classifier. Close it before the classifier.
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

// Original is the file of the job's model, once it was compared with the opened network.
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

// Images are the first images of a data set, which are read when they are asked for: the memory may not hold all.
type Images struct {
	*dataset.Dataset        // nil where the names are all that is known
	name             string // the config's of the data set; "" where none of a suite is opened
	n                int
	owner            []int       // the shard of each image; nil where the run has no shards
	shard            int         // this run's; 0 in one that has all images
	names            []ImageName // where no data set is open
}

// ImageName is an image's id in the file and its label.
type ImageName struct{ ID, Label int }

// Named are images of which only names are known, and whose shards they are.
func Named(names []ImageName, owner []int) Images {
	return Images{n: len(names), names: names, owner: owner}
}

// Share leaves to a run its shard's of the images.
func (s Images) Share(shard plan.Shard) Images {
	ids := make([]int, s.Len())
	for i := range ids {
		ids[i] = s.ID(i)
	}
	s.owner, s.shard = plan.Deal(ids, shard.N), shard.I
	return s
}

// Len is the number of images.
func (s Images) Len() int { return s.n }

// ID is the i-th image's id in its file.
func (s Images) ID(i int) int {
	if s.names != nil {
		return s.names[i].ID
	}
	return s.Dataset.ID(i)
}

// Label is the i-th image's.
func (s Images) Label(i int) int {
	if s.names != nil {
		return s.names[i].Label
	}
	return s.Dataset.Label(i)
}

// Owner is the i-th image's shard; 0 where there are none.
func (s Images) Owner(i int) int {
	if s.owner == nil {
		return 0
	}
	return s.owner[i]
}

// Shared reports whether other shards have some of the images.
func (s Images) Shared() bool { return s.shard > 0 }

// Own reports whether the i-th image is this run's to work on.
func (s Images) Own(i int) bool { return s.shard == 0 || s.owner[i] == s.shard }

// Places are those of this run's images that are wanted, of all where wanted is nil.
func (s Images) Places(wanted func(i int) bool) (places []int) {
	for i := range s.n {
		if s.Own(i) && (wanted == nil || wanted(i)) {
			places = append(places, i)
		}
	}
	return places
}

// First reports whether this run does the work that is done once for the whole set, or has it done.
func (s Images) First() bool { return s.shard == 0 || s.n > 0 && s.owner[0] == s.shard }

// Mine is how many are.
func (s Images) Mine() int {
	return len(s.Places(nil))
}

// OwnedBy is how many images a shard has.
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

// Head is the set of its first n images, or of all where there are fewer. They are no shard's in particular.
func (s Images) Head(n int) Images {
	return Images{Dataset: s.Dataset, name: s.name, names: s.names, owner: s.owner, n: min(s.n, n)}
}
