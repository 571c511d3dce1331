package stats

import (
	"cmp"
	"math"
	"slices"

	"selfheal/internal/lists"
)

// calibrationBins is the number of bins of the expected calibration error, as in Guo et al. 2017.
const calibrationBins = 15

// CalibrationError returns the expected calibration error of answers with a confidence in [0,1]: in bins of equal
// width, (a, b], the difference between the fraction of right answers and the mean confidence, averaged by the bins'
// sizes (Naeini et al. 2015; Guo et al. 2017). It is NaN without answers.
func CalibrationError(confidence []float64, right []bool) float64 {
	var gap [calibrationBins]float64
	for i, c := range confidence {
		bin := min(max(int(math.Ceil(c*calibrationBins))-1, 0), calibrationBins-1)
		gap[bin] += c
		if right[i] {
			gap[bin]--
		}
	}
	sum := 0.0
	for _, g := range gap {
		sum += math.Abs(g)
	}
	return sum / float64(len(confidence))
}

// Risks returns the fraction of wrong answers among the k most confident, for k from 1 to their number (Geifman and
// El-Yaniv 2017). Among equal confidences the answers count in equal parts.
func Risks(confidence []float64, right []bool) []float64 {
	order := lists.To(len(confidence))
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(confidence[j], confidence[i]) })
	risks := make([]float64, 0, len(order))
	wrong := 0.0
	for from := 0; from < len(order); {
		to, lost := from, 0.0
		for ; to < len(order) && confidence[order[to]] == confidence[order[from]]; to++ {
			if !right[order[to]] {
				lost++
			}
		}
		for k := from + 1; k <= to; k++ {
			risks = append(risks, (wrong+lost*float64(k-from)/float64(to-from))/float64(k))
		}
		wrong, from = wrong+lost, to
	}
	return risks
}

// RiskAt returns the risk of the least number of most confident answers that cover a fraction of all; NaN without
// answers.
func RiskAt(risks []float64, coverage float64) float64 {
	if len(risks) == 0 {
		return math.NaN()
	}
	return risks[min(max(int(math.Ceil(coverage*float64(len(risks))-1e-9)), 1), len(risks))-1]
}

// RiskArea returns the area under the risks over coverage, by the trapezium rule from the first answer on, divided by
// the width: the mean risk of a classifier that leaves out its least confident answers. NaN below two answers.
func RiskArea(risks []float64) float64 {
	sum := 0.0
	for k := 1; k < len(risks); k++ {
		sum += (risks[k-1] + risks[k]) / 2
	}
	return sum / float64(len(risks)-1)
}
