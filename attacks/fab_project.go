package attacks

import (
	"math"

	"selfheal/internal/vector"
)

// filler moves coordinates within [0,1], those of the largest |w| first. It serves one goroutine.
type filler struct {
	w            []float32
	flip         float32   // factor of w: moves go against flip·w
	rooms, sizes []float32 // how far each coordinate can move; |w|, or 0 for coordinates that stay
	order        []int32
}

// newFiller uses the first two vectors and the order of a workspace.
func newFiller(w *workspace) filler { return filler{rooms: w.v[0], sizes: w.v[1], order: w.order} }

// tiny is the largest |wᵢ| whose coordinate is not moved in ℓ2 and ℓ1. In ℓ∞ only wᵢ = 0 is left out.
const tiny = 1e-8

// project writes into d the smallest move (in the norm) with t + d in [0,1] and w·(t + d) = b, where excess = w·t − b.
// If no point of the box lies on the plane, t goes to the corner nearest to it. (Croce & Hein 2020, "Minimally
// distorted…", section 2.1 and appendix A.)
//
// The sign of w is flipped if needed so that the excess is positive. Then every useful move lowers w·t: towards 0 where
// wᵢ > 0 and towards 1 where wᵢ < 0, by at most the room rᵢ to that face. In ℓ∞ each coordinate moves by min(λ, rᵢ), in
// ℓ2 by min(λ|wᵢ|, rᵢ), where λ solves the equality. In ℓ1 coordinates go all the way to their face in order of
// decreasing |wᵢ|, and the last one goes part of the way.
//
// In ℓ∞ and ℓ2 the search for λ begins at guess, ideally the λ of a nearby problem, and leaves λ there.
func (f *filler) project(n Norm, t, w []float32, excess float64, guess *float64, d []float32) {
	flip := float32(1)
	if excess < 0 {
		flip, excess = -1, -excess
	}
	least, pace := float32(tiny), vector.BySize
	if n == Linf {
		least, pace = 0, vector.Uniform
	}
	f.measure(t, w, flip, least)
	if n == L1 {
		f.fill(pace, excess, d)
		return
	}
	*guess = multiplier(f.rooms, f.sizes, pace, excess, *guess)
	vector.Moves(w, f.rooms, f.sizes, flip, *guess, pace, d)
}

// multiplier returns λ ≥ 0 with Σ |wᵢ|·min(λ·paceᵢ, roomᵢ) = excess, and +Inf if all rooms together don't reach it. The
// sum is concave and piecewise linear in λ: a Newton step from anywhere ends at the root or before it, and later steps
// never overshoot and end exactly, after at most one round for each bend on the way.
func multiplier(rooms, sizes []float32, pace vector.Pace, excess, guess float64) float64 {
	if !(guess > 0) { // or NaN
		guess = 0
	}
	lambda := guess
	for round := 0; ; round++ {
		slope, fixed := vector.Reach(rooms, sizes, lambda, pace)
		if slope == 0 && fixed <= excess {
			return math.Inf(1)
		}
		next := (excess - fixed) / slope
		if round == 0 && guess > 0 && !(next > lambda) {
			next = max(next, 0) // a guess beyond the root leads below it; a guess beyond all bends leads to −Inf
		} else if !(next > lambda) { // or NaN
			return lambda
		}
		lambda = next
	}
}

// measure finds the rooms and sizes for moves that lower flip·w·t; coordinates with |w| ≤ least stay.
func (f *filler) measure(t, w []float32, flip, least float32) {
	f.w, f.flip = w, flip
	vector.Rooms(t, w, flip, least, f.rooms, f.sizes)
}

// cost returns how much of the budget a move of a coordinate by its whole room takes.
func (f *filler) cost(i int32, p vector.Pace) float64 {
	if p == vector.BySize {
		return float64(f.rooms[i]) * float64(f.sizes[i])
	}
	return float64(f.rooms[i])
}

// take moves a coordinate by a fraction of its room.
func (f *filler) take(i int32, share float64, d []float32) {
	move := float32(share * float64(f.rooms[i]))
	if f.w[i]*f.flip > 0 {
		move = -move
	}
	d[i] = move
}

// fill writes moves into d. Coordinates move by their whole room in order of decreasing size while their costs,
// room·pace, fit into the budget; the next one moves by the fraction that is left; the others stay.
//
// The budget mostly ends among the few largest coordinates. fill therefore sums up ranges of falling sizes, and orders,
// by selection, only the range in which the budget ends.
func (f *filler) fill(p vector.Pace, budget float64, d []float32) {
	largest := vector.Max(f.sizes)
	if !(largest > 0) { // or NaN
		clear(d)
		return
	}
	above, spent := float32(math.Inf(1)), 0.0
	for below := largest * fillRange; ; below *= fillRange {
		if last := below < largest*fillLeast; last {
			below = math.SmallestNonzeroFloat32
		}
		sum := vector.CostFrom(f.rooms, f.sizes, below, p)
		if sum > budget {
			vector.MovesFrom(f.w, f.rooms, f.sizes, f.flip, above, d)
			f.fillFrom(vector.Between(f.sizes, below, above, f.order), p, budget-spent, d)
			return
		}
		if below == math.SmallestNonzeroFloat32 {
			vector.MovesFrom(f.w, f.rooms, f.sizes, f.flip, below, d)
			return
		}
		above, spent = below, sum
	}
}

// fillRange is the ratio of the lower end of a range of sizes to its upper end. Below fillLeast of the largest size,
// the rest is one range.
const fillRange, fillLeast = 0.5, 1e-2

// fillFrom spends a budget on the coordinates in order, which it rearranges. It takes expected linear time, because it
// selects instead of sorting.
func (f *filler) fillFrom(order []int32, p vector.Pace, budget float64, d []float32) {
	size := func(i int32) float32 { return f.sizes[i] }
	for len(order) > 0 {
		n := len(order)
		first, middle, last := size(order[0]), size(order[n/2]), size(order[n-1])
		pivot := max(min(first, middle), min(max(first, middle), last)) // the median
		// order becomes larger | equal | smaller; larger ends at a, equal at b.
		a, b, c := 0, 0, n
		for b < c {
			switch s := size(order[b]); {
			case s > pivot:
				order[a], order[b] = order[b], order[a]
				a++
				b++
			case s < pivot:
				c--
				order[b], order[c] = order[c], order[b]
			default:
				b++
			}
		}
		sum := 0.0
		for _, i := range order[:a] {
			sum += f.cost(i, p)
		}
		if sum > budget { // the last coordinate to move is among the larger
			order = order[:a]
			continue
		}
		for _, i := range order[:a] {
			f.take(i, 1, d)
		}
		budget -= sum
		for _, i := range order[a:b] {
			c := f.cost(i, p)
			if c > budget {
				if c > 0 {
					f.take(i, budget/c, d)
				}
				return
			}
			f.take(i, 1, d)
			budget -= c
		}
		order = order[b:]
	}
}
