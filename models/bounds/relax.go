package bounds

import "math"

// relax computes a stage's linear bounds and its output's interval from the bounds of its input.
func (p *proof) relax(s *stage, r *relaxation) {
	size := p.size(s.output())
	r.out = Region{Lower: make([]float32, size), Upper: make([]float32, size)}
	sums := newSums(size, p.unit)
	r.ports[sumsPort], r.ports[stepSumsPort] = sums.all, sums.positive
	var rows *rowSums
	if p.steps > 0 && s.free != nil {
		rows = &rowSums{newSums(size, p.unit), newSums(size, p.unit)}
	}
	switch {
	case s.pool != nil:
		s.pool.relax(s, r, sums, p.unit)
		return
	case s.product != nil:
		s.product.relax(s, r, sums, p.unit)
		return
	}
	slopes, steps := make([]float32, size), make([]float32, size)
	r.ports[slopePort], r.ports[stepPort] = slopes, steps
	if p.cutting && s.cuttable() {
		r.own = newOwnLines(s, r, slopes, p.unit)
	}
	for j := range size {
		l, u := float64(r.lower[j]), float64(r.upper[j])
		low, high := s.f(l), s.f(u)
		if s.span != nil {
			low, high = s.span(l, u)
		}
		below, above := s.between(l, u)
		if p.boxed(s) {
			below, above = line{0, low}, line{0, high}
		}
		reach := max(-l, u)
		slopes[j], steps[j] = inFloat32(&below, &above, reach)
		slope, step := float64(slopes[j]), float64(steps[j])
		wrong := 0.0 // error of the runtime's value
		if p.unit > 0 {
			wrong = s.error + s.perInput*reach + 4*p.unit*max(math.Abs(low), math.Abs(high))
		}
		r.out.Lower[j], r.out.Upper[j] = down(low-wrong), up(high+wrong)
		rounds := gamma(p.unit, 4+s.readers) * reach // A·slope + P·step, with other readers of the input
		zero, inner := float64(s.segment.atZero[j]), float64(r.wrong[j])
		if r.own != nil {
			r.own.set(j, slope, step, up(above.b), down(below.b), wrong, reach, s.bends(l, u) && !p.boxed(s))
		}
		if rows != nil { // the steps may have any size up to the slopes' range
			most := max(math.Abs(step), math.Abs(s.free[0]-slope), math.Abs(s.free[1]-slope))
			rows.set(j, above.b, below.b-above.b, wrong+rounds*(math.Abs(slope)+most), zero, inner)
		}
		wrong += rounds * (math.Abs(slope) + math.Abs(step))
		// |A·slope + P·step| = P·(|slope + step| + |slope|) − A·|slope|; |A| = 2·P − A.
		sums.set(j, above.b+slope*zero, below.b-above.b+step*zero, -wrong-math.Abs(slope)*inner,
			2*wrong+(math.Abs(slope+step)+math.Abs(slope))*inner)
	}
	if rows != nil {
		r.ports[rowSumsPort], r.ports[rowStepSumsPort] = rows.output.all, rows.output.positive
		r.ports[zerosPort], r.ports[wrongPort] = rows.input.all, rows.input.positive
	}
}

// inFloat32 returns the upper line's slope, and how much larger the lower one's is, as float32 numbers of the program.
// It moves the lines so that they still bound f.
func inFloat32(below, above *line, reach float64) (slope, step float32) {
	slope = float32(above.a)
	step = float32(below.a - float64(slope))
	above.b += math.Abs(above.a-float64(slope)) * reach
	below.b -= math.Abs(below.a-float64(slope)-float64(step)) * reach
	return slope, step
}

// boxed reports whether each of a stage's values comes from one value of a box: their intervals are a box too, which no
// lines can improve on.
func (p *proof) boxed(s *stage) bool { return s.segment.own && p.region.Centre == nil }

// ownLines holds the lines, before its cuts, that each row has for a stage that is cut, and their sums.
type ownLines struct {
	slopes       []float32 // of the upper line
	upper, lower []float32 // the lines at 0
	zero, inner  []float32 // the segment's value at 0, and the error of its values
	reach        []float64 // largest |input|
	bending      []int     // values that can be cut
	ends         ends      // the bounds of the values
	turning      []int     // values whose lower line can be optimised
	rounds       float64   // rounding of the input's coefficients
	fixed, bent  []term    // terms of the values whose lines are not 0: the fixed ones are the same for all rows
}

// term holds a value's part of a bound for the coefficient A of the stage's output, P = max(A, 0):
//
//	A·all + P·positive, with the slack |A|·slack,
//
// and if each row has its own step,
//
//	P·step·zero, with the slack |A·slope + P·step|·inner + (|A·slope| + |A·step|)·rounds
type term struct {
	value                int
	all, positive, slack float64

	zero, slope, inner, rounds float64
}

func newOwnLines(s *stage, r *relaxation, slopes []float32, unit float64) *ownLines {
	size := len(slopes)
	return &ownLines{slopes: slopes, upper: make([]float32, size), lower: make([]float32, size),
		reach: make([]float64, size), zero: s.segment.atZero, inner: r.wrong, rounds: gamma(unit, 8+s.readers)}
}

// set stores a value's lines and their values at 0, the error of the runtime's value, and the input's largest size.
func (o *ownLines) set(j int, slope, step float64, upper, lower float32, wrong, reach float64, bends bool) {
	o.upper[j], o.lower[j], o.reach[j] = upper, lower, reach
	zero, inner := float64(o.zero[j]), float64(o.inner[j])
	t := term{value: j, all: float64(upper) + slope*zero, positive: float64(lower) - float64(upper), slack: wrong,
		zero: zero, slope: slope, inner: inner, rounds: o.far(j) - inner}
	if bends {
		o.bent = append(o.bent, t)
		return
	}
	t.positive += step * zero
	t.slack += max(math.Abs(slope), math.Abs(slope+step))*inner + (math.Abs(slope)+math.Abs(step))*t.rounds
	if slope != 0 || step != 0 || upper != 0 || lower != 0 || wrong != 0 {
		o.fixed = append(o.fixed, t)
	}
}

// far returns the error of an input's value per unit of its coefficient: its own, and that of rounding coefficients.
func (o *ownLines) far(j int) float64 {
	return float64(o.inner[j]) + o.rounds*(o.reach[j]+math.Abs(float64(o.zero[j])))
}

// sums returns what a row's constants add to a bound, and their slack, for coefficients of the stage's output, before
// any cuts.
func (o *ownLines) sums(a, step []float32) (value, slack float64) {
	for _, t := range o.fixed { // without branches, which would be unpredictable
		g := float64(a[t.value])
		value += g*t.all + max(g, 0)*t.positive
		slack += math.Abs(g) * t.slack
	}
	for _, t := range o.bent {
		g, d := float64(a[t.value]), float64(step[t.value])
		positive := max(g, 0)
		value += g*t.all + positive*(t.positive+d*t.zero)
		slack += math.Abs(g)*t.slack + t.off(g, positive, d, 0)
	}
	return value, slack
}

// off returns the slack of an input's coefficient A·slope + P·step + β.
func (t *term) off(g, positive, step, beta float64) float64 {
	return math.Abs(g*t.slope+positive*step+beta)*t.inner +
		(math.Abs(g)*(math.Abs(t.slope)+math.Abs(step))+math.Abs(beta))*t.rounds
}

// cut returns how the line and the multiplier that a value has for itself change the result of [ownLines.sums], for the
// output's coefficient g.
func (o *ownLines) cut(j int, g float64, of func(portKind) float64) (value, slack float64) {
	was, slope, step, upper, lower, beta := float64(o.slopes[j]), of(rowSlopePort), of(rowStepPort), of(upperPort),
		of(lowerPort), of(betaPort)
	positive, zero, inner := max(g, 0), float64(o.zero[j]), float64(o.inner[j])
	upward, downward := upper-float64(o.upper[j]), lower-float64(o.lower[j])
	old := term{slope: was, inner: inner, rounds: o.far(j) - inner}
	now := old
	now.slope = slope
	return g*(upward+(slope-was)*zero) + positive*(downward-upward) + beta*zero,
		now.off(g, positive, step, beta) - old.off(g, positive, step, 0)
}

// rowSums are the sums of a stage whose steps each row has for itself: with the coefficients of its output and of its
// input.
type rowSums struct{ output, input *sums }

func (s *rowSums) set(j int, constant, constantStep, wrong, zero, inner float64) {
	s.output.set(j, constant, constantStep, -wrong, 2*wrong)
	at := s.input.at(j)
	s.input.all[at] = float32(zero)
	s.input.positive[at+s.input.blocks] = float32(inner + s.input.gamma*math.Abs(zero))
}

// between returns an activation's lines on [l, u].
func (s *stage) between(l, u float64) (lower, upper line) {
	if s.bends(l, u) {
		return s.lines(l, u)
	}
	slope := 0.0
	if u > l {
		slope = (s.f(u) - s.f(l)) / (u - l)
	}
	both := through(s.f, l, slope)
	return both, both
}

type sums struct {
	all, positive  []float32
	blocks, values int
	gamma          float64
}

func newSums(size int, unit float64) *sums {
	b := blocks(size)
	per := (size + b - 1) / b
	return &sums{make([]float32, 2*b*size), make([]float32, 2*b*size), b, per, gamma(unit, int64(per+8))}
}

// set stores value j's terms: the constants for the coefficient A and for its positive part P, and the slacks for both.
// The slack also covers the rounding of making and adding them up.
func (s *sums) set(j int, constant, constantStep, slack, slackStep float64) {
	at := s.at(j)
	rounded := s.gamma * (math.Abs(constant) + math.Abs(constantStep))
	s.all[at], s.positive[at] = float32(constant), float32(constantStep)
	s.all[at+s.blocks], s.positive[at+s.blocks] = float32(slack-rounded), float32(slackStep+2*rounded)
}

// at returns the index of value j in the matrices.
func (s *sums) at(j int) int { return 2*s.blocks*j + j/s.values }
