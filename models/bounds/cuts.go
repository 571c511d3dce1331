package bounds

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// cut is the half of a stage's values on one side of its kink: what is bounded are the inputs whose value lies there,
// which a Lagrange multiplier β says too (Wang et al. 2021, "Beta-CROWN", equation 5).
type cut struct {
	Kink
	above bool
}

// Kink is a value of a ReLU or LeakyReLU whose sign is not known.
type Kink struct{ stage, value int }

// ended are the slopes, from 0, and multipliers that an optimisation ended with.
type ended struct {
	steps, betas [][]float32
	kinks        []Kink // those whose relaxation costs the bounds most, the worst first
}

// mostKinks is how many of the worst kinks are kept.
const mostKinks = 8

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

// Whole is [Network.Rows] by α-CROWN as the beginning of a tree of cuts at kinks.
func (n *Network) Whole(ctx context.Context, region Region, rows []float64, enough func([]Bound) bool) (*Part, error) {
	p := &proof{Network: n, region: region, steps: alphaSteps, cutting: true}
	bounds, err := p.rows(ctx, AlphaCROWN, rows, enough)
	return &Part{Bounds: bounds, proof: p}, err
}

// Kinks are those whose relaxation costs the bounds most, the worst first.
func (p *Part) Kinks() []Kink {
	if p.proof.start == nil {
		return nil
	}
	return p.proof.start.kinks
}

// Cut bounds the same rows over the inputs whose value at a kink is at least 0, or at most 0, from what is known of the
// part.
func (p *Part) Cut(ctx context.Context, k Kink, above bool, enough func([]Bound) bool) (*Part, error) {
	of := p.proof
	half := &proof{Network: of.Network, region: of.region, steps: cutSteps, cutting: true,
		known: slices.Clone(of.known), cuts: append(slices.Clone(of.cuts), cut{k, above}),
		start: of.start, wrong: of.wrong, seeds: of.seeds}
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
	bounds, err := half.optimise(ctx, prog, half.wrong, half.seeds, enough)
	return &Part{Bounds: bounds, proof: half}, err
}

// end keeps what an optimisation ended with, and finds the worst kinks: a coefficient that takes the upper line loses
// its intercept, one that takes the lower line what that lies below the kinked function at the nearer end (Bunel et al.
// 2020, "Branch and Bound for Piecewise Linear Neural Network Verification", section 5.2).
func (p *proof) end(prog *program, own *slopes) {
	type scored struct {
		Kink
		loss float64
	}
	var all []scored
	p.start = &ended{make([][]float32, len(p.stages)), own.betas, nil}
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
			if loss > 0 && !math.IsInf(loss, 0) {
				all = append(all, scored{Kink{i, j}, loss})
			}
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(b.loss, a.loss) })
	for _, k := range all[:min(len(all), mostKinks)] {
		p.start.kinks = append(p.start.kinks, k.Kink)
	}
}
