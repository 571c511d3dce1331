package run

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/planted"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/signs"
	"selfheal/internal/lists"
)

// The limits of the probes. A closed loop takes many passes, so fewer of its images are probed.
const (
	probed           = 32 // images of an undefended network
	probedControlled = 8
	repeats          = 5 // number of answers that the randomness probe compares, as in the reference AutoAttack
	neighbours       = 10
	// probeRadius is half a grey level, noise that an image does not show.
	probeRadius = 0.5 / 255
	// unstable is the median relative change of the margin above which a loss is called unstable. Trained networks
	// have 1 % or less.
	unstable = 0.1
	// farCopy is the fraction of images on which the opened copy of a file may answer otherwise than the file without
	// a warning.
	farCopy = 0.1
	// repeatable is the largest distance between normalised answers that count as equal, as in the reference
	// AutoAttack.
	repeatable = 1e-4
)

// probed returns the warnings of the probes. They are made once a run and concern every cell of a classifier.
func (s scoring) probed(v []judge.Verdict) ([]result.Warning, error) {
	key := s.Row(s.who.Defense()).Made()
	if found, done := s.probes[key]; done || !s.ofClean() || !s.job.Set.First() {
		return found, nil
	}
	found, err := folder.Once(s.journal, folder.Key{Of: "probe", Made: key}, func() (_ []result.Warning, err error) {
		var found []result.Warning
		if s.Model.Votes == 0 { // a network with votes has answers keyed by the image, which differ from neighbours'
			found, err = probe(s.ctx, s.job, s.who, s.plan.Config.Seed, v)
		}
		if err == nil && s.who.Control == nil {
			text := open.Unnamed(s.plan.Config.Dataset(s.Suite.Dataset), s.job.Set, s.who.Classes)
			if text != "" {
				found = append(found, result.WarnClassSubset.New("%s", text))
			}
			var better []result.Warning
			better, err = s.preprocessing(v)
			found = append(found, better...)
		}
		return found, err
	})
	if err == nil {
		s.probes[key] = found
	}
	return found, err
}

// preprocessing warns if a usual preprocessing is better than the model's. It also asks about images of other shards.
func (s scoring) preprocessing(v []judge.Verdict) ([]result.Warning, error) {
	set := s.job.Set
	places, right := open.Sample(set.Len()), make([]bool, set.Len())
	err := s.job.ForEach(s.ctx, len(places), s.who.State(), func(ctx context.Context, k int) error {
		i := places[k]
		if set.Own(i) {
			right[i] = v[i].Right
			return nil
		}
		im, err := set.Read(i)
		if err != nil {
			return err
		}
		z, err := s.who.Logits(attacks.About(ctx, im), im.Pixels)
		right[i] = err == nil && attacks.Right(z, im.Label)
		return err
	})
	if err != nil {
		return nil, err
	}
	better, err := s.job.Better(s.ctx, places, right)
	if better == nil || err != nil {
		return nil, err
	}
	return []result.Warning{result.WarnPreprocessing.New("%s", better.Message(s.Model.Name))}, nil
}

// ProbePasses is how many answers a probed image takes.
const ProbePasses = repeats + neighbours

// Probed returns how many images of a classifier are probed at most.
func Probed(who open.Classifier) int {
	if who.Control != nil {
		return probedControlled
	}
	return probed
}

// firstOf returns the first of n places for which holds is true, at most as many as are probed of a classifier.
func firstOf(n int, who open.Classifier, holds func(i int) bool) (todo []int) {
	for i := 0; i < n && len(todo) < Probed(who); i++ {
		if holds(i) {
			todo = append(todo, i)
		}
	}
	return todo
}

// probe asks about clean images again and about images beside them. It warns if answers are random or jump.
func probe(ctx context.Context, b *open.Job, who open.Classifier, seed uint64, clean []judge.Verdict) (
	[]result.Warning, error) {
	var failed error
	set := b.Set
	todo := firstOf(set.Len(), who, func(i int) bool {
		if set.Own(i) || failed != nil {
			return clean[i].Right
		}
		var v judge.Verdict // another shard has the verdict
		im, err := set.Read(i)
		if err == nil {
			v, err = judge.Judge(ctx, who, im, im.Pixels, plan.Ball{}, judge.AnswerOnly)
		}
		failed = err
		return v.Right
	})
	if failed != nil || len(todo) == 0 {
		return nil, failed
	}
	byFile := who.Control == nil && who.Net.File() != nil && who.Net.Graph.IsCopy()
	changes, apart, other := make([]float64, len(todo)), make([]float64, len(todo)), make([]bool, len(todo))
	err := b.ForEach(ctx, len(todo), who.State(), func(ctx context.Context, k int) error {
		im, err := set.Read(todo[k])
		if err != nil {
			return err
		}
		ctx = attacks.About(ctx, im)
		first, err := who.Logits(ctx, im.Pixels)
		if err != nil {
			return err
		}
		for range repeats - 1 {
			again, err := who.Logits(ctx, im.Pixels)
			if err != nil {
				return err
			}
			apart[k] = math.Max(apart[k], normalisedDistance(first, again))
		}
		if byFile {
			copied := make([]float32, who.Classes)
			if err := who.Net.CopyLogits(ctx, im.Pixels, copied); err != nil {
				return err
			}
			other[k] = !attacks.Right(copied, im.Label)
		}
		margin := attacks.LogitMargin(first, im.Label)
		rng := rand.New(rand.NewPCG(seed, uint64(im.ID)))
		beside := make([]float32, len(im.Pixels))
		for range neighbours {
			for i, v := range im.Pixels {
				beside[i] = min(max(v+float32(probeRadius*(2*rng.Float64()-1)), 0), 1)
			}
			z, err := who.Logits(ctx, beside)
			if err != nil {
				return err
			}
			changes[k] += math.Abs(attacks.LogitMargin(z, im.Label)-margin) / math.Max(margin, 1e-12) / neighbours
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []result.Warning
	if n := lists.Count(other, func(is bool) bool { return is }); float64(n) > farCopy*float64(len(todo)) {
		list = append(list, result.WarnFarCopy.New("on %d of %d images that the file is right on, the copy that "+
			"gives gradients is wrong: they are those of another network", n, len(todo)))
	}
	random := slices.Max(apart) > repeatable
	if random {
		list = append(list, result.WarnRandomized.New(
			"the answers of %s to one image differ from pass to pass: attack it with AutoAttack's version rand, "+
				"which averages gradients", who))
	}
	if median := lists.Median(changes); median > unstable && !random {
		list = append(list, result.WarnUnstableLoss.New(
			"noise of half a grey level changes the margin of the median image by %.0f %%: "+
				"gradients lead attacks astray", 100*median))
	}
	return list, nil
}

// normalisedDistance returns ‖a/‖a‖ − b/‖b‖‖₂, as the reference compares answers. The judge reports NaN, not this
// probe.
func normalisedDistance(a, b []float32) float64 {
	na, nb := attacks.L2.Length(a)+1e-10, attacks.L2.Length(b)+1e-10
	sum := 0.0
	for i := range a {
		d := float64(a[i])/na - float64(b[i])/nb
		sum += d * d
	}
	return math.Sqrt(sum)
}

// Unbounded returns the attack at epsilon 1 that probes images of ℓ∞ attacks.
func Unbounded(classes int) (attacks.Recipe, error) {
	return attacks.Setup{Kind: "apgd-dlr", Norm: attacks.Linf,
		Parameters: map[string]any{"loss": "margin", "steps": 20}}.Make(1, classes)
}

// sampled asks about images. Answers that the journal has under key are not asked for again.
func sampled[T any](w *crafting, key folder.Key, asked []int,
	ask func(ctx context.Context, im attacks.Image) (T, error)) ([]T, error) {
	work, todo, err := folder.Recall[T](w.journal, key, w.set, asked, nil)
	if err == nil {
		err = work.Do(w.ctx, todo, w.job.Over(w.on.State),
			func(ctx context.Context, im attacks.Image, _ int) (T, error) { return ask(ctx, im) })
	}
	if err != nil {
		return nil, err
	}
	return lists.Map(asked, func(i int) T { return work.Values[i] }), nil
}

// unbounded attacks images that stood in ℓ∞ once more, at epsilon 1, where every image can reach every other. If an
// image still stands, something other than robustness stops the attack.
func (w *crafting) unbounded() error {
	recipe, err := Unbounded(w.on.Classes())
	if err != nil {
		return err
	}
	asked := firstOf(w.set.Len(), w.on.Of, func(i int) bool { return w.each[i].Robust })
	stand, err := sampled(w, w.key.As("epsilon 1"), asked,
		func(ctx context.Context, im attacks.Image) (bool, error) {
			how := attacks.Options{Seed: w.plan.Config.Seed, VerdictOnly: true}
			res, err := recipe.Components[0].Perturb(ctx, w.on, im, how)
			return res.Adversarial == nil, err
		})
	if left := lists.Count(stand, func(still bool) bool { return still }); err == nil && left > 0 {
		w.warnings = append(w.warnings, result.WarnStandsAtEpsilonOne.New(
			"%s stand even at epsilon 1, where any image may become any other: something else than robustness "+
				"stops the attack", signs.Share(left, len(stand))))
	}
	return err
}

// slopeRadius is the step by which the change along a gradient is compared with what the gradient promises. Trained
// networks then differ by 3 % at most, and by up to a quarter at half a grey level.
const slopeRadius = 0.05 / 255

// promises reports whether the gradient is meant to be that of the answers: not in less than float32, of random
// answers, through the rounding of a file, or with a control held constant.
func (w *crafting) promises() bool {
	n := w.on.Of.Net
	return w.plan.Config.Runtime.Reduced() == "" && w.plan.Config.Model(w.on.Of.Model).Votes == 0 &&
		!(w.cell.Mode == result.WhiteboxDetached && w.on.Of.Control != nil) &&
		(n == nil || !n.Graph.IsCopy() && !n.Graph.Levels && !n.Stepped) // nil: the journal has the answers
}

// slope compares the gradient with what the answers do along it, once for all attacks on a classifier.
func (w *crafting) slope() error {
	if !w.promises() || w.seed != w.plan.Config.Seed {
		return nil
	}
	key := folder.Key{Of: "slope", Made: w.job.Row(w.on.Of.Defense()).Made()}
	asked := firstOf(w.set.Len(), w.on.Of, func(i int) bool { return w.clean[i].Right })
	ratios, err := sampled(w, key, asked, func(ctx context.Context, im attacks.Image) (float64, error) {
		return signs.Slope(ctx, w.on, im, slopeRadius)
	})
	if errors.As(err, new(folder.Lacks)) { // shards of an earlier version
		return nil
	}
	if median, differs := signs.Differs(ratios); err == nil && differs {
		w.warnings = append(w.warnings, result.WarnGradientDiffers.New("along its gradient, by a twentieth of a grey "+
			"level, the margin of the median image changes by %.2f times what the gradient says", median))
	}
	return err
}

// needed reports whether the k-th component has anything to do: its gradient exists, and there are the signs that it
// needs, in the first images of the whole set, so that shards come to the same.
func (w *crafting) needed(k int) (bool, error) {
	needs := w.recipe.Components[k].Needs()
	if needs.Signs {
		if hidden, err := w.hidden(); !hidden || err != nil {
			return false, err
		}
	}
	if !needs.Special() {
		return true, nil
	}
	return folder.Once(w.journal, w.key.As(folder.Along+" "+needs.Gradient), func() (bool, error) {
		by, err := attacks.Along(w.on.Oracle, needs.Gradient)
		return by != nil, err
	})
}

// along returns the attacked classifier with the cost of its passes along the gradient that a component follows.
func (w *crafting) along(needs attacks.Needs) (*open.Oracle, error) {
	if !needs.Special() {
		return w.on, nil
	}
	on := *w.on
	var err error
	on.Cost, err = folder.Once(w.journal, w.key.As(folder.Cost+" "+folder.Along+" "+needs.Gradient),
		func() (cost control.Cost, err error) {
			by, err := attacks.Along(w.on.Oracle, needs.Gradient)
			if err == nil {
				cost, err = by.(interface{ Cost() (control.Cost, error) }).Cost()
			}
			return cost, err
		})
	return &on, err
}

// hidden reports whether there are signs that something hides the gradient: it misleads, or the components that always
// run miss planted perturbations. They are asked about images of the whole set, so that shards come to the same.
func (w *crafting) hidden() (bool, error) {
	asked := planted.Asked(w.set.IDs())
	radius := float32(slopeRadius)
	if !w.promises() {
		radius = 0
	}
	followed, err := sampled(w, w.key.As("followed gradients"), asked,
		func(ctx context.Context, im attacks.Image) (signs.Misled, error) {
			return signs.Follow(ctx, w.on.Oracle, im, w.recipe.Norm, w.recipe.Epsilon, radius)
		})
	if err != nil && !errors.As(err, new(folder.Lacks)) { // shards of an earlier version lack it
		return false, err
	}
	if signs.Misleads(followed) {
		return true, nil
	}
	all, err := w.planting("signs of hidden gradients", asked, w.recipe.Plain())
	return all.Hides(len(asked)), err
}

// plant plants perturbations in some of the images that were attacked, for the attack to find.
func (w *crafting) plant() error {
	if w.seed != w.plan.Config.Seed {
		return nil
	}
	asked := planted.Choose(w.seed, len(w.spent), w.set.ID, func(i int) int64 {
		if w.proven[i] { // which are depends on the time
			return 0
		}
		return w.spent[i]
	})
	if len(asked) == 0 {
		return nil
	}
	recipe := w.recipe
	if plain := recipe.Plain(); len(plain.Components) < len(recipe.Components) {
		if hidden, err := w.hidden(); err != nil {
			return err
		} else if !hidden {
			recipe = plain
		}
	}
	all, err := w.planting("planted", asked, recipe)
	if w.planted = &all.Planted; all.Missed() && w.standing > 0 {
		w.warnings = append(w.warnings, result.WarnPlantedMissed.New("the attack finds %d of %d planted "+
			"perturbations, as many random points %d", all.Found, all.N, all.Random))
	}
	return err
}

// planting plants perturbations in images, for a recipe to find. The journal has the outcomes as a block of this kind.
func (w *crafting) planting(kind string, images []int, recipe attacks.Recipe) (all planted.Outcome, err error) {
	var passes atomic.Int64
	var shown func(missed, passes int) // until the journal is read: nil
	outcomes := map[int]planted.Outcome{}
	missed := func() int {
		return lists.Count(images, func(i int) bool {
			one, done := outcomes[i]
			return !done || one.Found < one.N
		})
	}
	work, todo, err := folder.Recall(w.journal, w.key.As(kind), w.set, images,
		func(i int, one planted.Outcome) bool {
			outcomes[i] = one
			if passes.Add(one.Passes); shown != nil {
				shown(missed(), int(one.Passes))
			}
			return true
		})
	if err == nil && len(todo) > 0 {
		p := planted.Open(w.on.Plant)
		defer p.Close()
		id := w.id(kind)
		id.Words = progress.Words{Done: "planted", Stand: "missed", SoFar: "missed at most"}
		of := progress.Work{Images: len(todo), Standing: missed(), N: len(images),
			Passes: int64(len(todo)) * planted.Passes(recipe, w.on.Classes()), Made: passes.Load}
		err = w.progress.Component(id, of, func(image func(missed, passes int)) error {
			shown = image
			return work.Do(w.ctx, todo, w.job.Over(w.on.State+p.Memory()),
				func(ctx context.Context, im attacks.Image, _ int) (planted.Outcome, error) {
					return p.Image(ctx, recipe, im, planted.Options{Seed: w.seed}), ctx.Err()
				})
		})
	}
	return planted.Sum(images, outcomes), err
}
