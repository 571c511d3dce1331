package bounds

import (
	"context"
	"math"
	"slices"
	"sync"

	"selfheal/internal/tree"
)

// cut is the half of a stage's values on one side of a point: what is bounded are the inputs whose value lies there,
// which a Lagrange multiplier β says too (Wang et al. 2021, "Beta-CROWN", equation 5).
type cut struct {
	place
	above bool
}

// place is a point of a value of a stage's input: of a ReLU or LeakyReLU its kink.
type place struct {
	stage, value int
	at           float64
}

// withCuts makes the program of cuts once.
func (n *Network) withCuts() (*program, error) {
	n.cutter.Lock()
	defer n.cutter.Unlock()
	if n.cut == nil {
		p, err := n.backward(n.output.tensor, []string{n.input}, cutsFree)
		if err != nil {
			return nil, err
		}
		n.cut = p
	}
	return n.cut, nil
}

// Cuttable reports whether the network has values that its bounds are cut at.
func (n *Network) Cuttable() bool { return slices.ContainsFunc(n.stages, (*stage).cuttable) }

// cuttable reports whether a stage works value by value, and not as affine operators do.
func (s *stage) cuttable() bool { return !s.joins() && s.node.Op != "Identity" }

// kinked reports whether a stage is affine on both sides of 0.
func (s *stage) kinked() bool { return s.node.Op == "Relu" || s.node.Op == "LeakyRelu" }

// Root is a region whose rows α-CROWN and β-CROWN bound: the stages' inputs are bounded once.
type Root struct {
	proof *proof
	out   *relaxation
}

// Root bounds the stages' inputs over a region.
func (n *Network) Root(ctx context.Context, region Region) (*Root, error) {
	p := &proof{Network: n, region: region, cutting: n.Cuttable()}
	if len(n.free.free) > 0 {
		p.steps = alphaSteps
	}
	out, err := p.inner(ctx, AlphaCROWN)
	if err == nil && out != nil && p.cutting {
		for i, s := range n.stages {
			own := p.known[i].own
			if own == nil || p.boxed(s) {
				continue
			}
			for j, l := range p.known[i].lower {
				if s.bends(float64(l), float64(p.known[i].upper[j])) {
					own.bending = append(own.bending, j)
				}
				if s.free != nil && p.turns(s, j) {
					own.turning = append(own.turning, j)
				}
			}
		}
	}
	return &Root{p, out}, err
}

// Part is what α-CROWN proves of rows over the whole region; enough is that of [Network.Rows].
func (r *Root) Part(ctx context.Context, rows []float64, enough func([]Bound) bool) (*Part, error) {
	p := *r.proof
	bounds, err := p.outer(ctx, AlphaCROWN, r.out, rows, enough)
	return p.part(bounds), err
}

// domain is a part of a region: the inputs whose values lie on given sides of some points.
type domain struct {
	cuts    []cut
	weights []float64 // of the rows' sum; nil of a single row
	weighed int       // times that they were moved
	bounds  []Bound   // of the rows
	lacks   float64   // below 0: it is decided
	again   int       // times that it was bounded where there was nothing left to cut
	last    *ended    // what its bounds ended with, before them what its whole's did; nil: CROWN's slopes
	worst   *place    // where relaxation costs the bounds most; nil: nowhere
}

// ended are lower slopes, multipliers and points that bounds ended with, of each row.
type ended struct {
	alphas [][]float32 // by the stages' indices; nil of one whose slopes are not free
	betas  []float32   // by the cuts
	at     []float32
}

// branching is a tree of cuts of a region under construction. A domain has a bound of each row and, where there are
// several, one of a weighted sum of them.
type branching struct {
	*proof
	prog    *program
	out     *relaxation
	numbers []float64 // of the rows
	limits  []float64 // of the rows
	rows    int       // of a domain
}

// branch prepares a tree of cuts for rows.
func (r *Root) branch(rows, limits []float64) (*branching, error) {
	p := *r.proof
	p.wrong = r.out.wrong
	prog, err := p.withCuts()
	b := &branching{proof: &p, prog: prog, out: r.out, numbers: rows, limits: limits, rows: len(limits)}
	if b.rows > 1 {
		b.rows++
	}
	return b, err
}

// seedsOf are a domain's rows, and by what rounding them may change their bounds.
func (b *branching) seedsOf(d *domain) (seeds []float32, apart []float64) {
	rows := b.numbers
	if b.rows > len(b.limits) {
		k := b.Classes()
		sum := make([]float64, k)
		for i, w := range d.weights {
			for j := range sum {
				sum[j] += w * rows[i*k+j]
			}
		}
		rows = slices.Concat(rows, sum)
	}
	p := proof{Network: b.Network}
	p.seed(b.out, rows)
	return p.seeds, p.apart
}

// short is what bounds of a domain lack: below 0, they suffice.
func (b *branching) short(d *domain, found []Bound) float64 {
	least, joint, size := math.Inf(1), 0.0, 0.0
	for i, limit := range b.limits {
		least = min(least, limit-found[i].Least())
		if d.weights != nil {
			joint, size = joint+d.weights[i]*limit, size+d.weights[i]*math.Abs(limit)
		}
	}
	if d.weights != nil {
		least = min(least, joint+far*size-found[len(b.limits)].Least())
	}
	return least
}

// Branch is [Network.Rows] by β-CROWN: α-CROWN on the region, whose inputs are then cut in two by the sign of a ReLU's
// value, or at a point of another activation's, and the halves again, until in each a row is above its limit, or a
// weighted sum of rows above that of their limits: never are all rows at most their limits. The bounds returned are the
// rows' in the part where they are nearest to lacking that; proven is false where a part could not be cut (Bunel et al.
// 2020, "Branch and Bound for Piecewise Linear Neural Network Verification"). Count, unless it is nil, counts parts.
func (r *Root) Branch(ctx context.Context, rows, limits []float64, workers int, count *tree.Count) (nearest []Bound,
	proven bool, err error) {
	if r.out == nil || !r.proof.cutting {
		above := func(found []Bound) bool {
			for i, limit := range limits {
				if found[i].Least() > limit {
					return true
				}
			}
			return false
		}
		whole, err := r.Part(ctx, rows, above)
		return whole.Bounds, err == nil && above(whole.Bounds), err
	}
	b, err := r.branch(rows, limits)
	if err != nil {
		return nil, false, err
	}
	whole := b.whole()
	if err := b.bound(ctx, alphaSteps, whole); err != nil || whole.lacks < 0 {
		return whole.bounds, err == nil, err
	}
	var mu sync.Mutex
	closest := math.Inf(-1)
	examine := func(ctx context.Context, parts []*domain) (open []*domain, err error) {
		var halves, again []*domain
		for _, d := range parts {
			if d.worst != nil {
				halves = append(halves, d.cutAt(*d.worst, true), d.cutAt(*d.worst, false))
			} else if d.again++; d.again > mostAgain {
				return nil, tree.ErrOpen
			} else { // a linear program, whose dual is left to be climbed
				again = append(again, d)
			}
		}
		err = b.bound(ctx, cutSteps, halves...)
		if err == nil {
			err = b.bound(ctx, againSteps, again...)
		}
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, half := range slices.Concat(halves, again) {
			if !(half.lacks < 0) {
				open = append(open, half)
			} else if half.lacks > closest {
				closest, nearest = half.lacks, half.bounds
			}
		}
		return open, nil
	}
	grown := &tree.Tree[*domain]{Examine: examine, Most: b.most(), Workers: workers, Count: count}
	proven, err = grown.Grow(ctx, whole)
	if !proven {
		nearest = whole.bounds
	}
	return nearest, proven, err
}

// whole is the region.
func (b *branching) whole() *domain {
	d := &domain{}
	if b.rows > len(b.limits) {
		d.weights = slices.Repeat([]float64{1 / float64(len(b.limits))}, len(b.limits))
	}
	return d
}

// Weights move so far at first, and half as far after so many steps.
const weightRate, weightSteps = 0.3, 10

// Steps and times that a domain is bounded again.
const (
	againSteps = 100
	mostAgain  = 5
)

// perBatch is how many values of stages the rows of a run have together, about.
const perBatch = 1 << 16

// most is how many domains are cut at once.
func (b *branching) most() int {
	values := 0
	for _, s := range b.stages {
		values += b.size(s.output())
	}
	return max(1, perBatch/(2*values*b.rows))
}

// cutAt is the half of a domain on one side of a point.
func (d *domain) cutAt(k place, above bool) *domain {
	return &domain{cuts: append(slices.Clip(d.cuts), cut{k, above}), weights: d.weights,
		weighed: d.weighed, last: d.last}
}

// within is what is known of a value in a domain.
func (b *branching) within(d *domain, stage, value int) (l, u float64) {
	l, u = float64(b.known[stage].lower[value]), float64(b.known[stage].upper[value])
	for _, c := range d.cuts {
		if c.stage == stage && c.value == value {
			if c.above {
				l = max(l, c.at)
			} else {
				u = min(u, c.at)
			}
		}
	}
	return l, u
}

// cutPorts are what each row has of a stage that is cut.
var cutPorts = []portKind{rowStepPort, rowSlopePort, betaPort, upperPort, lowerPort}

// batch is of domains that are bounded together, some rows each.
type batch struct {
	*branching
	live           []*domain
	own            *slopes
	alphas         []adam
	multipliers    [][]float32 // of each domain's cuts, row by row
	betas          []adam      // their ascents
	steps          [][]float32 // of each domain's cuts, which are not free
	rate           float64
	decay1, decay2 float64
}

// bound finds the best bounds of some domains by slopes and multipliers, from those that they begin with on. Domains
// that are decided leave the batch.
func (b *branching) bound(ctx context.Context, steps int, domains ...*domain) error {
	if len(domains) == 0 {
		return nil
	}
	t := b.batch(domains)
	warm := domains[0].last != nil // the points where bounds are taken are known, nearly
	for step := range steps + 2 {
		if warm && step == steps+1 {
			break
		}
		if step > 0 && (warm || step > 1) {
			t.ascend()
		}
		p := *b.proof
		p.seeds, p.apart = nil, nil
		for _, of := range t.live {
			seeds, apart := b.seedsOf(of)
			p.seeds, p.apart = append(p.seeds, seeds...), append(p.apart, apart...)
		}
		found, err := p.run(ctx, b.prog, b.output.segment, b.wrong, p.seeds, t.own)
		if err != nil {
			return err
		}
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

// batch begins with what the domains' wholes ended with.
func (b *branching) batch(domains []*domain) *batch {
	t := &batch{branching: b, live: slices.Clone(domains), alphas: make([]adam, len(b.stages)), rate: alphaRate,
		decay1: 1, decay2: 1}
	rows := len(domains) * b.rows
	t.own = b.newSlopes(rows, cutPorts...)
	ports := &t.own.ports
	for _, s := range b.prog.cut {
		i, known := s.index, b.known[s.index]
		ports[rowSlopePort][i] = slices.Repeat(known.ports[slopePort], rows)
		ports[upperPort][i] = slices.Repeat(known.own.upper, rows)
		ports[lowerPort][i] = slices.Repeat(known.own.lower, rows)
		ports[betaPort][i] = make([]float32, rows*b.size(s.output()))
	}
	for _, s := range slices.Concat(b.prog.free, b.prog.cut) {
		i, size := s.index, b.size(s.output())
		steps := slices.Repeat(b.known[i].ports[stepPort], rows)
		ports[rowStepPort][i], t.alphas[i] = steps, newAdam(len(steps))
		slopes := b.known[i].ports[slopePort]
		for d, of := range domains {
			if of.last == nil || of.last.alphas[i] == nil {
				continue
			}
			for row := range b.rows {
				at := (d*b.rows + row) * size
				for _, j := range b.turning(s) {
					steps[at+j] = of.last.alphas[i][row*size+j] - slopes[j]
				}
			}
		}
	}
	for d, of := range domains {
		t.betas = append(t.betas, newAdam(len(of.cuts)*b.rows))
		t.multipliers = append(t.multipliers, make([]float32, len(of.cuts)*b.rows))
		t.steps = append(t.steps, make([]float32, len(of.cuts)))
		if of.last != nil {
			copy(t.own.at[d*len(of.last.at):], of.last.at)
		}
		for k, c := range of.cuts {
			s := b.stages[c.stage]
			l, u := b.within(of, c.stage, c.value)
			below, above := s.between(l, u)
			slope, step := inFloat32(&below, &above, max(-l, u))
			for row := range b.rows {
				at := (d*b.rows+row)*b.size(s.output()) + c.value
				ports[rowSlopePort][c.stage][at], ports[rowStepPort][c.stage][at] = slope, step
				ports[upperPort][c.stage][at], ports[lowerPort][c.stage][at] = up(above.b), down(below.b)
				if of.last != nil && k < len(of.last.betas)/b.rows {
					t.multipliers[d][k*b.rows+row] = of.last.betas[k*b.rows+row]
				}
			}
			t.steps[d][k] = step
		}
	}
	t.multiply()
	return t
}

// turning are the values of a stage whose lower line is free.
func (p *proof) turning(s *stage) []int {
	if own := p.known[s.index].own; own != nil {
		return own.turning
	}
	var all []int
	for j := range p.size(s.output()) {
		if p.turns(s, j) {
			all = append(all, j)
		}
	}
	return all
}

// ascend moves slopes and multipliers along their gradients.
func (t *batch) ascend() {
	t.decay1, t.decay2 = t.decay1*beta1, t.decay2*beta2
	ports := &t.own.ports
	for n, s := range slices.Concat(t.prog.free, t.prog.cut) {
		i, size := s.index, t.size(s.output())
		slopes, steps, gradients := t.known[i].ports[slopePort], ports[rowStepPort][i], t.own.gradients[i]
		turning := t.turning(s)
		for at := 0; at < len(steps); at += size {
			for _, j := range turning {
				g := gradients[at+j]
				if n >= len(t.prog.free) {
					g *= max(t.own.outputs[i][at+j], 0)
				}
				steps[at+j] = s.within(slopes[j], steps[at+j],
					t.rate*t.alphas[i].step(at+j, g, t.decay1, t.decay2))
			}
		}
	}
	for d, of := range t.live {
		for k, c := range of.cuts {
			size := t.size(t.stages[c.stage].output())
			for row := range t.rows {
				at := (d*t.rows+row)*size + c.value
				ports[rowStepPort][c.stage][at] = t.steps[d][k]
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

// weigh moves the weights of a domain's rows towards those that are farthest above their limits where their sum is
// least: y, less the segment's value at 0, are the outputs there.
func (t *batch) weigh(d *domain, y []float32) {
	if d.weights == nil {
		return
	}
	above, most, total := make([]float64, len(d.weights)), 0.0, 0.0
	for i, limit := range t.limits {
		above[i] = -limit
		for j, v := range t.numbers[i*t.Classes() : (i+1)*t.Classes()] {
			above[i] += v * (float64(y[j]) + float64(t.output.segment.atZero[j]))
		}
		most = max(most, math.Abs(above[i]))
	}
	if !(most > 0) || math.IsInf(most, 0) {
		return
	}
	weights := slices.Clone(d.weights) // that it has from its whole, as its other half has
	rate := weightRate / (1 + float64(d.weighed)/weightSteps)
	d.weighed++
	for i := range weights {
		weights[i] *= math.Exp(rate * above[i] / most)
		total += weights[i]
	}
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

// shift is what a row's multipliers add to its bound beside β·z: −β·at. Slack is for the sum of several multipliers of
// a value, which the program has in float32.
func (t *batch) shift(b *Bound, d, row int) {
	for k, c := range t.live[d].cuts {
		beta := float64(t.multipliers[d][k*t.rows+row])
		b.Value -= beta * c.at
		b.Slack += float64(len(t.live[d].cuts)) * t.unit * math.Abs(beta) * t.known[c.stage].own.reach[c.value]
	}
}

// keep drops the domains that are not left.
func (t *batch) keep(left []int) {
	all := len(t.live)
	t.live, t.betas = pick(t.live, left, all), pick(t.betas, left, all)
	t.multipliers, t.steps = pick(t.multipliers, left, all), pick(t.steps, left, all)
	t.own.at = pick(t.own.at, left, all)
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

// pick moves the parts of a list of equal parts that are left to its front.
func pick[T any](list []T, left []int, parts int) []T {
	size := len(list) / parts
	for to, from := range left {
		copy(list[to*size:(to+1)*size], list[from*size:(from+1)*size])
	}
	return list[:len(left)*size]
}

// end keeps what the bounds of the domains that are left ended with, and finds where each one is to be cut: a
// coefficient that takes the upper line loses what that lies above the function at the point, one that takes the lower
// line what that lies below it, at a kink at the nearer end (Bunel et al. 2020, section 5.2).
func (t *batch) end() {
	for d, of := range t.live {
		input := len(t.own.at) / len(t.live)
		of.last = &ended{make([][]float32, len(t.stages)), t.multipliers[d],
			slices.Clone(t.own.at[d*input : (d+1)*input])}
		most := 0.0
		for n, s := range slices.Concat(t.prog.free, t.prog.cut) {
			i, size := s.index, t.size(s.output())
			first := d * t.rows * size
			steps := t.own.ports[rowStepPort][i][first : first+t.rows*size]
			if s.free != nil {
				alphas, slopes := slices.Clone(steps), t.known[i].ports[slopePort]
				for k := range alphas {
					alphas[k] += slopes[k%size]
				}
				of.last.alphas[i] = alphas
			}
			if n < len(t.prog.free) {
				continue
			}
			slopes := t.own.ports[rowSlopePort][i][first : first+t.rows*size]
			upper, lower := t.own.ports[upperPort][i][first:], t.own.ports[lowerPort][i][first:]
			for _, j := range t.known[i].own.bending {
				l, u := t.within(of, i, j)
				at := 0.0 // of a kink, or where a sigmoid turns
				if !(l < 0 && u > 0) {
					at = l/2 + u/2
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
				if loss > most && !math.IsInf(loss, 0) {
					most, of.worst = loss, &place{i, j, at}
				}
			}
		}
	}
}
