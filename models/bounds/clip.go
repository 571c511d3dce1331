package bounds

import (
	"cmp"
	"context"
	"math"
	"slices"

	"selfheal/internal/vector"
)

// Clipping leaves a domain open only for inputs at which its rows do not suffice. There a linear lower bound of the
// rows is at most their limits. The stages' inputs are bounded again on that part of the domain, from a linear bound of
// each over the whole region and one multiplier (Zhou et al. 2025, "Clip-and-Verify", complete clipping). The closer a
// domain is to a decision, the smaller that part is: on ResNet-2B the trees have a tenth to a seventieth of the
// domains.
const (
	mostClipped = 100     // values of a domain, the costliest first
	mostForms   = 1 << 26 // numbers that the linear bounds may take
	headroom    = 1e-3    // how far such rows may lie above their limits, as a fraction of what the region lacks
	gammaSteps  = 4       // runs for a multiplier
	gammaGain   = 0.05    // they end when less than this fraction of their gain is left
)

// forms holds linear lower bounds of a stage's values, and of their negatives, over a region.
type forms map[side]*form

// form is a linear bound over a region, with the point where it is least.
type form struct {
	Linear
	at     []float32
	least  float64
	middle float64 // its value in the middle of the region's box
	spread float64 // the most by which it differs from that in the box
	size   float64 // sum of the absolute terms
}

func newForm(region Region, l Linear) *form {
	f := &form{Linear: l, at: make([]float32, len(l.A)), middle: l.At0, size: math.Abs(l.At0)}
	f.least = l.At0 + region.least(l.A, f.at)
	for i, v := range l.A {
		a, low, high := float64(v), float64(region.Lower[i]), float64(region.Upper[i])
		f.middle += a * (low/2 + high/2)
		f.spread += math.Abs(a) * (high - low) / 2
		f.size += math.Abs(a) * max(math.Abs(low), math.Abs(high))
	}
	return f
}

// keep stores the linear bounds just found for sides, while there is room.
func (p *proof) keep(r *relaxation, sides []side, found []Bound, coefficients []float32) {
	p.Network.cutter.Lock()
	defer p.Network.cutter.Unlock()
	if p.room -= 2 * len(coefficients); p.room < 0 {
		return
	}
	if r.forms == nil {
		r.forms = forms{}
	}
	part := &Part{Bounds: found, Coefficients: coefficients}
	for k, l := range part.Linears(p.region, make([]float64, len(found))) {
		r.forms[sides[k]] = newForm(p.region, l)
	}
}

// form finds the missing linear bounds of the values of a stage that bend.
func (p *proof) form(ctx context.Context, s *stage, r *relaxation) error {
	if p.boxed(s) {
		return nil
	}
	missing := slices.DeleteFunc(s.sides(r), func(o side) bool { return r.forms[o] != nil })
	missing = missing[:min(len(missing), max(0, p.room)/(2*p.size(p.input)))]
	return p.bound(ctx, s, r, missing, true)
}

// bentValue is a value of a stage that bends in a domain and in the region, with the cost of its relaxation there.
type bentValue struct {
	stage, k int
	loss     float64
}

// clip narrows the ranges of the costliest values of an open domain and sets what that promises to gain. An empty range
// decides the domain.
func (t *batch) clip(d int, of *domain, all []bentValue) {
	of.hope = 0
	if !(t.assumed > 0) {
		return // the assumption about the rows is not known yet
	}
	last, inputs := (d+1)*t.rows-1, t.size(t.input)
	part := &Part{Bounds: t.found[last : last+1], Coefficients: t.coefficients[last*inputs : (last+1)*inputs]}
	g := newGiven(t.region, part.Linears(t.region, []float64{t.limit(of) + t.assumed})[0])
	slices.SortFunc(all, func(a, b bentValue) int { return cmp.Compare(b.loss, a.loss) })
	mine := make([]bool, len(t.stages))
	for _, v := range all[:min(mostClipped, len(all))] {
		s, known, now := t.stages[v.stage], t.known[v.stage], &of.ranges[v.stage]
		j := known.own.bending[v.k]
		lower, upper := known.forms[side{j, 1}], known.forms[side{j, -1}]
		if lower == nil || upper == nil {
			continue
		}
		gammas := t.own.gammas[v.stage][2*v.k:]
		was := [2]float64{float64(now.lower[v.k]), float64(now.upper[v.k])}
		l, u := down(g.clip(lower, was[0], &gammas[0])), up(-g.clip(upper, -was[1], &gammas[1]))
		if float64(l) == was[0] && float64(u) == was[1] {
			continue
		}
		of.clipped = true
		if l > u {
			of.lacks = math.Inf(-1)
			return
		}
		if !mine[v.stage] {
			mine[v.stage], now.lower, now.upper = true, slices.Clone(now.lower), slices.Clone(now.upper)
		}
		now.lower[v.k], now.upper[v.k] = l, u
		if of.hope += v.loss; s.bends(float64(l), float64(u)) {
			of.hope -= v.loss * s.gap(float64(l), float64(u)) / s.gap(was[0], was[1])
		}
	}
}

// gap returns the distance of the upper line on [l, u] above a kink; for other functions, the width.
func (s *stage) gap(l, u float64) float64 {
	if s.kinked() {
		return -l * u / (u - l)
	}
	return u - l
}

// given is a linear bound that is at most 0 on a part of a region.
type given struct {
	*form
	region Region
	radius []float32 // half the widths of a box
	sum    []float32 // f + γ·g over a ball
	at     []float32 // point where that is least
	off    float64   // error of that, for each unit of its terms
}

func newGiven(region Region, l Linear) *given {
	g := &given{form: newForm(region, l), region: region, off: far(len(l.A))}
	if region.Centre != nil {
		g.sum, g.at, g.off = make([]float32, len(l.A)), make([]float32, len(l.A)), g.off+2*Unit
		return g
	}
	g.radius = make([]float32, len(l.A))
	for i := range l.A {
		g.radius[i] = up((float64(region.Upper[i]) - float64(region.Lower[i])) / 2)
	}
	return g
}

// clip returns a lower bound of f where g is at most 0: max over γ ≥ 0 of the least value of f + γ·g over the region,
// or known if that is larger. The least value is a concave function of γ. Between two points, one with a slope above 0
// and one with a slope below, the next is where their tangents meet. The search begins at gamma, unless that is 0, and
// stores the best γ there.
func (g *given) clip(f *form, known float64, gamma *float64) float64 {
	low, lowValue, lowSlope := 0.0, f.least, g.At0+vector.Dot(g.A, f.at)
	if !(lowSlope > 0) {
		return known // g is at most 0 where f is least
	}
	var high, highValue, highSlope float64
	at, best, found := *gamma, f.least, 0.0
	if !(at > 0) {
		at = f.spread / g.spread / 2
	}
	for range gammaSteps {
		value, slope := g.least(f, at)
		if value > best {
			best, found = value, at
		}
		if slope > 0 {
			low, lowValue, lowSlope = at, value, slope
		} else {
			high, highValue, highSlope = at, value, slope
		}
		if high == 0 {
			at *= 2
			continue
		}
		at = (highValue - lowValue + lowSlope*low - highSlope*high) / (lowSlope - highSlope)
		if most := lowValue + lowSlope*(at-low); most <= known || most-best <= gammaGain*(best-known) {
			break
		}
		at = min(max(at, low+0.1*(high-low)), high-0.1*(high-low))
	}
	if found > 0 {
		*gamma = found
	}
	if best -= (f.size + found*g.size) * g.off; best > known {
		return best
	}
	return known
}

// least returns the least value of f + γ·g over the region, and its slope by γ.
func (g *given) least(f *form, gamma float64) (value, slope float64) {
	if g.radius != nil {
		spread, turned := vector.Spread(f.A, g.A, gamma, g.radius)
		return f.middle + gamma*g.middle - spread, g.middle - turned
	}
	gamma = float64(float32(gamma))
	vector.AddScaled(f.A, g.A, float32(gamma), g.sum)
	return f.At0 + gamma*g.At0 + g.region.least(g.sum, g.at), g.At0 + vector.Dot(g.A, g.at)
}
