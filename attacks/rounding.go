package attacks

import "math"

// rounding is the largest margin whose sign another runtime may change, as a fraction of the largest logit (of 1 if all
// are smaller): float32 sums in another order differ by some 1e-6.
const rounding = 1e-5

// WithinRounding reports whether the label's margin is so near to 0, on either side, that another runtime may give
// another verdict.
func WithinRounding(logits []float32, label int) bool {
	return math.Abs(LogitMargin(logits, label)) <= roundingOf(logits)
}

// opening is the smallest lead of a class, as the same fraction, that is safe when a file is opened: opening moves
// logits by at most 1e-4 of the largest (package opened).
const opening = 1e-3

// Clear reports whether the leading class leads by so much that the opened form of a file and the file itself agree on
// it.
func Clear(logits []float32) bool {
	return LogitMargin(logits, Argmax(logits)) > opening*scale(logits)
}

// roundingOf returns the largest margin that is within rounding of these logits.
func roundingOf(logits []float32) float64 { return rounding * scale(logits) }

// scale returns the largest finite |logit|, or 1 if all are smaller.
func scale(logits []float32) float64 {
	most := 1.0
	for _, z := range logits {
		if a := math.Abs(float64(z)); a > most && !math.IsInf(a, 0) {
			most = a
		}
	}
	return most
}

// beyond returns by how much the last answer favours another class beyond rounding. It is below 0 if the answer is the
// label's or may be. It allows twice the rounding, because the answer may be rounded differently than the file's.
func (t *attempt) beyond() float64 {
	return Margin.Value(t.eval.Logits, t.im.Label, -1) - 2*roundingOf(t.eval.Logits)
}
