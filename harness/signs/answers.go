package signs

import (
	"cmp"
	"slices"

	"selfheal/harness/config"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/internal/lists"
)

// fewestValues is how many numbers it takes to tell what a network's output is.
const fewestValues = 20

// Answers returns warnings about a network whose answers, by their verdicts, do not look like the output in the config:
// logits or probabilities.
func Answers(m *config.Model, who open.Classifier, v []judge.Verdict) (list []result.Warning) {
	all := func(holds func(judge.Verdict) bool) bool {
		return !slices.ContainsFunc(v, func(v judge.Verdict) bool { return !holds(v) })
	}
	model := m.Name
	labels := m.Output == "label" || who.Net != nil && who.Net.Labels
	if labels || m.Votes > 0 { // the head writes these numbers itself
		return nil
	}
	if m.Output == "probabilities" {
		if logits := lists.Count(v, func(v judge.Verdict) bool { return !v.Logs }); logits > 0 {
			list = append(list, result.WarnNoProbabilities.New(
				"model %s has output: probabilities, but on %s its output does not add up to 1", model,
				Share(logits, len(v))))
		}
		return list
	}
	if all(func(v judge.Verdict) bool { return v.Simplex }) {
		return append(list, result.WarnProbabilities.New("model %s gives probabilities, not logits; losses on them "+
			"have vanishing gradients: set output: probabilities (--probabilities)", model))
	}
	if len(v)*who.Classes < fewestValues {
		return nil
	}
	bySum := func(a, b judge.Verdict) int { return cmp.Compare(a.Sum, b.Sum) }
	least, most := slices.MinFunc(v, bySum).Sum, slices.MaxFunc(v, bySum).Sum
	switch {
	case least > 0 && who.Classes == 2 && most < 1:
		list = append(list, result.WarnSigmoids.New("model %s gives one number an image, from %.3g to %.3g: that "+
			"looks like a probability, and taken for a logit it is class 1 on every image: set output: probabilities "+
			"(--probabilities)", model, least, most))
	case least > 0 && most-least > 1e-3:
		list = append(list, result.WarnSigmoids.New("model %s gives %d numbers between 0 and 1, whose sum goes from "+
			"%.3g to %.3g: that looks like a sigmoid for each class, on which gradients vanish; export the network "+
			"without them", model, who.Classes, least, most))
	}
	if all(func(v judge.Verdict) bool { return v.Unit }) {
		list = append(list, result.WarnEmbeddings.New("model %s gives %d numbers of length 1 on all %d images: that "+
			"looks like an embedding, whose directions are no classes", model, who.Classes, len(v)))
	}
	return list
}
