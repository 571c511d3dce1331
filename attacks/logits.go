package attacks

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

// LogitMargin is z_label − max of the other logits: above 0 when the classifier is right, NaN when a logit is.
func LogitMargin(logits []float32, label int) float64 {
	for _, z := range logits {
		if z != z {
			return float64(z)
		}
	}
	return float64(logits[label]) - float64(logits[runnerUp(logits, label)])
}

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
