package harness

import (
	"selfheal/attacks"
	"selfheal/control"
	"selfheal/models/ort"
)

// stateBudget bounds the memory, in bytes, of all images that are under way at
// once: what attacks and closed loops keep for them in Go, besides the batches
// that the pool's workers hold. At 32×32 pixels it is no bound; at 224×224 two
// batches of 64 a worker would be 10 MB an image, gigabytes together.
const stateBudget = 256 << 20

// attackVectors is how many vectors of the image's size an attack keeps for an
// image, at most: APGD in ℓ1, with the two float64 ones of its projection.
const attackVectors = 16

// attackState is what an attack keeps for an image, in bytes.
func attackState(s attacks.Shape) int64 { return 4 * attackVectors * int64(s.Size()) }

// loopState is what a closed loop keeps for an image, in bytes: each segment's
// input, the same controlled and its control, and, at the widest place, an
// adjoint, the one before it and the momentum.
func loopState(chain *control.Chain) int64 {
	var sum, widest int64
	for t := range chain.Segments {
		n := chain.StateShape(t).Items()
		sum, widest = sum+n, max(widest, n)
	}
	return 4 * (3*sum + 3*widest)
}

// inFlight is how many images of so many bytes of state may be under way: what
// the budget allows, but two a worker, or the workers would wait for each other.
func inFlight(pool *ort.Pool, state int64) int {
	return int(max(2*int64(pool.Workers()), stateBudget/max(1, state)))
}
