package certify

import (
	"context"
	"fmt"
	"sync"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/models/bounds"
)

// kinds has the certificates by their kinds in configs. The file of each adds it.
var kinds = map[string]kind{}

// kind implements one kind of certificate.
type kind interface {
	// prove proves the certificate on every image of the job, as far as the journal does not hold it.
	prove(ctx context.Context, p *Prover, c Case) (*Proofs, error)
	// confront checks the proofs against the images of an attack.
	confront(ctx context.Context, p *Prover, c Case, a Attack) (Finding, error)
	// measure estimates the least and the most seconds that an image takes on this machine, where a pass takes pass
	// seconds.
	measure(ctx context.Context, p *Prover, c Case, pass float64) (seconds [2]float64, err error)
}

// Case is a certificate of one classifier.
type Case struct {
	plan.Trial
	Recipe attacks.Recipe
	Who    open.Classifier
	Seed   uint64
	Right  func(i int) bool // reports whether the classifier is right on the i-th clean image
	ID     cell.ID
	Label  string // its cell's label in lines of progress
}

func (p *Prover) key(c Case, kind string) folder.Key {
	return folder.Key{Of: kind, Made: c.Key(p.Job.Row(c.Who.Defense()), c.ID.Mode, c.Seed)}
}

// Proof is a certificate's result for every image of a set, for one classifier.
type Proof interface {
	// Right reports whether the i-th image's label is proven.
	Right(i, label int) bool
	// Tell completes the i-th image's record.
	Tell(i int, r *result.Record)
	// Complete completes the cell.
	Complete(c *result.Cell)
}

// Proofs are a proof, the time it took, and warnings about it.
type Proofs struct {
	Proof
	Seconds  float64
	Warnings []result.Warning
}

// Attack describes the images of an attack, or a corruption, of a job.
type Attack struct {
	plan.Trial
	First bool             // the seed is the cells' own
	Key   folder.Key       // key of the verdicts on its images
	Wrong func(i int) bool // reports whether the classifier answers the i-th image wrong
	Images
}

type Images interface {
	// Untried reports whether the i-th image is the clean one.
	Untried(i int) bool
	// Image returns the i-th image; im is the clean one.
	Image(im attacks.Image, i int) ([]float32, error)
}

// Finding is the result of checking a certificate against an attack's images.
type Finding struct {
	Smoothed *result.Smoothed // how the smoothed classifier answers them; nil if there is none
	Broken   string           // says how many certified images are nevertheless answered wrong; "" for none
	// Impossible says that chance does not explain this: the certificate or this program is wrong.
	Impossible bool
}

// Prover proves certificates about the classifiers of a job. Close it before the job.
type Prover struct {
	*open.Job
	Journal  *folder.Journal
	Progress *progress.Progress
	Seed     uint64 // of attacks

	opening  sync.Mutex
	networks map[string]*bounds.Network // networks prepared for bounds, by defense
	brackets map[folder.Key]*Proofs     // brackets made so far
}

// Close frees the prepared networks.
func (p *Prover) Close() {
	for _, n := range p.networks {
		n.Close()
	}
}

func (p *Prover) Prove(ctx context.Context, c Case) (*Proofs, error) {
	return kinds[c.Setting().Kind].prove(ctx, p, c)
}

// Confront checks a certificate against the images of an attack on the same job.
func (p *Prover) Confront(ctx context.Context, c Case, a Attack) (Finding, error) {
	return kinds[c.Setting().Kind].confront(ctx, p, c, a)
}

// Measure estimates the least and the most seconds that a certificate takes for an image, with all cores at work,
// where a pass of one image takes pass seconds. It returns 0 if nothing can be proven, and records nothing.
func (p *Prover) Measure(ctx context.Context, c Case, pass float64) (seconds [2]float64, err error) {
	return kinds[c.Setting().Kind].measure(ctx, p, c, pass)
}

// attacked returns the norm of the first misclassifying perturbation that a recipe's components find, in turn, or 0
// if they find none. The judge decides what is misclassified.
func (p *Prover) attacked(ctx context.Context, on *open.Oracle, recipe attacks.Recipe, im attacks.Image) (float64,
	error) {
	for _, component := range recipe.Components {
		_, v, err := judge.Attack(ctx, component, recipe, on, on.Of, im, attacks.Options{Seed: p.Seed})
		if err != nil || !v.Right {
			return v.Norm, err
		}
	}
	return 0, nil
}

// proving describes how a certificate is proven image by image. The journal keeps a T for each image.
type proving[T any] struct {
	Proof
	key    folder.Key
	words  progress.Words
	passes int64                         // most passes for an image
	width  func() int                    // number of concurrent images
	take   func(i int, v T) (passes int) // records a result and returns the passes that it took
	prove  func(ctx context.Context, on *open.Counted, im attacks.Image) (T, error)
	wrong  func(i int) bool // reports whether nothing can be proven about the image
}

func prove[T any](ctx context.Context, p *Prover, c Case, how proving[T]) (*Proofs, error) {
	set := p.Set
	images := set.Places(func(i int) bool { return !how.wrong(i) })
	left, shown := len(images), func(_, _ int) {} // images that are or may be proven
	work, todo, err := folder.Recall(p.Journal, how.key, set, images, func(i int, v T) bool {
		passes := how.take(i, v)
		if set.Own(i) && !how.wrong(i) && !how.Right(i, set.Label(i)) {
			left--
		}
		shown(left, passes)
		return true
	})
	if err != nil {
		return nil, err
	}
	done := &Proofs{Proof: how.Proof, Seconds: work.Before}
	if len(todo) == 0 {
		return done, nil
	}
	on := &open.Counted{Oracle: open.Answering(c.Who)}
	id := progress.ComponentID{ID: c.ID, Component: c.Recipe.Certificate.Name(), Seed: c.Seed, Label: c.Label,
		Words: how.words}
	err = p.Progress.Component(id, progress.Work{Images: len(todo), Standing: left, N: set.Mine(),
		Passes: int64(len(todo)) * how.passes, Made: on.Made},
		func(image func(standing, passes int)) error {
			shown = image
			return work.Do(ctx, todo, open.SideBySide(how.width()),
				func(ctx context.Context, im attacks.Image, _ int) (T, error) { return how.prove(ctx, on, im) })
		})
	if err != nil {
		return nil, fmt.Errorf("suite %s, %s, certificate %s: %w", p.Suite.Name, c.Who, c.Name(), err)
	}
	done.Seconds = work.Seconds()
	return done, nil
}
