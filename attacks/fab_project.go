package attacks

import "math"

// planeProjector moves points onto a hyperplane within [0,1] by the least norm.
// It holds the working space and serves one goroutine.
type planeProjector struct {
	norm  Norm
	rooms []float32 // per coordinate: how far it can move
	sizes []float32 // |wᵢ|, 0 where the coordinate is not moved
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
func (p *planeProjector) multiplier(t, w []float32, flip float32, excess float64) (float64, bool) {
	n := len(w)
	if len(p.rooms) < n {
		p.rooms, p.sizes = make([]float32, n), make([]float32, n)
	}
	rooms, sizes, t := p.rooms[:n], p.sizes[:n], t[:n]
	uniform, least := p.norm == Linf, float32(tiny)
	if uniform {
		least = 0
	}
	slope, total := 0.0, 0.0 // of what is not settled; of all
	for i, v := range w {
		r := room(t[i], v*flip)
		s := magnitude(v)
		if s <= least {
			s = 0
		}
		rooms[i], sizes[i] = r, s
		a := float64(s)
		total += a * float64(r)
		if !uniform {
			a *= a
		}
		slope += a
	}
	if total <= excess {
		return 0, false
	}
	before, lambda := -1.0, excess/slope // rooms of 0 are settled in the first round
	for {
		settled := uint64(0)
		slope = 0
		for i, r := range rooms {
			a, room := float64(sizes[i]), float64(r)
			if uniform {
				// Both questions are answered without branches, which a processor
				// could not foresee: the sign bit of a difference, copied to all
				// places, selects a summand or 0.
				open := ifNegative(lambda - room)
				now := ifNegative(before-room) &^ open
				slope += math.Float64frombits(math.Float64bits(a) & open)
				excess -= math.Float64frombits(math.Float64bits(a*room) & now)
				settled |= now
			} else if room > lambda*a { // which it mostly is in ℓ2
				slope += a * a
			} else if room > before*a {
				excess -= a * room
				settled = 1
			}
		}
		if settled == 0 {
			return lambda, true
		}
		next := excess / slope
		if !(next > lambda) || math.IsInf(next, 0) {
			return lambda, true
		}
		before, lambda = lambda, next
	}
}

// ifNegative is all ones for v < 0, else 0.
func ifNegative(v float64) uint64 { return uint64(int64(math.Float64bits(v)) >> 63) }

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
// over. The calls come in no particular order. Expected linear time: the order
// is found by selection, not by sorting.
func (f *filler) fill(w []float32, least float32, budget float64, cost func(int) float64, take func(int, float64)) {
	if cap(f.order) < len(w) {
		f.order = make([]int32, len(w))
	}
	order := f.order[:0]
	for i, v := range w {
		if v != 0 && magnitude(v) >= least {
			order = append(order, int32(i))
		}
	}
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
