package attacks

import "math"

// Argmax is the class of the largest logit, the lowest among equals.
func Argmax(logits []float32) int {
	best := 0
	for j, z := range logits {
		if z > logits[best] {
			best = j
		}
	}
	return best
}

// LogitMargin is z_label − max of the other logits: above 0 when the classifier is right, NaN where the logits are no
// answer: one is NaN or +∞, or all are −∞. A class of −∞ never wins; the margin, which is to be finite, takes it as the
// lowest float32.
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

// never reports whether a class of this logit never wins, as one that a network masks.
func never(logit float32) bool { return logit < -math.MaxFloat32 }

// runnerUp is the class of the largest logit other than label's, the lowest among equals.
func runnerUp(logits []float32, label int) int {
	best := -1
	for j, z := range logits {
		if j != label && (best < 0 || z > logits[best]) {
			best = j
		}
	}
	return best
}

// Right reports whether logits are label's: no class is larger, and none that is equal is lower
// (the argmax of torch.max). Logits that hold NaN are no right answer.
func Right(logits []float32, label int) bool {
	zy := logits[label]
	for j, z := range logits {
		if !(z <= zy) || (z == zy && j < label) {
			return false
		}
	}
	return true
}
