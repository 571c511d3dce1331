// Package certify proves what attacks only try: that no perturbation of a given size changes a classifier's answer.
package certify

import (
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"selfheal/harness/stats"
)

// Smoothing is randomised smoothing (Cohen, Rosenfeld and Kolter 2019, "Certified Adversarial Robustness via
// Randomized Smoothing", algorithm CERTIFY): the smoothed classifier answers the class that the base classifier
// answers most often when Gaussian noise of deviation Sigma is added to the image. If that class has a probability of
// at least p, no perturbation of an ℓ2 norm below Sigma·Φ⁻¹(p) changes it (their theorem 1).
type Smoothing struct {
	Sigma float64 // of the noise, in pixel units of [0,1]
	N0, N int     // samples that choose the class, and samples that bound its probability
	Alpha float64 // probability, over the noise, that an image's certificate is wrong
	// Radii are those to be decided, in ℓ2, ascending; where there are any, sampling ends as soon as all are.
	Radii []float64
}

// Vote is what an image's samples came to.
type Vote struct {
	Class   int `json:"class"`   // that was answered most often, -1 where there was no answer
	Samples int `json:"samples"` // in all
	// Lower bounds the class's probability from below, but for an error of probability Alpha.
	Lower float64 `json:"lower"`
}

// Chunk is how many samples are taken between two looks at what they have decided.
const Chunk = 100

// Certify takes samples of an image of a class: draw adds n further samples, those from the given one on, to the
// number of answers of each class. With radii, an image of which another class is answered gets no further samples.
//
// With radii the error is shared. Half of Alpha goes to a confidence sequence, which may be looked at after every Chunk
// ([stats.Sequence]), half to Clopper and Pearson's bound of all N samples, if it comes to them; both hold together by
// the union bound, and so does the larger of all lower bounds. A radius is decided when the sequence's interval lies on
// one side of the probability that it takes, Φ(radius/Sigma).
func (s Smoothing) Certify(label int, draw func(from, n int, answers []int) error, classes int) (v Vote, err error) {
	answers := make([]int, classes)
	if err := draw(0, s.N0, answers); err != nil {
		return v, err
	}
	v.Class, v.Samples = Most(answers), s.N0
	if early := len(s.Radii) > 0; v.Class < 0 || early && v.Class != label {
		return v, nil
	} else if !early {
		clear(answers)
		err = draw(s.N0, s.N, answers)
		v.Samples += s.N
		v.Lower = lower(answers[v.Class], s.N, s.Alpha)
		return v, err
	}
	clear(answers)
	for n := 0; n < s.N; {
		more := min(Chunk, s.N-n)
		if err := draw(s.N0+n, more, answers); err != nil {
			return v, err
		}
		n += more
		v.Samples += more
		ends := stats.Sequence(answers[v.Class], n, 1-s.Alpha/2)
		v.Lower = max(v.Lower, ends[0])
		undecided := func(radius float64) bool {
			p := distuv.UnitNormal.CDF(radius / s.Sigma)
			return v.Lower < p && p <= ends[1]
		}
		if n < s.N && !slices.ContainsFunc(s.Radii, undecided) {
			return v, nil
		}
	}
	v.Lower = max(v.Lower, lower(answers[v.Class], s.N, s.Alpha/2))
	return v, nil
}

// lower is Clopper and Pearson's one-sided bound.
func lower(k, n int, alpha float64) float64 { return stats.ClopperPearson(k, n, 1-2*alpha)[0] }

// Most is the class with the most answers, the first of several, or -1 where there is no answer.
func Most(answers []int) int {
	class := 0
	for c, n := range answers {
		if n > answers[class] {
			class = c
		}
	}
	if answers[class] == 0 {
		return -1
	}
	return class
}

// Radius is the certified ℓ2 radius of the label: 0 where another class is answered, or none.
func (s Smoothing) Radius(v Vote, label int) float64 {
	if v.Class != label || v.Lower <= 0.5 {
		return 0
	}
	return s.Sigma * distuv.UnitNormal.Quantile(v.Lower)
}
