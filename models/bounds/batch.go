package bounds

import (
	"context"
	"math"
	"slices"
)

// weightStride is how far weights move at first and at most. They move half as far after a turn and a little farther
// while they keep their direction.
const weightStride, weightTurns, weightGoesOn = 0.3, 0.5, 1.1

// cutPorts are the inputs that each row has for a stage that is cut.
var cutPorts = []portKind{rowStepPort, rowSlopePort, betaPort, upperPort, lowerPort}

// batch holds domains that are bounded together, some rows each.
type batch struct {
	*branching
	live           []*domain
	own            *slopes
	alphas         []adam
	multipliers    [][]float32 // of each domain's cuts, row by row
	betas          []adam      // states of the ascents of the multipliers
	changed        [][]changed // values of each domain whose lines differ from the region's
	found          []Bound     // bounds of the last run, with the linear bounds' coefficients
	coefficients   []float32
	rate           float64
	decay1, decay2 float64
}

// changed is a value of a stage in a domain.
type changed struct {
	stage, value int
	step         float32
	fixed        bool // the step is fixed
}

// bound improves the bounds of some domains by moving slopes and multipliers from their present values. Domains that
// are decided leave the batch.
func (b *branching) bound(ctx context.Context, by climb, domains ...*domain) error {
	if len(domains) == 0 {
		return nil
	}
	t := b.batch(domains)
	defer b.spare.Put(t.own)
	t.rate = by.rate
	first := 0 // first run that gives gradients
	if domains[0].last == nil {
		first = 1 // the run before finds the points where bounds are taken
	}
	last := first + by.steps
	for step := range last + 1 {
		if step > first {
			t.ascend()
		}
		prog := b.cut
		if step == last {
			prog = b.ended
		}
		p := *b.proof
		p.seeds, p.apart = nil, nil
		for _, of := range t.live {
			seeds, apart := b.seedsOf(of)
			p.seeds, p.apart = append(p.seeds, seeds...), append(p.apart, apart...)
		}
		found, err := p.run(ctx, prog, b.output.segment, b.wrong, p.seeds, t.own)
		if err != nil {
			return err
		}
		t.found, t.coefficients = found, p.coefficients
		var left []int
		for d, of := range t.live {
			one := found[d*b.rows : (d+1)*b.rows]
			for row := range one {
				t.shift(&one[row], d, row)
			}
			if of.bounds == nil {
				of.bounds, of.lacks = slices.Clone(one[:len(b.limits)]), math.Inf(1)
			}
			for k := range of.bounds {
				if one[k].Least() > of.bounds[k].Least() {
					of.bounds[k] = one[k]
				}
			}
			if of.lacks = min(of.lacks, b.short(of, one)); !(of.lacks < 0) {
				left = append(left, d)
			}
		}
		if len(left) < len(t.live) {
			t.keep(left)
		}
		if len(left) == 0 {
			return nil
		}
	}
	t.end()
	return nil
}

// batch begins with the slopes and multipliers that the domains' parents ended with.
func (b *branching) batch(domains []*domain) *batch {
	t := &batch{branching: b, live: slices.Clone(domains), alphas: make([]adam, len(b.stages)),
		decay1: 1, decay2: 1}
	rows := len(domains) * b.rows
	if t.own, _ = b.spare.Get().(*slopes); t.own == nil {
		t.own = b.newSlopes(0, cutPorts...)
		t.own.gammas = make([][]float64, len(b.stages))
		for _, s := range b.cut.cut {
			t.own.gammas[s.index] = make([]float64, 2*len(b.known[s.index].own.bending))
		}
	}
	at, ports := &t.own.at, &t.own.ports
	*at = zeros(*at, rows*b.size(b.input))
	for _, s := range b.cut.cut {
		i, known := s.index, b.known[s.index]
		for kind, values := range map[portKind][]float32{rowSlopePort: known.ports[slopePort],
			rowStepPort: known.ports[stepPort], upperPort: known.own.upper, lowerPort: known.own.lower} {
			ports[kind][i] = repeat(ports[kind][i], values, rows)
		}
		size := b.size(s.output())
		ports[betaPort][i] = zeros(ports[betaPort][i], rows*size)
		steps, slopes := ports[rowStepPort][i], known.ports[slopePort]
		t.alphas[i] = newAdam(rows * len(known.own.turning))
		for d, of := range domains {
			if of.last == nil || of.last.alphas[i] == nil {
				continue
			}
			for row := range b.rows {
				at := (d*b.rows + row) * size
				for _, j := range known.own.turning {
					steps[at+j] = of.last.alphas[i][row*size+j] - slopes[j]
				}
			}
		}
	}
	for d, of := range domains {
		t.betas = append(t.betas, newAdam(len(of.cuts)*b.rows))
		t.multipliers = append(t.multipliers, make([]float32, len(of.cuts)*b.rows))
		t.changed = append(t.changed, nil)
		for _, s := range b.cut.cut {
			t.change(s, d, of)
		}
		if of.last == nil {
			continue
		}
		copy(t.own.at[d*len(of.last.at):], of.last.at)
		for k := range len(of.last.betas) / b.rows {
			copy(t.multipliers[d][k*b.rows:(k+1)*b.rows], of.last.betas[k*b.rows:])
		}
	}
	t.multiply()
	return t
}

// change computes a domain's lines for those of a stage's values whose ranges are narrower than the region's.
func (t *batch) change(s *stage, d int, of *domain) {
	i, size, ports := s.index, t.size(s.output()), &t.own.ports
	own, now := t.known[i].own, of.ranges[i]
	for k, j := range own.bending {
		l, u := now.lower[k], now.upper[k]
		if l == own.ends.lower[k] && u == own.ends.upper[k] {
			continue
		}
		below, above := s.between(float64(l), float64(u))
		slope, step := inFloat32(&below, &above, float64(max(-l, u)))
		fixed := !s.loose(float64(l), float64(u))
		for row := range t.rows {
			at := (d*t.rows+row)*size + j
			if was := ports[rowSlopePort][i][at] + ports[rowStepPort][i][at]; fixed {
				ports[rowStepPort][i][at] = step
			} else {
				ports[rowStepPort][i][at] = s.within(slope, was-slope, 0)
			}
			ports[rowSlopePort][i][at] = slope
			ports[upperPort][i][at], ports[lowerPort][i][at] = up(above.b), down(below.b)
		}
		t.changed[d] = append(t.changed[d], changed{i, j, step, fixed})
	}
}

// zeros returns a slice of zeros, in the given memory.
func zeros(into []float32, some int) []float32 {
	into = slices.Grow(into[:0], some)[:some]
	clear(into)
	return into
}

// repeat returns values repeated, in the given memory.
func repeat(into, values []float32, times int) []float32 {
	into = slices.Grow(into[:0], times*len(values))
	for range times {
		into = append(into, values...)
	}
	return into
}

// ascend moves slopes and multipliers along their gradients.
func (t *batch) ascend() {
	t.decay1, t.decay2 = t.decay1*beta1, t.decay2*beta2
	ports := &t.own.ports
	for _, s := range t.cut.cut {
		i, size := s.index, t.size(s.output())
		slopes, steps, alpha := ports[rowSlopePort][i], ports[rowStepPort][i], 0
		for at := 0; at < len(steps); at += size {
			for _, j := range t.known[i].own.turning {
				g := t.own.gradients[i][at+j] * max(t.own.outputs[i][at+j], 0)
				steps[at+j] = s.within(slopes[at+j], steps[at+j],
					t.rate*t.alphas[i].step(alpha, g, t.decay1, t.decay2))
				alpha++
			}
		}
	}
	for d, of := range t.live {
		for _, c := range t.changed[d] {
			size := t.size(t.stages[c.stage].output())
			for row := 0; row < t.rows && c.fixed; row++ {
				ports[rowStepPort][c.stage][(d*t.rows+row)*size+c.value] = c.step
			}
		}
		for k, c := range of.cuts {
			size := t.size(t.stages[c.stage].output())
			for row := range t.rows {
				at := (d*t.rows+row)*size + c.value
				g := t.own.gradients[c.stage][at] - float32(c.at)
				beta := &t.multipliers[d][k*t.rows+row]
				moved := float64(*beta) + betaRate*t.betas[d].step(k*t.rows+row, g, t.decay1, t.decay2)
				if c.above {
					moved = min(moved, 0)
				} else {
					moved = max(moved, 0)
				}
				*beta = float32(moved)
			}
		}
	}
	t.multiply()
	for d, of := range t.live {
		t.weigh(of, t.own.rows[((d+1)*t.rows-1)*t.Classes():])
	}
	t.rate *= alphaDecay
}

// weigh moves the weights of a domain's rows towards the rows that are farthest above their limits where their sum is
// least. y holds the outputs there, less the segment's value at 0.
func (t *batch) weigh(d *domain, y []float32) {
	if d.weights == nil {
		return
	}
	above, mean, total := make([]float64, len(d.weights)), 0.0, 0.0
	for i, limit := range t.limits {
		above[i] = -limit
		for j, v := range t.numbers[i*t.Classes() : (i+1)*t.Classes()] {
			above[i] += v * (float64(y[j]) + float64(t.output.segment.atZero[j]))
		}
		mean += d.weights[i] * above[i]
	}
	most, along := 0.0, 0.0
	for i := range above {
		above[i] -= mean
		most = max(most, math.Abs(above[i]))
		if d.towards != nil {
			along += above[i] * d.towards[i]
		}
	}
	if !(most > 0) || math.IsInf(most, 0) {
		return
	}
	switch {
	case d.towards == nil:
		d.stride = weightStride
	case along < 0:
		d.stride *= weightTurns
	default:
		d.stride = min(d.stride*weightGoesOn, weightStride)
	}
	weights := slices.Clone(d.weights) // the other half shares its parent's weights
	for i := range weights {
		weights[i] *= math.Exp(d.stride * above[i] / most)
		total += weights[i]
	}
	d.towards = above
	for i := range weights {
		weights[i] /= total
	}
	d.weights = weights
}

// multiply adds up the multipliers of each value.
func (t *batch) multiply() {
	betas := t.own.ports[betaPort]
	each := func(do func(sum, beta *float32)) {
		for d, of := range t.live {
			for k, c := range of.cuts {
				for row := range t.rows {
					at := (d*t.rows+row)*t.size(t.stages[c.stage].output()) + c.value
					do(&betas[c.stage][at], &t.multipliers[d][k*t.rows+row])
				}
			}
		}
	}
	each(func(sum, _ *float32) { *sum = 0 })
	each(func(sum, beta *float32) { *sum += *beta })
}

// shift returns the change of a row's bound by its cuts: −β·at for each, and the effect of its own lines and
// multipliers. The slack also covers the sum of several multipliers of one value, which the program holds in float32.
func (t *batch) shift(b *Bound, d, row int) {
	cuts := t.live[d].cuts
	for k, c := range cuts {
		beta := float64(t.multipliers[d][k*t.rows+row])
		b.Value -= beta * c.at
		b.Slack += float64(len(cuts)) * t.unit * math.Abs(beta) * t.known[c.stage].own.reach[c.value]
	}
	for _, c := range t.changed[d] {
		i := c.stage
		at := (d*t.rows+row)*t.size(t.stages[i].output()) + c.value
		of := func(kind portKind) float64 { return float64(t.own.ports[kind][i][at]) }
		value, slack := t.known[i].own.cut(c.value, float64(t.own.outputs[i][at]), of)
		b.Value, b.Slack = b.Value+value, b.Slack+slackFactor*slack
	}
}

// keep drops the domains that are not in left.
func (t *batch) keep(left []int) {
	all := len(t.live)
	t.live, t.betas = pick(t.live, left, all), pick(t.betas, left, all)
	t.multipliers, t.changed = pick(t.multipliers, left, all), pick(t.changed, left, all)
	t.found, t.coefficients = pick(t.found, left, all), pick(t.coefficients, left, all)
	t.own.at, t.own.rows = pick(t.own.at, left, all), pick(t.own.rows, left, all)
	lists := [][][]float32{t.own.gradients, t.own.outputs}
	for _, kind := range cutPorts {
		lists = append(lists, t.own.ports[kind])
	}
	for _, list := range lists {
		for i, values := range list {
			list[i] = pick(values, left, all)
		}
	}
	for i, a := range t.alphas {
		t.alphas[i] = adam{pick(a.mean, left, all), pick(a.square, left, all)}
	}
}

// pick moves to the front of a list the parts with the indices in left; all parts have the same length.
func pick[T any](list []T, left []int, parts int) []T {
	size := len(list) / parts
	for to, from := range left {
		copy(list[to*size:(to+1)*size], list[from*size:(from+1)*size])
	}
	return list[:len(left)*size]
}

// end stores the slopes, multipliers and points of the domains that are left, and finds where each one may be cut. A
// cut gains most where relaxation costs most: a coefficient that takes the upper line loses the distance from that to
// the function at the point, and one that takes the lower line loses the distance below it; at a kink, at the nearer
// end (Bunel et al. 2020, section 5.2).
func (t *batch) end() {
	for d, of := range t.live {
		input := len(t.own.at) / len(t.live)
		of.last = &endState{make([][]float32, len(t.stages)), t.multipliers[d],
			slices.Clone(t.own.at[d*input : (d+1)*input])}
		of.worst = nil
		var all []bentValue
		for _, s := range t.cut.cut {
			i, size := s.index, t.size(s.output())
			first := d * t.rows * size
			steps := t.own.ports[rowStepPort][i][first : first+t.rows*size]
			slopes := t.own.ports[rowSlopePort][i][first : first+t.rows*size]
			if s.free != nil {
				alphas := slices.Clone(steps)
				for k := range alphas {
					alphas[k] += slopes[k]
				}
				of.last.alphas[i] = alphas
			}
			upper, lower := t.own.ports[upperPort][i][first:], t.own.ports[lowerPort][i][first:]
			for k, j := range t.known[i].own.bending {
				l, u := float64(of.ranges[i].lower[k]), float64(of.ranges[i].upper[k])
				at := 0.0 // of a kink, or of a sigmoid's turning point
				if !(l < 0 && u > 0) {
					at = float64(float32(l/2 + u/2))
				}
				if !s.bends(l, u) || !(l < at && at < u) {
					continue
				}
				value, loss := s.f(at), 0.0
				for k := j; k < t.rows*size; k += size {
					a := float64(t.own.outputs[i][first+k])
					slope, alpha := float64(slopes[k]), float64(slopes[k]+steps[k])
					switch {
					case a < 0:
						loss -= a * (float64(upper[k]) + slope*at - value)
					case s.kinked():
						loss += a * min((s.free[1]-alpha)*u, (s.free[0]-alpha)*l)
					default:
						loss += a * (value - alpha*at - float64(lower[k]))
					}
				}
				if loss > 0 && !math.IsInf(loss, 0) {
					of.consider(candidate{place{i, j, at}, loss})
					all = append(all, bentValue{i, k, loss})
				}
			}
		}
		t.clip(d, of, all)
	}
}
