package attacks

import "math"

// halving decides when APGD halves its step in ℓ∞ and ℓ2: at checkpoints that come closer and closer together (Croce &
// Hein 2020, section 3.2).
type halving struct {
	rho            float64
	period         int // iterations from the last checkpoint to the next
	shorter, least int // how much shorter each period is than the last, and the minimum
	next           int // iteration (0-based) followed by the next checkpoint
	reduced        bool
	bestThen       float64 // best loss at the last checkpoint
	before         float64 // loss after the last iteration
	rises          int     // iterations since the last checkpoint in which the loss rose
}

// newHalving makes the schedule of n iterations: the first period is ⌊.22n⌋, and each later one is ⌊.03n⌋ shorter, down
// to ⌊.06n⌋. Each of these is at least 1.
func newHalving(n int, rho, startLoss float64) *halving {
	share := func(s float64) int { return max(int(s*float64(n)), 1) }
	h := &halving{rho: rho, period: share(.22), shorter: share(.03), least: share(.06), bestThen: startLoss}
	h.next = h.period - 1
	// The first checkpoint counts as following a reduction, so that only oscillation can reduce the step there.
	h.reduced = true
	// Quirk kept: the loss of the start point is not in the history. The first iteration is compared with the last
	// entry of the reference's buffer: 0, or itself when it is the only iteration.
	if n == 1 {
		h.before = math.Inf(1)
	}
	return h
}

// after records the loss after an iteration.
func (h *halving) after(loss float64) {
	if loss > h.before {
		h.rises++
	}
	h.before = loss
}

// due reports whether a checkpoint follows iteration i.
func (h *halving) due(i int) bool { return i == h.next }

// stalled reports at the checkpoint after iteration i whether to halve the step: the loss rose in too few of the
// period's iterations, or the best loss has not moved since a checkpoint that did not halve it.
func (h *halving) stalled(i int, best float64) bool {
	halve := float64(h.rises) <= float64(h.period)*h.rho || (!h.reduced && h.bestThen >= best)
	h.reduced, h.bestThen, h.rises = halve, best, 0
	h.period = max(h.period-h.shorter, h.least)
	h.next = i + h.period
	return halve
}
