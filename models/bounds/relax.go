package bounds

import "math"

// relax computes a stage's linear bounds and its output's interval from the bounds of its input.
func (p *proof) relax(s *stage, r *relaxation) {
	size := p.size(s.output())
	r.out = Region{Lower: make([]float32, size), Upper: make([]float32, size)}
	sums := newSums(size, p.unit)
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
	var own *ownLines
	if p.cutting && s.cuttable() {
		own = newOwnLines(s, r, size, p.unit)
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
		wrong := 0.0 // of the runtime's value
		if p.unit > 0 {
			wrong = s.error + s.perInput*reach + 4*p.unit*max(math.Abs(low), math.Abs(high))
		}
		r.out.Lower[j], r.out.Upper[j] = down(low-wrong), up(high+wrong)
		rounds := gamma(p.unit, 4+s.readers) * reach // A·slope + P·step, with what other readers of the input give
		zero, inner := float64(s.segment.atZero[j]), float64(r.wrong[j])
		if own != nil {
			own.upper[j], own.lower[j], own.wrong[j], own.reach[j] = up(above.b), down(below.b), wrong, reach
		}
		if rows != nil { // whose steps may have any size up to that of the slopes' range
			most := max(math.Abs(step), math.Abs(s.free[0]-slope), math.Abs(s.free[1]-slope))
			rows.set(j, above.b, below.b-above.b, wrong+rounds*(math.Abs(slope)+most), zero, inner)
		}
		wrong += rounds * (math.Abs(slope) + math.Abs(step))
		// |A·slope + P·step| = P·(|slope + step| + |slope|) − A·|slope|; |A| = 2·P − A.
		sums.set(j, above.b+slope*zero, below.b-above.b+step*zero, -wrong-math.Abs(slope)*inner,
			2*wrong+(math.Abs(slope+step)+math.Abs(slope))*inner)
	}
	r.ports = [portKinds][]float32{slopePort: slopes, stepPort: steps, sumsPort: sums.all, stepSumsPort: sums.positive}
	r.own = own
	if rows != nil {
		r.ports[rowSumsPort], r.ports[rowStepSumsPort] = rows.output.all, rows.output.positive
		r.ports[zerosPort], r.ports[wrongPort] = rows.input.all, rows.input.positive
	}
}

// inFloat32 gives the upper line's slope, and what the lower one's is larger by, as the program has them, in float32.
// It moves the lines so that they still bound.
func inFloat32(below, above *line, reach float64) (slope, step float32) {
	slope = float32(above.a)
	step = float32(below.a - float64(slope))
	above.b += math.Abs(above.a-float64(slope)) * reach
	below.b -= math.Abs(below.a-float64(slope)-float64(step)) * reach
	return slope, step
}

// boxed reports whether each of a stage's values is made of one value of a box: their intervals are a box too, on which
// no lines improve.
func (p *proof) boxed(s *stage) bool { return s.segment.own && p.region.Centre == nil }

// ownLines are what the lines of a stage that is cut are for each row before its cuts, and what their slack is made of.
type ownLines struct {
	upper, lower []float32 // at 0
	wrong        []float64 // of the runtime's value
	reach        []float64 // the input's largest size
	zero, inner  []float32 // the segment's value at 0, and what its values differ by
	bending      []int     // values that can be cut
	turning      []int     // and those whose lower line is free
	rounds       float64   // of making the input's coefficients
}

func newOwnLines(s *stage, r *relaxation, size int, unit float64) *ownLines {
	return &ownLines{upper: make([]float32, size), lower: make([]float32, size), wrong: make([]float64, size),
		reach: make([]float64, size), zero: s.segment.atZero, inner: r.wrong, rounds: gamma(unit, 8+s.readers)}
}

// sums gives what a row's constants add to a bound, and their slack, for the coefficients a of the stage's output and
// multipliers beta.
func (o *ownLines) sums(a, slope, step, beta, upper, lower []float32) (value, slack float64) {
	slope, step, beta, upper, lower = slope[:len(a)], step[:len(a)], beta[:len(a)], upper[:len(a)], lower[:len(a)]
	zeros, wrong, inner, reach := o.zero[:len(a)], o.wrong[:len(a)], o.inner[:len(a)], o.reach[:len(a)]
	for j, v := range a { // without branches, which nobody foresees
		g, b, m, d := float64(v), float64(beta[j]), float64(slope[j]), float64(step[j])
		positive, zero := max(g, 0), float64(zeros[j])
		input := g*m + positive*d + b
		value += (g-positive)*float64(upper[j]) + positive*float64(lower[j]) + input*zero
		slack += math.Abs(g)*wrong[j] + math.Abs(input)*float64(inner[j]) +
			o.rounds*(math.Abs(g)*(math.Abs(m)+math.Abs(d))+math.Abs(b))*(reach[j]+math.Abs(zero))
	}
	return value, slack
}

// rowSums are the sums of a stage whose steps are each row's own: with its output's coefficients, and its input's.
type rowSums struct{ output, input *sums }

func (s *rowSums) set(j int, constant, constantStep, wrong, zero, inner float64) {
	s.output.set(j, constant, constantStep, -wrong, 2*wrong)
	at := s.input.at(j)
	s.input.all[at] = float32(zero)
	s.input.positive[at+s.input.blocks] = float32(inner + s.input.gamma*math.Abs(zero))
}

// between are an activation's lines on [l, u].
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

// sums are the matrices of a stage's sums.
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

// set gives value j's terms: of the constant, with the coefficient A and with its positive part P; and of the slack.
// The slack also gets the rounding of making and adding them up.
func (s *sums) set(j int, constant, constantStep, slack, slackStep float64) {
	at := s.at(j)
	rounded := s.gamma * (math.Abs(constant) + math.Abs(constantStep))
	s.all[at], s.positive[at] = float32(constant), float32(constantStep)
	s.all[at+s.blocks], s.positive[at+s.blocks] = float32(slack-rounded), float32(slackStep+2*rounded)
}

// at is where the matrices have value j.
func (s *sums) at(j int) int { return 2*s.blocks*j + j/s.values }
