package bounds

import (
	"context"
	"math"
	"slices"
	"sync"

	"selfheal/internal/tree"
)

// cut is the half of a stage's values on one side of its kink: what is bounded are the inputs whose value lies there,
// which a Lagrange multiplier β says too (Wang et al. 2021, "Beta-CROWN", equation 5).
type cut struct {
	kink
	above bool
}

// kink is a value of a ReLU or LeakyReLU whose sign is not known.
type kink struct{ stage, value int }

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

// Cuttable reports whether the network has kinks that its bounds are cut at.
func (n *Network) Cuttable() bool {
	return slices.ContainsFunc(n.free.free, func(s *stage) bool { return s.cuttable() })
}

func (s *stage) cuttable() bool { return s.node.Op == "Relu" || s.node.Op == "LeakyRelu" }

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
		for _, s := range n.free.free {
			if own := p.known[s.index].own; own != nil {
				for j := range own.upper {
					if p.turns(s, j) {
						own.turning = append(own.turning, j)
					}
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

// domain is a part of a region: the inputs whose values lie on given sides of some kinks.
type domain struct {
	cuts   []cut
	bounds []Bound // of the rows
	lacks  float64 // below 0: it is decided
	last   *ended  // what its bounds ended with, before them what its whole's did; nil: CROWN's slopes
	worst  *kink   // whose relaxation costs the bounds most; nil: there is none
}

// ended are lower slopes, multipliers and points that bounds ended with, of each row.
type ended struct {
	alphas [][]float32 // by the stages' indices
	betas  []float32   // by the cuts
	at     []float32
}

// branching is a tree of cuts of a region under construction.
type branching struct {
	*proof
	prog  *program
	rows  int
	short func([]Bound) float64
}

// branch prepares a tree of cuts for rows.
func (r *Root) branch(rows []float64, short func([]Bound) float64) (*branching, error) {
	p := *r.proof
	p.seed(r.out, rows)
	prog, err := p.withCuts()
	return &branching{&p, prog, len(p.apart), short}, err
}

// Branch is [Network.Rows] by β-CROWN: α-CROWN on the region, whose inputs are then cut in two by the sign of a ReLU's
// value, and the halves again, until short says of the bounds of each that they lack nothing: it gives what they lack,
// a number below 0 where they suffice. The bounds returned are those of the part where they are nearest to lacking;
// proven is false where a part could not be cut (Bunel et al. 2020, "Branch and Bound for Piecewise Linear Neural
// Network Verification"). Count, unless it is nil, counts parts.
func (r *Root) Branch(ctx context.Context, rows []float64, workers int, short func([]Bound) float64,
	count *tree.Count) (nearest []Bound, proven bool, err error) {
	if r.out == nil || !r.proof.cutting {
		whole, err := r.Part(ctx, rows, func(found []Bound) bool { return short(found) < 0 })
		return whole.Bounds, err == nil && short(whole.Bounds) < 0, err
	}
	b, err := r.branch(rows, short)
	if err != nil {
		return nil, false, err
	}
	whole := &domain{}
	if err := b.bound(ctx, alphaSteps, whole); err != nil || whole.lacks < 0 {
		return whole.bounds, err == nil, err
	}
	var mu sync.Mutex
	examine := func(ctx context.Context, parts []*domain) (open []*domain, err error) {
		var halves []*domain
		for _, d := range parts {
			if d.worst == nil {
				return nil, tree.ErrOpen
			}
			halves = append(halves, d.cutAt(*d.worst, true), d.cutAt(*d.worst, false))
		}
		if err := b.bound(ctx, cutSteps, halves...); err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, half := range halves {
			if !(half.lacks < 0) {
				open = append(open, half)
			} else if nearest == nil || half.lacks > short(nearest) {
				nearest = half.bounds
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

// cutAt is the half of a domain on one side of a kink.
func (d *domain) cutAt(k kink, above bool) *domain {
	return &domain{cuts: append(slices.Clip(d.cuts), cut{k, above}), last: d.last}
}

// kinkPorts are what each row has of a stage that is cut.
var kinkPorts = []portKind{rowStepPort, rowSlopePort, betaPort, upperPort, lowerPort}

// batch is of domains that are bounded together, some rows each.
type batch struct {
	*branching
	live           []*domain
	own            *slopes
	alphas         []adam
	betas          []adam // of each domain's cuts, row by row
	rate           float64
	decay1, decay2 float64
}

// bound finds the best bounds of some domains by slopes and multipliers, from those that they begin with on. Domains
// that are decided leave the batch.
func (b *branching) bound(ctx context.Context, steps int, domains ...*domain) error {
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
		p.seeds = slices.Repeat(b.seeds, len(t.live))
		p.apart = slices.Repeat(b.apart, len(t.live))
		found, err := p.run(ctx, b.prog, b.output.segment, b.wrong, p.seeds, t.own)
		if err != nil {
			return err
		}
		var left []int
		for d, of := range t.live {
			one := found[d*b.rows : (d+1)*b.rows]
			if of.bounds == nil {
				of.bounds = slices.Clone(one)
			}
			for k, bound := range one {
				if bound.Least() > of.bounds[k].Least() {
					of.bounds[k] = bound
				}
			}
			if of.lacks = b.short(of.bounds); !(of.lacks < 0) {
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
	t.own = b.newSlopes(rows, kinkPorts...)
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
			if of.last == nil {
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
		if of.last != nil {
			copy(t.own.at[d*len(of.last.at):], of.last.at)
		}
		for k, c := range of.cuts {
			s := b.stages[c.stage]
			slope := float32(-s.f(-1))
			if c.above {
				slope = 1
			}
			for row := range b.rows {
				at := (d*b.rows+row)*b.size(s.output()) + c.value
				ports[rowSlopePort][c.stage][at], ports[rowStepPort][c.stage][at] = slope, 0
				ports[upperPort][c.stage][at], ports[lowerPort][c.stage][at] = 0, 0
				if of.last != nil && k < len(of.last.betas)/b.rows {
					ports[betaPort][c.stage][at] = of.last.betas[k*b.rows+row]
				}
			}
		}
	}
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
				ports[rowStepPort][c.stage][at] = 0 // its line is no bound but the function
				move := betaRate * t.betas[d].step(k*t.rows+row, t.own.gradients[c.stage][at], t.decay1, t.decay2)
				beta := float64(ports[betaPort][c.stage][at]) + move
				if c.above {
					beta = min(beta, 0)
				} else {
					beta = max(beta, 0)
				}
				ports[betaPort][c.stage][at] = float32(beta)
			}
		}
	}
	t.rate *= alphaDecay
}

// keep drops the domains that are not left.
func (t *batch) keep(left []int) {
	all := len(t.live)
	t.live, t.betas = pick(t.live, left, all), pick(t.betas, left, all)
	t.own.at = pick(t.own.at, left, all)
	lists := [][][]float32{t.own.gradients, t.own.outputs}
	for _, kind := range kinkPorts {
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

// end keeps what the bounds of the domains that are left ended with, and finds each one's worst kink: a coefficient
// that takes the upper line loses its intercept, one that takes the lower line what that lies below the kinked function
// at the nearer end (Bunel et al. 2020, section 5.2).
func (t *batch) end() {
	for d, of := range t.live {
		input := len(t.own.at) / len(t.live)
		of.last = &ended{make([][]float32, len(t.stages)), nil, slices.Clone(t.own.at[d*input : (d+1)*input])}
		most := 0.0
		for n, s := range slices.Concat(t.prog.free, t.prog.cut) {
			i, size := s.index, t.size(s.output())
			slopes, first := t.known[i].ports[slopePort], d*t.rows*size
			alphas := slices.Clone(t.own.ports[rowStepPort][i][first : first+t.rows*size])
			for k := range alphas {
				alphas[k] += slopes[k%size]
			}
			if of.last.alphas[i] = alphas; n < len(t.prog.free) {
				continue
			}
			for _, j := range t.turning(s) {
				l, u := float64(t.known[i].lower[j]), float64(t.known[i].upper[j])
				loss := 0.0
				for k := j; k < t.rows*size; k += size {
					a, alpha := float64(t.own.outputs[i][first+k]), float64(alphas[k])
					if a < 0 {
						loss -= a * (s.f(u) - float64(slopes[j])*u)
					} else {
						loss += a * min((s.free[1]-alpha)*u, (s.free[0]-alpha)*l)
					}
				}
				if loss > most && !math.IsInf(loss, 0) && !of.cutBefore(i, j) {
					most, of.worst = loss, &kink{i, j}
				}
			}
		}
		for _, c := range of.cuts {
			size := t.size(t.stages[c.stage].output())
			for row := range t.rows {
				of.last.betas = append(of.last.betas, t.own.ports[betaPort][c.stage][(d*t.rows+row)*size+c.value])
			}
		}
	}
}

func (d *domain) cutBefore(stage, value int) bool {
	return slices.ContainsFunc(d.cuts, func(c cut) bool { return c.kink == kink{stage, value} })
}
