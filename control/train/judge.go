package train

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"selfheal/attacks"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// lastImages is about how many of the last images check a finished embedding.
const lastImages = 512

// Check compares two accuracies on the last images, through the networks that their steps drew: the one during
// training (saw), and the one with es, the embeddings as they were written (gives).
func (t *Trainer) Check(ctx context.Context, es ...*onnx.Graph) (saw, gives float64, images int, err error) {
	steps := make([][]int, len(t.networks)) // by network
	for k := len(t.history) - 1; k >= 0 && images < lastImages; k-- {
		l, n := t.history[k], len(t.images(k))
		steps[l.Network], images = append(steps[l.Network], k), images+n
		saw += float64(n) * l.Accuracy
	}
	right := 0
	for i, f := range t.networks {
		hits, err := examiner{t}.right(ctx, f, es, func(yield func(step int, images []int) bool) {
			for _, step := range steps[i] {
				if !yield(step, t.images(step)) {
					return
				}
			}
		})
		if err != nil {
			return 0, 0, 0, err
		}
		right += hits
	}
	return saw / float64(images), float64(right) / float64(images), images, nil
}

// Judged are accuracies on images that a training has not seen, means over its networks.
type Judged struct {
	Images int
	Alone  float64 // of the networks without the embedding, on clean images
	Clean  float64 // with it, on clean images
	// Oblivious is with it, on the images that PGD makes on the networks alone; Through where PGD knows it and goes
	// through both. See [Settings.judging].
	Oblivious, Through float64
	// Trained is with it, on images that the objective perturbs as in training; Clean for objective clean.
	Trained float64
}

// Score is how much a control with the embedding is worth: the mean of the accuracies on clean images and on attacked
// ones, by the attack that the objective trains for, or else by an oblivious one.
func (j Judged) Score(o Objective) float64 {
	switch {
	case o.searched():
		return (j.Clean + j.Through) / 2
	case o == Gaussian:
		return (j.Clean + j.Trained) / 2
	}
	return (j.Clean + j.Oblivious) / 2
}

// JudgedKeys are the keys of an embedding's metadata that hold how it was judged: how many images, and accuracies as
// fractions.
var JudgedKeys = []string{"held_out", "held_out_alone", "held_out_accuracy", "held_out_oblivious", "held_out_through",
	"held_out_trained"}

func (j *Judged) accuracies() []*float64 {
	return []*float64{&j.Alone, &j.Clean, &j.Oblivious, &j.Through, &j.Trained}
}

// Meta returns metadata that [ReadJudged] reads; none if no images were held back.
func (j Judged) Meta() map[string]string {
	if j.Images == 0 {
		return nil
	}
	meta := map[string]string{JudgedKeys[0]: strconv.Itoa(j.Images)}
	for i, v := range j.accuracies() {
		meta[JudgedKeys[i+1]] = strconv.FormatFloat(*v, 'g', 6, 64)
	}
	return meta
}

// ReadJudged returns how an embedding was judged; ok is false if its metadata do not tell. Files of earlier versions
// know clean images alone.
func ReadJudged(meta map[string]string) (j Judged, ok bool) {
	var err error
	j.Images, err = strconv.Atoi(meta[JudgedKeys[0]])
	for i, v := range j.accuracies() {
		if text := meta[JudgedKeys[i+1]]; text != "" {
			var bad error
			*v, bad = strconv.ParseFloat(text, 64)
			err = cmp.Or(err, bad)
		}
	}
	if meta["held_out_trained"] == "" {
		j.Trained = j.Clean
	}
	return j, err == nil && j.Images > 0
}

// String says how the embedding was judged, "81.2 % of 512 clean images held back, without it 91.8 %; …".
func (j Judged) String() string {
	text := fmt.Sprintf("%.1f %% of %d clean images held back, without it %.1f %%", 100*j.Clean, j.Images, 100*j.Alone)
	if j.Oblivious+j.Through > 0 {
		text += fmt.Sprintf("; after PGD that knows the network alone %.1f %%, through it %.1f %%", 100*j.Oblivious,
			100*j.Through)
	}
	if j.Trained != j.Clean {
		text += fmt.Sprintf("; perturbed as in training %.1f %%", 100*j.Trained)
	}
	return text
}

// judging is the search that judges an embedding: ten steps of PGD in the objective's ball, or at ℓ∞ 8/255.
func (s Settings) judging() search {
	const steps, usual = 10, 8. / 255
	to := search{attacks.Linf, usual, 0, steps}
	if s.Objective.searched() {
		to.norm, to.epsilon = s.Norm, s.Epsilon
	}
	to.stepSize = 2.5 * to.epsilon / steps
	return to
}

// Judge asks the networks, with the embeddings as they were written and alone, about images that were held back. Unless
// attacked is set it leaves Alone, Oblivious and, of a perturbed objective, Trained out.
func (t *Trainer) Judge(ctx context.Context, es []*onnx.Graph, held Data, attacked bool) (j Judged, err error) {
	j.Images = len(held.Labels)
	clean, perturbed := asked(t, held), asked(t, held)
	perturbed.settings.Objective = t.settings.Objective
	once, search := whole(held), t.settings.judging()
	for _, f := range t.networks {
		for _, one := range []struct {
			to    *float64
			asked bool
			count func() (int, error)
		}{
			{&j.Clean, true, func() (int, error) { return clean.right(ctx, f, es, once) }},
			{&j.Trained, attacked && t.settings.Objective.perturbed(), func() (int, error) {
				return perturbed.right(ctx, f, es, once)
			}},
			{&j.Through, attacked || t.settings.Objective.searched(), func() (int, error) {
				return clean.withstands(ctx, search, f, es, es)
			}},
			{&j.Alone, attacked, func() (int, error) { return clean.right(ctx, f, nil, once) }},
			{&j.Oblivious, attacked, func() (int, error) { return clean.withstands(ctx, search, f, nil, es) }},
		} {
			if !one.asked {
				continue
			}
			right, err := one.count()
			if err != nil {
				return j, err
			}
			*one.to += float64(right) / float64(j.Images*len(t.networks))
		}
	}
	if !t.settings.Objective.perturbed() {
		j.Trained = j.Clean
	}
	return j, nil
}

// examiner is a trainer that is asked and not trained.
type examiner struct{ *Trainer }

// asked returns an examiner of objective clean on other images, as they are.
func asked(t *Trainer, data Data) examiner {
	at := *t
	at.data, at.settings.Augment, at.settings.Objective = data, Augment{}, Clean
	return examiner{&at}
}

func all(data Data) []int {
	list := make([]int, len(data.Labels))
	for i := range list {
		list[i] = i
	}
	return list
}

// whole is a step that takes all images, after all others.
func whole(data Data) iter.Seq2[int, []int] {
	return func(yield func(step int, images []int) bool) { yield(math.MaxInt32, all(data)) }
}

// right counts the images of steps that a network classifies correctly, with embeddings or, if there are none, alone.
func (t examiner) right(ctx context.Context, f *frozen, es []*onnx.Graph, steps iter.Seq2[int, []int]) (right int,
	err error) {
	session, err := f.session(es, false)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	for step, images := range steps {
		for images := range slices.Chunk(images, shard) {
			in, err := t.inputs(ctx, f, step, images)
			if err != nil {
				return 0, err
			}
			out, err := session.Run(in[:1])
			if err != nil {
				return 0, err
			}
			right += t.data.right(images, out[0].Data)
		}
	}
	return right, nil
}

// session opens the network with embeddings or, if there are none, alone: its logits or, if attacked is set, an
// attack's step on its cross-entropy ([grad.Loss]).
func (n Network) session(es []*onnx.Graph, attacked bool) (*ort.Session, error) {
	two := append(slices.Clone(es), nil, nil) // nil is the identity
	parts := []part{{"before/", n.Before}, {"E/0/", two[0]}, {"between/", n.Between}, {"E/1/", two[1]},
		{"after/", n.After}}
	g, err := composed("check", "logits", n.image(), parts...)
	if err == nil && attacked {
		g, err = grad.Loss(g, "ce")
	}
	if err != nil {
		return nil, err
	}
	return ort.OpenGraph(g)
}

// withstands counts the images that a network with embeddings classifies correctly after PGD has changed them. PGD
// knows the network with those of known or, if there are none, alone.
func (t examiner) withstands(ctx context.Context, by search, f *frozen, known, es []*onnx.Graph) (right int,
	err error) {
	attack, err := f.session(known, true)
	if err != nil {
		return 0, err
	}
	defer attack.Close()
	judge, err := f.session(es, false)
	if err != nil {
		return 0, err
	}
	defer judge.Close()
	shards := slices.Collect(slices.Chunk(all(t.data), shard))
	err = ort.InOrder(ctx, t.settings.Workers, len(shards), func(k int) ([]ort.Tensor, error) {
		x, label, err := t.data.batch(shards[k], f.classes(), t.data.Pixels)
		if err != nil {
			return nil, err
		}
		start := func(i int, w *attacks.Walk) { w.Scatter(generator(t.settings.Seed, "judge", 0, shards[k][i])) }
		x, err = by.worst(ctx, x, start, func(x ort.Tensor) ([]float32, error) {
			out, err := attack.Run([]ort.Tensor{x, label})
			if err != nil {
				return nil, err
			}
			return out[2].Data, nil
		})
		if err != nil {
			return nil, err
		}
		return judge.Run([]ort.Tensor{x})
	}, func(k int, out []ort.Tensor) { right += t.data.right(shards[k], out[0].Data) })
	return right, err
}
