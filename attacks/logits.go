package attacks

import "math"

// Argmax returns the class of the largest logit, the lowest among equals.
func Argmax(logits []float32) int {
	best := 0
	for j, z := range logits {
		if z > logits[best] {
			best = j
		}
	}
	return best
}

// LogitMargin returns z_label − max of the other logits. It is above 0 if the classifier is right, and NaN if the
// logits are no answer: one is NaN or +∞, or all are −∞. A class of −∞ never wins; the lowest float32 replaces it, so
// that the margin is finite.
func LogitMargin(logits []float32, label int) float64 {
	finite := false
	for _, z := range logits {
		if !(z <= math.MaxFloat32) {
			return math.NaN()
		}
		finite = finite || z >= -math.MaxFloat32
	}
	if !finite {
		return math.NaN()
	}
	least := func(class int) float64 { return max(float64(logits[class]), -math.MaxFloat32) }
	return least(label) - least(runnerUp(logits, label))
}

// never reports whether a class with this logit never wins, such as a class that the network masks.
func never(logit float32) bool { return logit < -math.MaxFloat32 }

// Confidence returns the probability of a class, by softmax; NaN for logits that give none.
func Confidence(logits []float32, class int) float64 {
	return math.Exp(float64(logits[class]) - logSumExp(logits))
}

// runnerUp returns the class of the largest logit other than label's, the lowest among equals.
func runnerUp(logits []float32, label int) int {
	best := -1
	for j, z := range logits {
		if j != label && (best < 0 || z > logits[best]) {
			best = j
		}
	}
	return best
}

// Right reports whether label is the argmax of the logits: no class is larger, and no lower class is equal (as in
// torch.max). Logits with NaN are not right.
func Right(logits []float32, label int) bool {
	zy := logits[label]
	for j, z := range logits {
		if !(z <= zy) || (z == zy && j < label) {
			return false
		}
	}
	return true
}
