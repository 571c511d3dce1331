package certify

import (
	"context"
	"errors"
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

// kinds has each certificate by its kind in configs; the file of a certificate adds it.
var kinds = map[string]kind{}

// kind proves, confronts and times one kind of certificate.
type kind interface {
	// prove proves the certificate on every image of the job, as far as the journal does not hold it.
	prove(ctx context.Context, p *Prover, c Case) (*Proofs, error)
	// confront holds it against the images of an attack.
	confront(ctx context.Context, p *Prover, c Case, a Attack) (Finding, error)
	// measure is how long an image takes on this machine at least and at most, a pass of it so many seconds.
	measure(ctx context.Context, p *Prover, c Case, pass float64) (seconds [2]float64, err error)
}

// Case is a certificate of one classifier.
type Case struct {
	plan.Trial
	Recipe attacks.Recipe
	Who    open.Classifier
	Seed   uint64
	Right  func(i int) bool // the classifier is right on the i-th clean image
	ID     cell.ID
	Label  string // of its cell in lines of progress
}

func (p *Prover) key(c Case, kind string) folder.Key {
	return folder.Key{Of: kind, Made: c.Key(p.Job.Job, c.Who.Defense(), c.Seed)}
}

// Proof is what a certificate says about every image of a set, for one classifier.
type Proof interface {
	// Right reports whether the i-th image's label is proven.
	Right(i, label int) bool
	// Tell completes the i-th image's record.
	Tell(i int, r *result.Record)
	// Complete completes the cell.
	Complete(c *result.Cell)
}

// Proofs are a proof, how long it took, and warnings about it.
type Proofs struct {
	Proof
	Seconds  float64
	Warnings []result.Warning
}

// Attack is what an attack, or a corruption, has made of the images of a job.
type Attack struct {
	plan.Trial
	First bool             // the seed is the cells' own
	Key   folder.Key       // of the verdicts on its images
	Wrong func(i int) bool // the classifier answers the i-th image wrong
	Images
}

// Images are an attack's.
type Images interface {
	// Untried reports whether the i-th image is the clean one.
	Untried(i int) bool
	// Image is the i-th one; im is the clean image.
	Image(im attacks.Image, i int) ([]float32, error)
}

// Finding is what holding a certificate against an attack's images has shown.
type Finding struct {
	Smoothed *result.Smoothed // how the smoothed classifier answers them; nil where there is none
	Broken   string           // how many certified images are answered wrong all the same; "" for none
	// Impossible says that chance does not explain that: the certificate or this program is wrong.
	Impossible bool
}

// Prover proves certificates about the classifiers of a job. Close it before the job.
type Prover struct {
	*open.Job
	Opener  *open.Opener
	Journal *folder.Journal

	opening  sync.Mutex
	networks map[string]*bounds.Network // prepared for bounds, by defense
	brackets map[folder.Key]*Proofs     // that are made
}

// Close frees what was prepared.
func (p *Prover) Close() {
	for _, n := range p.networks {
		n.Close()
	}
}

// Prove proves a certificate.
func (p *Prover) Prove(ctx context.Context, c Case) (*Proofs, error) {
	return kinds[c.Setting().Kind].prove(ctx, p, c)
}

// Confront holds a certificate against the images of an attack on the same job.
func (p *Prover) Confront(ctx context.Context, c Case, a Attack) (Finding, error) {
	return kinds[c.Setting().Kind].confront(ctx, p, c, a)
}

// Measure is how long a certificate takes for an image at least and at most, all cores at work, where a pass of one
// image takes so many seconds; 0 where nothing can be proven. It keeps nothing.
func (p *Prover) Measure(ctx context.Context, c Case, pass float64) (seconds [2]float64, err error) {
	return kinds[c.Setting().Kind].measure(ctx, p, c, pass)
}

// attacked is the norm of the first misclassifying perturbation that a recipe's components find, in turn; 0: none do.
// The judge has the last word about it.
func (p *Prover) attacked(ctx context.Context, on *open.Oracle, recipe attacks.Recipe, im attacks.Image) (float64,
	error) {
	for _, component := range recipe.Components {
		res, err := component.Perturb(ctx, on, im, attacks.Options{Seed: p.Opener.Config.Seed})
		if err != nil {
			return 0, err
		}
		if res.Adversarial == nil {
			continue
		}
		said, err := judge.Judge(ctx, on.Of, im, res.Adversarial, plan.BallOf(recipe), judge.AnswerOnly)
		if err != nil && !errors.As(err, new(open.NotFinite)) {
			return 0, fmt.Errorf("image %d: %w", im.ID, err)
		}
		if !said.Right {
			return said.Norm, nil
		}
	}
	return 0, nil
}

// proving is how a certificate is proven image by image: the journal keeps a T of each.
type proving[T any] struct {
	Proof
	key    folder.Key
	words  progress.Words
	passes int64                         // of an image, at most
	width  func() int                    // images side by side
	take   func(i int, v T) (passes int) // that the image took
	prove  func(ctx context.Context, on *open.Counted, im attacks.Image) (T, error)
	wrong  func(i int) bool // nothing can be proven about the image
}

func prove[T any](ctx context.Context, p *Prover, c Case, how proving[T]) (*Proofs, error) {
	set := p.Set
	images := set.Places(func(i int) bool { return !how.wrong(i) })
	left, shown := len(images), func(_, _ int) {} // those that are or may be proven
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
	err = p.Opener.Progress.Component(id, progress.Work{Images: len(todo), Standing: left, N: set.Mine(),
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
