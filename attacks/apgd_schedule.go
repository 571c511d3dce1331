package attacks

import "math"

// halving decides when APGD halves its step in ℓ∞ and ℓ2: at checkpoints that
// lie closer and closer together (Croce & Hein 2020, section 3.2).
type halving struct {
	rho            float64
	period         int // iterations from the last checkpoint to the next
	shorter, least int // what a period loses, and its minimum
	next           int // iteration (0-based) after which the next checkpoint lies
	reduced        bool
	bestThen       float64 // best loss at the last checkpoint
	before         float64 // loss after the last iteration
	rises          int     // iterations since the last checkpoint in which the loss rose
}

// newHalving makes the schedule of n iterations: the first period is ⌊.22n⌋ and
// each later one ⌊.03n⌋ shorter, down to ⌊.06n⌋, none of these less than 1.
func newHalving(n int, rho, startLoss float64) *halving {
	share := func(s float64) int { return max(int(s*float64(n)), 1) }
	h := &halving{rho: rho, period: share(.22), shorter: share(.03), least: share(.06), bestThen: startLoss}
	h.next = h.period - 1
	// The first checkpoint counts as following a reduction, so that only oscillation can reduce the step there.
	h.reduced = true
	// Quirk kept: the loss of the start point is not in the history. The first iteration is compared with the end of
	// the reference's buffer, which is 0, or, where it is the only one, with itself.
	if n == 1 {
		h.before = math.Inf(1)
	}
	return h
}

// after notes the loss after an iteration.
func (h *halving) after(loss float64) {
	if loss > h.before {
		h.rises++
	}
	h.before = loss
}

// due reports whether a checkpoint follows iteration i.
func (h *halving) due(i int) bool { return i == h.next }

// stalled decides at the checkpoint after iteration i whether the step is to be halved: the loss rose in too few of
// the period's iterations, or the best loss has not moved since a checkpoint that did not halve it.
func (h *halving) stalled(i int, best float64) bool {
	halve := float64(h.rises) <= float64(h.period)*h.rho || (!h.reduced && h.bestThen >= best)
	h.reduced, h.bestThen, h.rises = halve, best, 0
	h.period = max(h.period-h.shorter, h.least)
	h.next = i + h.period
	return halve
}
