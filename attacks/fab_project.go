package attacks

import (
	"math"

	"selfheal/internal/vector"
)

// planeProjector moves points onto a hyperplane within [0,1] by the least norm. It serves one goroutine.
type planeProjector struct {
	norm Norm
	filler
}

// newPlaneProjector works in the first two vectors and the order of a workspace.
func newPlaneProjector(n Norm, w *workspace) planeProjector {
	return planeProjector{n, newFiller(w)}
}

// tiny is the |wᵢ| up to which a coordinate is not moved in ℓ2 and ℓ1. In ℓ∞ only wᵢ = 0 stays.
const tiny = 1e-8

// project writes into d the smallest move (in the norm) with t + d in [0,1] and w·(t + d) = b, where excess = w·t −
// b. When no point of the box lies on the plane, t goes to the corner nearest to it. (Croce & Hein 2020, "Minimally
// distorted…", section 2.1 and appendix A.)
//
// The sign of w is turned so that the excess is positive. Then every useful move lowers w·t: towards 0 where wᵢ > 0
// and towards 1 where wᵢ < 0, by at most the room rᵢ to that face. In ℓ∞ each coordinate moves by min(λ, rᵢ), in ℓ2
// by min(λ|wᵢ|, rᵢ), λ solving the equality; in ℓ1 coordinates go all the way to their face in order of decreasing
// |wᵢ| and the last one part of the way.
//
// In ℓ∞ and ℓ2 the search for λ begins at guess, at best that of a nearby problem, and leaves λ there.
func (p *planeProjector) project(t, w []float32, excess float64, guess *float64, d []float32) {
	flip := float32(1)
	if excess < 0 {
		flip, excess = -1, -excess
	}
	least := float32(tiny)
	if p.norm == Linf {
		least = 0
	}
	p.measure(t, w, flip, least)
	if p.norm == L1 {
		p.fill(vector.BySize, excess, d)
		return
	}
	pace := vector.Uniform
	if p.norm == L2 {
		pace = vector.BySize
	}
	*guess = multiplier(p.rooms, p.sizes, pace, excess, *guess)
	vector.Moves(w, p.rooms, p.sizes, flip, *guess, pace, d)
}

// multiplier returns λ ≥ 0 with Σ |wᵢ|·min(λ·paceᵢ, roomᵢ) = excess, and +Inf when all rooms together don't reach it.
// The sum is concave and piecewise linear in λ: a Newton step from anywhere ends at the root or before it, and the
// steps after it never overshoot and end exactly, after as many rounds as there are bends in the way.
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
			next = max(next, 0) // from a guess beyond the root; from one beyond all bends −Inf
		} else if !(next > lambda) { // or NaN
			return lambda
		}
		lambda = next
	}
}

// filler spends a budget on coordinates in order of decreasing size.
type filler struct {
	w            []float32
	flip         float32   // sign that w is taken with: moves go against it
	rooms, sizes []float32 // how far each coordinate can move; |w|, 0 for those that stay
	order        []int32
}

func newFiller(w *workspace) filler { return filler{rooms: w.v[0], sizes: w.v[1], order: w.order} }

// measure finds the rooms and sizes for moves that lower flip·w·t; coordinates with |w| ≤ least stay.
func (f *filler) measure(t, w []float32, flip, least float32) {
	f.w, f.flip = w, flip
	vector.Rooms(t, w, flip, least, f.rooms, f.sizes)
}

// cost is what moving a coordinate by its whole room takes of the budget.
func (f *filler) cost(i int32, p vector.Pace) float64 {
	if p == vector.BySize {
		return float64(f.rooms[i]) * float64(f.sizes[i])
	}
	return float64(f.rooms[i])
}

// take moves a coordinate by a share of its room.
func (f *filler) take(i int32, share float64, d []float32) {
	move := float32(share * float64(f.rooms[i]))
	if f.w[i]*f.flip > 0 {
		move = -move
	}
	d[i] = move
}

// fill writes into d moves by the whole room for coordinates in order of decreasing size while their costs,
// room·pace, fit into the budget, and for the next one by the share that is left; the others stay.
//
// A budget mostly ends among the few largest: falling ranges of sizes are summed up, each down to a part of the one
// above, and only the range in which the budget ends is put in order, by selection.
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

// A range of sizes reaches down to this share of its upper end; below the last share of
// the largest all the rest is one range.
const fillRange, fillLeast = 0.5, 1e-2

// fillFrom spends a budget on the coordinates in order, which it rearranges: expected
// linear time, as the order is found by selection and not by sorting.
func (f *filler) fillFrom(order []int32, p vector.Pace, budget float64, d []float32) {
	size := func(i int32) float32 { return f.sizes[i] }
	for len(order) > 0 {
		n := len(order)
		pivot := medianOfThree(size(order[0]), size(order[n/2]), size(order[n-1]))
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
		if sum > budget { // the last one to be moved is among the larger
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
