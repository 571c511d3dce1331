package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/certify"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/planted"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/lists"
)

// order says which adversarial images are crafted.
type order struct {
	recipe      attacks.Recipe
	trial       plan.Trial // bounds may decide its images after the first component; nil for none
	seed        uint64
	verdictOnly bool // only verdicts are needed: an attack ends at an image's first success
	cell        cell.ID
	label       string // the cell's label in lines of progress
	key         folder.Key
	set         open.Images
	clean       []judge.Verdict // the oracle's classifier's on clean images
}

// crafting carries out an order on an oracle.
type crafting struct {
	*run
	job    *open.Job
	on     *open.Oracle
	prover *certify.Prover // the trial's
	*crafted
	own      int  // number of images that this run attacks
	standing int  // number of images that are still right
	freed    bool // nobody needs the images any more
	tally    *folder.Tally
	proven   map[int]bool     // the images that bounds were asked about, and whether they are proven
	applied  []attacks.Attack // the components that had something to do
	others   func(im attacks.Image) ([][]float32, error)
	spent    []int64 // passes that the components made for each image, a gradient counting as two
}

// craft runs a recipe's components in order. Each attacks the images that the oracle's classifier still gets right,
// starting at the clean image. After each component the judge measures the images and asks the classifier again;
// nothing else decides. Work that the journal holds is not repeated.
func (k *walk) craft(b *open.Job, on *open.Oracle, prover *certify.Prover, o order) (*crafted, error) {
	w := &crafting{run: k.run, job: b, on: on, prover: prover, own: o.set.Mine(), proven: map[int]bool{},
		spent: make([]int64, o.set.Len()), others: o.set.Others(o.recipe, on.Classes()),
		crafted: &crafted{order: o, within: plan.BallOf(o.recipe), steps: []result.Step{},
			each: slices.Repeat([]attempt{intact}, o.set.Len())}}
	var err error
	if w.vectors, err = w.journal.Vectors(fileOf(w.key), on.Shape().Size()); err != nil {
		return nil, err
	}
	w.freed = w.vectors == nil || !k.images.again[w.key] && w.journal.Block(w.key.As("freed")).Written()
	for i, v := range w.clean {
		if w.each[i].Robust = v.Right; v.Right {
			w.standing++
		}
	}
	if w.set.Shared() {
		w.tally = k.tally
	}
	w.tally.At(w.own, w.standing, false)
	for k, component := range w.recipe.Components {
		if w.standing == 0 {
			break
		}
		if needed, err := w.needed(k); err != nil {
			return nil, err
		} else if !needed {
			continue
		}
		w.applied = append(w.applied, component)
		if err := w.apply(k, component); err != nil {
			return nil, err
		}
		if k == 0 && w.trial != nil && w.trial.Setting().Prove {
			if err := w.prove(); err != nil {
				return nil, err
			}
		}
	}
	w.tally.At(w.own, w.standing, true)
	for i, proven := range w.proven {
		if proven { // whatever the gradients were
			w.each[i].Seen = open.Faults{}
		}
	}
	if w.plan.Config.Runtime.Reduced() != "" {
		if err := w.again(); err != nil {
			return nil, err
		}
	}
	asked := slices.ContainsFunc(w.each, func(a attempt) bool { return a.Seen.Asked })
	if w.recipe.Norm == attacks.Linf && !w.recipe.Free && asked {
		err = w.unbounded()
	}
	if err == nil && asked {
		err = w.slope()
	}
	if err == nil && w.trial != nil && planted.Fits(w.recipe) {
		err = w.plant()
	}
	return w.crafted, err
}

// noteOf names the journal's note of the work on the i-th image in a block.
func noteOf(k folder.Key, i int) string { return fmt.Sprint(fileOf(k), "-", i) }

func fileOf(k folder.Key) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(k.JSON())))[:16] }

// componentResult is the journal's entry for an image after a component.
type componentResult struct {
	attempt
	Refuted   bool  `json:"refuted,omitempty"` // the attack claimed a success that the judge did not see
	Logits    int64 `json:"logits"`            // passes that the component made for the image
	Gradients int64 `json:"gradients,omitempty"`
}

func (w *crafting) take(i int, to componentResult) {
	w.each[i] = to.attempt
	w.spent[i] += to.Logits + 2*to.Gradients
	if to.Refuted {
		w.refuted++
	}
	if !to.Robust {
		w.standing--
	}
	w.tally.At(w.own, w.standing, false)
}

func (w *crafting) id(component string) progress.ComponentID {
	return progress.ComponentID{ID: w.cell, Component: component, Seed: w.seed, Label: w.label}
}

// work describes the passes of components on images, for the progress.
func (w *crafting) work(todo []int, on *open.Counted, components []attacks.Attack) progress.Work {
	each := 0
	for _, c := range components {
		f, b := c.Passes(w.on.Classes())
		each += f + b
	}
	return progress.Work{Images: len(todo), Standing: w.standing, N: w.own, Passes: int64(len(todo) * each),
		Made: on.Made}
}

// apply runs the k-th component on the images that still stand.
func (w *crafting) apply(k int, component attacks.Attack) error {
	var images []int
	for i, a := range w.each {
		if a.Robust && !w.proven[i] {
			images = append(images, i)
		}
	}
	on, err := w.along(component.Needs())
	if err != nil {
		return err
	}
	counter, id := &open.Counted{Oracle: on}, w.id(component.Name())
	key := w.key.As("component")
	key.Part, key.Number = component.Name(), k
	lost, shown := 0, (func(standing, passes int))(nil) // until the journal is read
	work, todo, err := folder.Recall(w.journal, key, w.set, images, func(i int, to componentResult) bool {
		if shown == nil {
			if _, asked := slices.BinarySearch(images, i); !asked {
				return false
			}
			if at := to.Image; !to.Robust && !w.freed && (at == nil || !w.vectors.Has(*at)) {
				lost++
				return false
			}
			counter.Add(to.Logits, to.Gradients)
		}
		if w.take(i, to); shown != nil {
			shown(w.standing, int(to.Logits+2*to.Gradients))
		}
		return true
	})
	if lost > 0 {
		w.progress.Report(progress.ImagesLost{ComponentID: id, Lost: lost})
	}
	if err == nil && len(todo) > 0 {
		of := w.work(todo, counter, []attacks.Attack{component})
		err = w.progress.Component(id, of, func(image func(standing, passes int)) error {
			shown = image
			return work.Do(w.ctx, todo, w.job.Over(w.on.State),
				func(ctx context.Context, im attacks.Image, i int) (componentResult, error) {
					return w.attack(ctx, component, counter, im, i, noteOf(key, i))
				})
		})
	}
	for _, i := range todo {
		err = cmp.Or(err, w.journal.Forget(noteOf(key, i)))
	}
	if err != nil {
		return err
	}
	forward, backward := counter.Passes()
	seconds := work.Seconds()
	w.seconds += seconds
	w.steps = append(w.steps, result.Step{
		Attack: component.Name(), Attacked: len(images), Robust: float64(w.standing) / float64(len(w.each)),
		Forward: forward, Backward: backward, Seconds: seconds,
	})
	return nil
}

// keepEvery is the time after which the state of an attack on an image is kept again; a variable for tests. A run that
// was ended repeats so much of an attack.
var keepEvery = 5 * time.Second

// interim is the state of an attack on an image that has not ended, and what the attack has cost and shown so far.
type interim struct {
	Logits, Gradients int64
	Seen              open.Faults
	State             []byte // see [attacks.Memory]
}

// memory keeps an attack's state in a note of the journal. If an earlier run has kept one, the attack goes on from it,
// and its passes and faults are counted.
func (w *crafting) memory(note string, passes *open.Counted, seen *open.Faults) *attacks.Memory {
	m := &attacks.Memory{Every: keepEvery}
	var before interim
	if w.journal.Noted(note, &before) {
		passes.Add(before.Logits, before.Gradients)
		*seen, m.From = before.Seen, before.State
	}
	m.Keep = func(state []byte) error {
		logits, gradients := passes.Counts()
		return w.journal.Note(note, interim{logits, gradients, *seen, state})
	}
	return m
}

// attack runs a component on one image and lets the judge decide. The journal's note has the state of an earlier run.
//
// The judge asks the file itself and may refute a success, near a boundary or if answers are random. Then the
// component runs once more, at full strength and asking the file too, and the judge decides about the image that it
// returns. If that is refuted too, the network draws random numbers and the attack minimises the norm, the judge
// decides about the first point found within epsilon.
func (w *crafting) attack(ctx context.Context, component attacks.Attack, counter *open.Counted, im attacks.Image,
	i int, note string) (made componentResult, err error) {
	made.attempt = w.each[i]
	mine := counter.Child(w.on)
	how := attacks.Options{Seed: w.seed, VerdictOnly: w.verdictOnly, Memory: w.memory(note, mine, &made.Seen),
		Others: func() ([][]float32, error) { return w.others(im) }}
	res, broken, err := w.try(ctx, component, open.Watch(mine, &made.Seen), im, how)
	if errors.Is(err, attacks.ErrState) { // another version's
		logits, gradients := mine.Counts()
		mine.Add(-logits, -gradients)
		made.Seen, how.Memory.From = w.each[i].Seen, nil
		res, broken, err = w.try(ctx, component, open.Watch(mine, &made.Seen), im, how)
	}
	how.Memory = nil
	for _, how.VerdictOnly = range []bool{false, true} {
		if err == nil && refuted(res, broken) && !(how.VerdictOnly && res.Distance == 0) {
			var exact *open.Oracle
			if exact, err = w.on.Exactly(); err == nil {
				res, broken, err = w.try(ctx, component, open.Watch(mine.Child(exact), &made.Seen), im, how)
			}
		}
	}
	if err != nil {
		return made, err
	}
	made.Logits, made.Gradients = mine.Counts()
	if broken {
		at, err := w.vectors.Put(res.Adversarial)
		if err != nil {
			return made, err
		}
		made.Robust, made.Image, made.Pose = false, &at, res.Pose
		made.First, made.Queries = made.Spent+res.FirstSuccess, made.Asked+res.FirstForward
		made.Nearer = w.nearer(res.Nearer)
	}
	if broken || res.Rounded != attacks.Survived {
		made.Rounded = res.Rounded
	}
	made.Spent += res.Iterations
	made.Asked += res.Forward
	made.Seen.Starts += res.Starts
	made.Seen.Blind += res.Blind
	made.Refuted = refuted(res, broken)
	if d := res.Distance; d > 0 && !made.Refuted && (made.Nearest == 0 || d < made.Nearest) {
		made.Nearest = d
	}
	return made, nil
}

// nearer returns, for each smaller epsilon of the trial, the largest first, the first of the ever nearer points
// within it.
func (w *crafting) nearer(all []attacks.Nearer) (some []attacks.Nearer) {
	if w.trial == nil || !w.trial.Setting().Spans() {
		return nil
	}
	for _, e := range slices.Backward(slices.Sorted(slices.Values(w.trial.Setting().Epsilons))) {
		if at := firstWithin(e, all); at != nil && e < w.within.Epsilon {
			some = append(some, *at)
		}
	}
	return some
}

// try runs an attack on one image. The judge decides whether the returned image is broken.
func (w *crafting) try(ctx context.Context, a attacks.Attack, on attacks.Oracle, im attacks.Image,
	how attacks.Options) (res attacks.Result, broken bool, err error) {
	res, v, err := judge.Attack(ctx, a, w.recipe, on, w.on.Of, im, how)
	return res, !v.Right, err
}

// refuted reports whether an attack claimed a success that the judge did not see.
func refuted(res attacks.Result, broken bool) bool { return res.Adversarial != nil && !broken }

// attempt is an image after the attacks so far. During an attack it belongs to one goroutine.
type attempt struct {
	Image   *journal.Vector `json:"image,omitempty"` // nil if no attack succeeded: the clean image
	First   int             `json:"first"`           // iteration of the first success over all components, −1 if never
	Queries int             `json:"queries"`         // forward passes made until then, −1 if never
	// Nearest is the smallest norm of a misclassified point, if an attack minimised it and found one; else 0.
	Nearest float64 `json:"nearest,omitempty"`
	// Nearer are the first points within each smaller epsilon, if the attack spans several.
	Nearer []attacks.Nearer `json:"nearer,omitempty"`
	Pose   *attacks.Pose    `json:"pose,omitempty"` // the image's new position, if the attack moves it
	Robust bool             `json:"robust"`         // still right after all components so far
	// Rounded says what rounding to levels did to the image that broke, or to the last that might have.
	Rounded attacks.Rounding `json:"rounded,omitempty"`

	Spent int         `json:"spent"` // iterations of the components so far
	Asked int         `json:"asked"` // their forward passes
	Seen  open.Faults `json:"seen"`
}

// crafted holds the images that a trial made of a set against one classifier. The zero value holds the clean images.
type crafted struct {
	order                     // the attack's that made them
	each     []attempt        // nil for images that no attack made
	vectors  *journal.Vectors // images that attacks have made; nil if none has, and in a merge
	within   plan.Ball
	steps    []result.Step
	planted  *result.Planted // nil if nothing was planted
	seconds  float64
	refuted  int // number of successes that an attack claimed and the judge did not see
	warnings []result.Warning
	// agreement is nil if attacks compute in the judge's arithmetic.
	agreement *result.Agreement
	corrupt   func(im attacks.Image) ([]float32, error) // corrupts a clean image; nil for attacks
}

// Untried reports whether the i-th image is the clean one.
func (c *crafted) Untried(i int) bool { return c.corrupt == nil && c.at(i).First < 0 }

// intact is an attempt that has not begun.
var intact = attempt{First: -1, Queries: -1}

// limited returns the images of an attack that spans epsilons within a smaller one. Images beyond it count as
// standing.
func (c *crafted) limited(to plan.Ball) *crafted {
	if c.within == to {
		return c
	}
	out := *c
	out.within, out.each, out.steps = to, slices.Clone(c.each), slices.Clone(c.steps)
	out.planted = nil // it is of the largest ball
	out.warnings = lists.Only(c.warnings, func(w result.Warning) bool { return w.ID != result.WarnPlantedMissed.ID })
	for i := range out.each {
		if a := &out.each[i]; a.Image != nil && a.Nearest > to.Epsilon {
			a.Image, a.First, a.Queries, a.Robust = nil, -1, -1, true
		} else if at := firstWithin(to.Epsilon, a.Nearer); at != nil {
			a.First, a.Queries = at.Iterations, at.Forward
		}
	}
	for k := range out.steps { // there is one component
		standing := lists.Count(out.each, func(a attempt) bool { return a.Robust })
		out.steps[k].Robust = float64(standing) / float64(len(out.each))
	}
	return &out
}

// firstWithin returns the first of ever nearer points that lies within epsilon, or nil.
func firstWithin(epsilon float64, all []attacks.Nearer) *attacks.Nearer {
	return lists.Find(all, func(n attacks.Nearer) bool { return n.Distance <= epsilon })
}

func (c *crafted) at(i int) attempt {
	if c.each == nil {
		return intact
	}
	return c.each[i]
}

// Image returns the i-th image; im is the clean one. The error is a [journal.ErrNoVector] if the journal has lost the
// image.
func (c *crafted) Image(im attacks.Image, i int) ([]float32, error) {
	if c.corrupt != nil {
		return c.corrupt(im)
	}
	if at := c.at(i).Image; at != nil {
		return c.vectors.Get(*at)
	}
	return im.Pixels, nil
}

func (c *crafted) read(set open.Images, i int) (im attacks.Image, x []float32, err error) {
	if im, err = set.Read(i); err == nil {
		x, err = c.Image(im, i)
	}
	return im, x, err
}

// Attacks may run in another arithmetic than the judge. The judge sees every image that they break. A sample of the
// others is attacked again in the judge's arithmetic: a fraction againShare of them, but at least leastAgain images.
const (
	leastAgain = 50
	againShare = 0.05
)

// again attacks a sample of a crafting's standing images and counts those that stand again.
func (w *crafting) again() error {
	sample := w.sample()
	work, todo, err := folder.Recall[bool](w.journal, w.key.As("again"), w.set, sample, nil)
	if err == nil && len(todo) > 0 {
		var on *open.Oracle
		if on, err = w.on.Exactly(); err != nil {
			return err
		}
		exact, id := &open.Counted{Oracle: on}, w.id("again in float32")
		of := w.work(todo, exact, w.applied)
		err = w.progress.Component(id, of, func(image func(standing, passes int)) error {
			return work.Do(w.ctx, todo, w.job.Over(w.on.State),
				func(ctx context.Context, im attacks.Image, _ int) (bool, error) {
					defer image(w.standing, 0)
					return w.standsExactly(ctx, exact, im)
				})
		})
	}
	agree := lists.Count(sample, func(i int) bool { return work.Values[i] })
	w.agreement = &result.Agreement{N: len(sample), Agree: agree}
	return err
}

// sample returns images that stand, chosen by a hash of the seed and their ids. A shard returns all of its images
// that may be in the whole run's sample.
func (w *crafting) sample() []int {
	var standing, ids []int
	for i, a := range w.each {
		if a.Robust && w.set.Own(i) {
			standing, ids = append(standing, i), append(ids, w.set.ID(i))
		}
	}
	most := len(standing)
	if w.set.Shared() {
		most += w.set.Len() - w.own
	}
	var sample []int
	for _, k := range plan.ByHash(ids, fmt.Sprintf("%d ", w.seed))[:min(Sampled(most), len(standing))] {
		sample = append(sample, standing[k])
	}
	return sample
}

// Sampled returns the size of the sample of so many standing images.
func Sampled(standing int) int {
	return min(standing, max(leastAgain, int(math.Ceil(againShare*float64(standing)))))
}

// standsExactly attacks an image in the judge's arithmetic. If a success is refuted, it attacks again at full
// strength.
func (w *crafting) standsExactly(ctx context.Context, exact attacks.Oracle, im attacks.Image) (bool, error) {
	for _, component := range w.applied {
		for _, verdictOnly := range []bool{true, false} {
			how := attacks.Options{Seed: w.seed, VerdictOnly: verdictOnly}
			res, broken, err := w.try(ctx, component, exact, im, how)
			if err != nil || broken {
				return false, err
			}
			if !refuted(res, broken) {
				break
			}
		}
	}
	return true, nil
}

// lately is the number of latest proofs that estimate the chance of the next one.
const lately = 8

// prove lets bounds decide images that the first component has left, large margins first, as long as this saves time:
// as long as a proof takes less time than the later components would take for the image, times the chance that it is
// proven. Within the same time a proof may branch too. No verdict depends on it, since a proven image stands every
// attack.
func (w *crafting) prove() error {
	prove, err := w.prover.Image(w.trial, w.on.Of)
	if err != nil {
		return err
	}
	var recent []bool
	work, _, err := folder.Recall(w.journal, w.key.As("proven"), w.set, nil, func(i int, is bool) bool {
		w.proven[i] = is
		recent = append(recent, is)
		return true
	})
	if err != nil {
		return err
	}
	recent = nil
	var todo []int
	for i, a := range w.each {
		if _, known := w.proven[i]; a.Robust && !known {
			todo = append(todo, i)
		}
	}
	slices.SortStableFunc(todo, func(i, j int) int { return cmp.Compare(w.clean[j].Margin, w.clean[i].Margin) })
	rest := w.rest()
	pays := func() bool { return saved(rest, recent) > work.Seconds()/float64(max(len(w.proven), 1)) }
	began := time.Now()
	for len(todo) > 0 && prove != nil && pays() {
		some := todo[:min(w.job.Cores(), len(todo))]
		todo = todo[len(some):]
		// Half of the time that they save, so that proofs stay worth it.
		branching := time.Duration(saved(rest, recent) / 2 * float64(len(some)*int(time.Second)))
		err := work.Do(w.ctx, some, open.SideBySide(len(some)),
			func(ctx context.Context, im attacks.Image, _ int) (bool, error) { return prove(ctx, im, branching) })
		if err != nil {
			return err
		}
		recent = recent[max(0, len(recent)-lately):]
		if len(todo) == 0 || !pays() {
			w.progress.Report(progress.ImagesProven{ID: w.cell, Proven: w.certain(), Tried: len(w.proven),
				Robust: w.standing, Took: time.Since(began), Label: w.label})
		}
	}
	if len(w.proven) == 0 {
		return nil
	}
	seconds := work.Seconds()
	w.seconds += seconds
	w.steps = append(w.steps, result.Step{Attack: attacks.BoundsKind, Attacked: len(w.proven), Proven: w.certain(),
		Robust: w.steps[0].Robust, Seconds: seconds})
	return nil
}

// saved estimates how many seconds a proof saves, all cores at work: rest, the time of a standing image, times the
// chance that the image is proven, judged by the last proofs.
func saved(rest float64, recent []bool) float64 {
	hits := lists.Count(recent, func(is bool) bool { return is })
	return rest * float64(hits+1) / float64(len(recent)+2)
}

func (w *crafting) certain() int {
	return lists.Count(slices.Collect(maps.Values(w.proven)), func(is bool) bool { return is })
}

// rest estimates how long the components after the first take for a standing image, from the first one's time.
func (w *crafting) rest() float64 {
	first := w.steps[0]
	passes := 0.0
	for _, c := range w.recipe.Usual(w.on.Of.Control != nil).Components[1:] {
		f, b := c.Passes(w.on.Classes())
		passes += float64(f)*w.on.Cost.Forward + float64(b)*w.on.Cost.Backward
	}
	return passes * first.Seconds / float64(max(first.Forward+first.Backward, 1))
}
