package attacks

import (
	"math"
	"slices"
)

// planeProjector moves points onto a hyperplane within [0,1] by the least norm.
// It holds the working space and serves one goroutine.
type planeProjector struct {
	norm  Norm
	rooms []float32 // per coordinate: how far it can move
	sizes []float32 // |wᵢ|, 0 where the coordinate is not moved
	open  []int32   // coordinates whose bends lie near the multiplier
	filler
}

// tiny is the |wᵢ| below which a coordinate is not moved in ℓ2 and ℓ1. In ℓ∞
// only wᵢ = 0 stays.
const tiny = 1e-8

// project writes into d the smallest move (in the norm) with t + d in [0,1] and
// w·(t + d) = b, where excess = w·t − b. When no point of the box lies on the
// plane, t goes to the corner nearest to it. (Croce & Hein 2020, "Minimally
// distorted…", section 2.1 and appendix A.)
//
// The sign of w is turned so that the excess is positive. Then every useful move
// lowers w·t: towards 0 where wᵢ > 0 and towards 1 where wᵢ < 0, by at most the
// room rᵢ to that face. In ℓ∞ each coordinate moves by min(λ, rᵢ), in ℓ2 by
// min(λ|wᵢ|, rᵢ), λ solving the equality; in ℓ1 coordinates go all the way to
// their face in order of decreasing |wᵢ| and the last one part of the way.
func (p *planeProjector) project(t, w []float32, excess float64, d []float32) {
	flip := float32(1)
	if excess < 0 {
		flip, excess = -1, -excess
	}
	if p.norm == L1 {
		p.fillL1(t, w, flip, excess, d)
		return
	}
	lambda, ok := p.multiplier(t, w, flip, excess)
	rooms, sizes := p.rooms[:len(w)], p.sizes[:len(w)]
	d = d[:len(w)]
	uniform, pace := p.norm == Linf, float32(lambda)
	for i, v := range w {
		move := math.Float32bits(rooms[i])
		if ok {
			if !uniform {
				pace = float32(lambda * float64(sizes[i]))
			}
			// The smaller of the two, as integers: numbers ≥ 0 are ordered like their
			// bits, and which one it is a processor can't foresee.
			move = min(move, math.Float32bits(pace))
		}
		if sizes[i] == 0 {
			move = 0
		}
		d[i] = against(v*flip, math.Float32frombits(move))
	}
}

// multiplier fills p.rooms and p.sizes and returns λ ≥ 0 with
// Σ |wᵢ|·min(λ·paceᵢ, roomᵢ) = excess, where pace is 1 in ℓ∞ and |wᵢ| in ℓ2, or
// false when all rooms together don't reach it. The sum is concave and piecewise
// linear in λ, so Newton's steps from 0 never overshoot and end exactly, after
// as many rounds as there are bends in the way. A coordinate is settled in the
// round in which λ passes its bend, room/pace.
//
// Few coordinates have a bend near the answer: a round looks only at those that
// gather found below a bound, which is raised when λ comes near it.
func (p *planeProjector) multiplier(t, w []float32, flip float32, excess float64) (float64, bool) {
	slope, total := p.measure(t, w, flip)
	if total <= excess {
		return 0, false
	}
	p.open = p.open[:0]
	lambda, bound := excess/slope, 0.0
	for {
		if lambda >= bound {
			before := bound
			bound = bendReach * lambda
			p.gather(before, bound)
		}
		settled := false
		open := p.open[:0]
		for _, i := range p.open {
			a, r := float64(p.sizes[i]), float64(p.rooms[i])
			pace := 1.0
			if p.norm != Linf {
				pace = a
			}
			if r > lambda*pace {
				open = append(open, i)
				continue
			}
			settled = true
			slope -= a * pace
			excess -= a * r
		}
		p.open = open
		if !settled {
			return lambda, true
		}
		next := excess / slope
		if !(next > lambda) || math.IsInf(next, 0) {
			return lambda, true
		}
		lambda = next
	}
}

// bendReach is how far above λ bends are looked for at once.
const bendReach = 2

// measure fills p.rooms and p.sizes and returns Σ |wᵢ|·paceᵢ and Σ |wᵢ|·roomᵢ. Four sums
// at a time, as a processor waits for one addition before it begins the next.
func (p *planeProjector) measure(t, w []float32, flip float32) (slope, total float64) {
	n := len(w)
	if len(p.rooms) < n {
		p.rooms, p.sizes = make([]float32, n), make([]float32, n)
	}
	rooms, sizes, t := p.rooms[:n], p.sizes[:n], t[:n]
	least := float32(tiny)
	if p.norm == Linf {
		least = 0
	}
	var slopes, totals [4]float64
	for i, v := range w {
		r, s := room(t[i], v*flip), magnitude(v)
		if s <= least {
			s = 0
		}
		a := float64(s)
		totals[i&3] += a * float64(r)
		if s == 0 {
			r = math.MaxFloat32 // never near a bend
		}
		rooms[i], sizes[i] = r, s
		if p.norm != Linf {
			a *= a
		}
		slopes[i&3] += a
	}
	return slopes[0] + slopes[1] + slopes[2] + slopes[3], totals[0] + totals[1] + totals[2] + totals[3]
}

// gather adds to p.open the coordinates with a bend room/pace in [from, to).
func (p *planeProjector) gather(from, to float64) {
	low, high := float32(from), float32(to)
	sizes := p.sizes[:len(p.rooms)]
	if p.norm == Linf {
		// Without branches, which a processor could not foresee: every coordinate is
		// written, and kept where the count then moves on. Numbers ≥ 0 are ordered like
		// their bits.
		p.open = slices.Grow(p.open, len(sizes))
		kept, k := p.open[:len(p.open)+len(sizes)], len(p.open)
		from, width := math.Float32bits(low), uint64(math.Float32bits(high)-math.Float32bits(low))
		for i, r := range p.rooms {
			kept[k] = int32(i)
			k += int((uint64(math.Float32bits(r)-from) - width) >> 63)
		}
		p.open = kept[:k]
		return
	}
	for i, r := range p.rooms {
		if s := sizes[i]; r < high*s && r >= low*s && s > 0 {
			p.open = append(p.open, int32(i))
		}
	}
}

// room is the distance from t to the face that lowers w·t: t where w > 0, 1 − t
// where w < 0. It picks by w's sign bit, since a processor can't foresee the signs
// of a gradient.
func room(t, w float32) float32 {
	negative := uint32(int32(math.Float32bits(w)) >> 31) // all ones or none
	return math.Float32frombits(math.Float32bits(t)&^negative | math.Float32bits(1-t)&negative)
}

// against is size ≥ 0 with the sign opposite to w's.
func against(w, size float32) float32 {
	return math.Float32frombits(math.Float32bits(size) | ^math.Float32bits(w)&(1<<31))
}

// fillL1 is project in ℓ1.
func (p *planeProjector) fillL1(t, w []float32, flip float32, excess float64, d []float32) {
	clear(d)
	p.fill(w, tiny, excess, func(i int) float64 {
		return math.Abs(float64(w[i])) * float64(room(t[i], w[i]*flip))
	}, func(i int, share float64) {
		d[i] = against(w[i]*flip, float32(share*float64(room(t[i], w[i]*flip))))
	})
}

// filler spends a budget on coordinates in order of decreasing |w|.
type filler struct{ order []int32 }

// fill calls take(i, 1) for coordinates in order of decreasing |w[i]| while
// their costs fit into the budget, and take(i, share) for the next one with the
// share that is left. Coordinates with |w[i]| < least or w[i] = 0 are passed
// over. The calls come in no particular order.
//
// A budget mostly ends among the few largest: coordinates are gathered by falling
// ranges of |w|, each down to a part of the one above, and only a range in which the
// budget ends is put in order, by selection.
func (f *filler) fill(w []float32, least float32, budget float64, cost func(int) float64, take func(int, float64)) {
	if cap(f.order) < len(w) {
		f.order = make([]int32, len(w))
	}
	var largest float32
	for _, v := range w {
		if m := magnitude(v); m > largest { // no NaN
			largest = m
		}
	}
	above, below := float32(math.Inf(1)), largest*fillRange
	for largest > 0 {
		if below < least || below < largest*fillLeast {
			below = max(least, math.SmallestNonzeroFloat32)
		}
		order := f.order[:0]
		for i, v := range w {
			if m := magnitude(v); m >= below && m < above {
				order = append(order, int32(i))
			}
		}
		sum := 0.0
		for _, i := range order {
			sum += cost(int(i))
		}
		if sum > budget {
			fillFrom(w, order, budget, cost, take)
			return
		}
		for _, i := range order {
			take(int(i), 1)
		}
		if budget -= sum; below <= max(least, math.SmallestNonzeroFloat32) {
			return
		}
		above, below = below, below*fillRange
	}
}

// A range of |w| reaches down to this share of its upper end; below the last share of
// the largest |w| all the rest is one range.
const fillRange, fillLeast = 0.5, 1e-2

// fillFrom spends a budget on the coordinates in order, which it rearranges: expected
// linear time, as the order is found by selection and not by sorting.
func fillFrom(w []float32, order []int32, budget float64, cost func(int) float64, take func(int, float64)) {
	size := func(i int32) float32 { return magnitude(w[i]) }
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
			sum += cost(int(i))
		}
		if sum > budget { // the last one to be moved is among the larger
			order = order[:a]
			continue
		}
		for _, i := range order[:a] {
			take(int(i), 1)
		}
		budget -= sum
		for _, i := range order[a:b] {
			c := cost(int(i))
			if c > budget {
				if c > 0 {
					take(int(i), budget/c)
				}
				return
			}
			take(int(i), 1)
			budget -= c
		}
		order = order[b:]
	}
}

// magnitude is |v|: its bits without the sign, which is quicker than max(v, −v).
func magnitude(v float32) float32 {
	return math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
}
