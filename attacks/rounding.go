package attacks

import "math"

// rounding is the largest margin, as a share of the largest logit or of 1 where all are smaller, that another runtime
// may turn: float32 sums in another order are some 1e-6 apart.
const rounding = 1e-5

// WithinRounding reports whether the margin of a label is so near to 0, on either side, that another runtime may give
// another verdict.
func WithinRounding(logits []float32, label int) bool {
	return math.Abs(LogitMargin(logits, label)) <= roundingOf(logits)
}

// opening is the smallest lead of a class, as a share of the same, that no opening of a file turns: logits move by at
// most 1e-4 of the largest by that (package opened).
const opening = 1e-3

// Clear reports whether a class leads by so much that the opened form of a file answers it as the file does.
func Clear(logits []float32) bool {
	return LogitMargin(logits, Argmax(logits)) > opening*scale(logits)
}

// roundingOf is the largest margin of logits that is within rounding.
func roundingOf(logits []float32) float64 { return rounding * scale(logits) }

// scale is the largest finite logit, or 1 where all are smaller.
func scale(logits []float32) float64 {
	most := 1.0
	for _, z := range logits {
		if a := math.Abs(float64(z)); a > most && !math.IsInf(a, 0) {
			most = a
		}
	}
	return most
}

// beyond is by how much the last answer is another class's, beyond what rounding may turn: below 0 where it is the
// label's, or may be. It leaves twice the room, since the answer itself may be rounded otherwise than the file's.
func (t *attempt) beyond() float64 {
	return Margin.Value(t.eval.Logits, t.im.Label, -1) - 2*roundingOf(t.eval.Logits)
}
