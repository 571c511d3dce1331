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

// ended are the slopes, from 0, and multipliers that an optimisation ended with.
type ended struct {
	steps, betas [][]float32
	worst        *kink // whose relaxation costs the bounds most; nil: there is none
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
	p := &proof{Network: n, region: region}
	if len(n.free.free) > 0 {
		p.steps = alphaSteps
	}
	out, err := p.inner(ctx, AlphaCROWN)
	return &Root{p, out}, err
}

// Rows is [Network.Rows] by α-CROWN.
func (r *Root) Rows(ctx context.Context, rows []float64, enough func([]Bound) bool) ([]Bound, error) {
	p := *r.proof
	return p.outer(ctx, AlphaCROWN, r.out, rows, enough)
}

// whole is [Root.Rows] as the beginning of a tree of cuts at kinks.
func (r *Root) whole(ctx context.Context, rows []float64, enough func([]Bound) bool) (*Part, error) {
	p := *r.proof
	p.cutting = p.Cuttable()
	bounds, err := p.outer(ctx, AlphaCROWN, r.out, rows, enough)
	return &Part{Bounds: bounds, proof: &p}, err
}

// Branch is [Network.Rows] by β-CROWN: α-CROWN on the region, whose inputs are then cut in two by the sign of a ReLU's
// value, and the halves again, until short says of the bounds of each that they lack nothing: it gives what they lack,
// a number below 0 where they suffice. The bounds returned are those of the part where they are nearest to lacking;
// proven is false where a part could not be cut (Bunel et al. 2020, "Branch and Bound for Piecewise Linear Neural
// Network Verification"). Count, unless it is nil, counts parts.
func (r *Root) Branch(ctx context.Context, rows []float64, workers int, short func([]Bound) float64,
	count *tree.Count) (nearest []Bound, proven bool, err error) {
	enough := func(proven []Bound) bool { return short(proven) < 0 }
	whole, err := r.whole(ctx, rows, enough)
	if err != nil || enough(whole.Bounds) {
		return whole.Bounds, err == nil, err
	}
	var mu sync.Mutex
	examine := func(ctx context.Context, p *Part) (open []*Part, err error) {
		if p.proof.start == nil || p.proof.start.worst == nil {
			return nil, tree.ErrOpen
		}
		for _, above := range []bool{false, true} {
			half, err := p.cutAt(ctx, *p.proof.start.worst, above, enough)
			if err != nil {
				return nil, err
			}
			lacks := short(half.Bounds)
			if !(lacks < 0) {
				open = append(open, half)
				continue
			}
			mu.Lock()
			if nearest == nil || lacks > short(nearest) {
				nearest = half.Bounds
			}
			mu.Unlock()
		}
		return open, nil
	}
	proven, err = (&tree.Tree[*Part]{Examine: examine, Workers: workers, Count: count}).Grow(ctx, whole)
	if !proven {
		nearest = whole.Bounds
	}
	return nearest, proven, err
}

// cutAt bounds the same rows over the inputs whose value at a kink is at least 0, or at most 0, from what is known of
// the part.
func (p *Part) cutAt(ctx context.Context, k kink, above bool, enough func([]Bound) bool) (*Part, error) {
	of := p.proof
	half := &proof{Network: of.Network, region: of.region, steps: cutSteps, cutting: true,
		known: slices.Clone(of.known), cuts: append(slices.Clone(of.cuts), cut{k, above}),
		start: of.start, wrong: of.wrong, seeds: of.seeds, apart: of.apart}
	r := *of.known[k.stage]
	r.lower, r.upper = slices.Clone(r.lower), slices.Clone(r.upper)
	if above {
		r.lower[k.value] = max(r.lower[k.value], 0)
	} else {
		r.upper[k.value] = min(r.upper[k.value], 0)
	}
	half.relax(half.stages[k.stage], &r)
	half.known[k.stage] = &r
	prog, err := of.withCuts()
	if err != nil {
		return nil, err
	}
	bounds, err := half.optimise(ctx, prog, enough)
	return &Part{Bounds: bounds, proof: half}, err
}

// end keeps what an optimisation ended with, and finds the worst kink: a coefficient that takes the upper line loses
// its intercept, one that takes the lower line what that lies below the kinked function at the nearer end (Bunel et al.
// 2020, section 5.2).
func (p *proof) end(prog *program, own *slopes) {
	p.start = &ended{make([][]float32, len(p.stages)), own.betas, nil}
	most := 0.0
	for _, s := range prog.free {
		i, size := s.index, p.size(s.output())
		slope := p.known[i].ports[slopePort]
		p.start.steps[i] = make([]float32, len(own.steps[i]))
		for k, step := range own.steps[i] {
			p.start.steps[i][k] = slope[k%size] + step
		}
		if !s.cuttable() {
			continue
		}
		for j := range size {
			if !p.turns(s, j) {
				continue
			}
			l, u := float64(p.known[i].lower[j]), float64(p.known[i].upper[j])
			loss := 0.0
			for k := j; k < len(own.outputs[i]); k += size {
				a, alpha := float64(own.outputs[i][k]), float64(p.start.steps[i][k])
				if a < 0 {
					loss -= a * (s.f(u) - float64(slope[j])*u)
				} else {
					loss += a * min((s.free[1]-alpha)*u, (s.free[0]-alpha)*l)
				}
			}
			if loss > most && !math.IsInf(loss, 0) {
				most, p.start.worst = loss, &kink{i, j}
			}
		}
	}
}
