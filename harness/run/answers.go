package run

import (
	"cmp"
	"math"
	"slices"

	"selfheal/attacks"
	"selfheal/harness/result"
)

// simplex reports whether an answer looks like probabilities, by the reference AutoAttack's test.
func simplex(z []float32) bool {
	low, high, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range z {
		low, high, sum = min(low, float64(v)), max(high, float64(v)), sum+float64(v)
	}
	return low > -1e-5 && high < 1+1e-5 && math.Abs(sum-1) < 1e-5
}

// logarithms reports whether the exponentials of an answer add up to 1, to 1e-3.
func logarithms(z []float32) bool {
	sum := 0.0
	for _, v := range z {
		sum += math.Exp(float64(v))
	}
	return math.Abs(sum-1) < 1e-3
}

// outputs are those of the file: of a single logit z the answer is 0 and z, which no network of two outputs gives.
func outputs(z []float32) []float32 {
	if len(z) == 2 && z[0] == 0 {
		return z[1:]
	}
	return z
}

// unit reports whether an answer is a vector of length 1, to 1e-4.
func unit(z []float32) bool {
	return len(outputs(z)) > 1 && math.Abs(attacks.L2.Length(z)-1) < 1e-4
}

// shares is the sum of an answer whose values all lie in (0,1), 0 of others.
func shares(z []float32) (sum float64) {
	for _, v := range outputs(z) {
		if !(v > 0 && v < 1) {
			return 0
		}
		sum += float64(v)
	}
	return sum
}

// fewestValues is how many numbers it takes to say what kind of numbers a network gives.
const fewestValues = 20

// answers are warnings about a network whose answers do not look like what the config says they are: logits, or
// probabilities.
func answers(s scoring, v []verdict) (list []result.Warning) {
	all := func(holds func(verdict) bool) bool {
		return !slices.ContainsFunc(v, func(v verdict) bool { return !holds(v) })
	}
	model := s.who.Model
	if s.Model.Output == "probabilities" {
		if logits := howMany(v, func(v verdict) bool { return !v.Logs }); logits > 0 {
			list = append(list, result.WarnNoProbabilities.New(
				"model %s has output: probabilities, but on %s its output does not add up to 1", model,
				share(logits, len(v))))
		}
		return list
	}
	if all(func(v verdict) bool { return v.Simplex }) {
		return append(list, result.WarnProbabilities.New("model %s gives probabilities, not logits; losses on them "+
			"have vanishing gradients: set output: probabilities", model))
	}
	if len(v)*s.who.Classes < fewestValues {
		return nil
	}
	bySum := func(a, b verdict) int { return cmp.Compare(a.Sum, b.Sum) }
	least, most := slices.MinFunc(v, bySum).Sum, slices.MaxFunc(v, bySum).Sum
	switch {
	case least > 0 && s.who.Classes == 2 && most < 1:
		list = append(list, result.WarnSigmoids.New("model %s gives one number an image, from %.3g to %.3g: that "+
			"looks like a probability, and taken for a logit it is class 1 on every image: set output: probabilities",
			model, least, most))
	case least > 0 && most-least > 1e-3:
		list = append(list, result.WarnSigmoids.New("model %s gives %d numbers between 0 and 1, whose sum goes from "+
			"%.3g to %.3g: that looks like a sigmoid for each class, on which gradients vanish; export the network "+
			"without them", model, s.who.Classes, least, most))
	}
	if all(func(v verdict) bool { return v.Unit }) {
		list = append(list, result.WarnEmbeddings.New("model %s gives %d numbers of length 1 on all %d images: that "+
			"looks like an embedding, whose directions are no classes", model, s.who.Classes, len(v)))
	}
	return list
}
