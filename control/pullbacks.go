package control

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// pullbacks are the programs that differentiate a controller's solver step by step.
type pullbacks struct {
	stages []stagePullbacks
}

// stagePullbacks are one stage's: each from the point of its step and the cotangent of
// the result. Programs that no solver of this controller needs are nil, and those of a
// graph through which no gradient passes, as a quantiser's.
type stagePullbacks struct {
	segment   *ort.Program // z, g → J_Fᵀg
	embedding *ort.Program // z, g → J_Eᵀg
	second    secondOrder
	// FLOPs of one pass of each.
	segmentCost, embeddingCost, secondCost int64
}

// secondOrder differentiates a gradient step: z, p, g → the gradients of g·∇_z H(z, p) by
// z and by p, of which either may not exist. At the last controlled stage, where p is 0
// and no input, it is z, g → the gradient by z.
type secondOrder struct {
	program            *ort.Program // nil where neither gradient exists
	byState, byAdjoint bool
}

// newPullbacks compiles what the tape of a controller needs.
func newPullbacks(c *Controller) (*pullbacks, error) {
	p := &pullbacks{stages: make([]stagePullbacks, len(c.stages))}
	for t, s := range c.stages {
		if t > c.last {
			break
		}
		if err := p.stages[t].compile(c, t, s); err != nil {
			p.close()
			return nil, fmt.Errorf("control %s, model %s, segment %d: %w", c.Name, c.net.Name, t, err)
		}
	}
	return p, nil
}

func (b *stagePullbacks) compile(c *Controller, t int, s *stage) error {
	var err error
	// Programs are made of the form that runs, costs are counted on the form that was given.
	compiled := func(fast, plain func() (*onnx.Graph, error), program **ort.Program, flops *int64) {
		if err != nil {
			return
		}
		var f, g *onnx.Graph
		if f, err = fast(); errors.As(err, new(grad.IndependentError)) {
			err = nil // no cotangent ever passes
			return
		}
		if err != nil || f == nil {
			return
		}
		if g, err = plain(); err != nil {
			return
		}
		*flops = g.FLOPs()
		*program, err = compile(c.net.pool, f)
	}
	pullback := func(g *onnx.Graph) func() (*onnx.Graph, error) {
		return func() (*onnx.Graph, error) { return hamiltonian(g, nil) }
	}
	if t < c.last {
		compiled(pullback(s.fast), pullback(s.plain), &b.segment, &b.segmentCost)
	}
	if s.embedding != nil {
		compiled(pullback(s.fastEmbedding), pullback(s.embedding), &b.embedding, &b.embeddingCost)
	}
	if !c.Solver.Iterates() || t < c.first {
		return err
	}
	fast, plain := s.fast, s.plain
	if t == c.last {
		fast, plain = nil, nil
	}
	compiled(func() (*onnx.Graph, error) {
		g, by, err := hessian(fast, s.fastEmbedding)
		b.second.byState, b.second.byAdjoint = slices.Contains(by, "z"), slices.Contains(by, "p")
		return g, err
	}, func() (*onnx.Graph, error) {
		g, _, err := hessian(plain, s.embedding)
		return g, err
	}, &b.second.program, &b.secondCost)
	return err
}

// hessian differentiates [hamiltonian]'s gradient dz once more: inputs z, p where there
// is a segment, and g; outputs the gradients of g·dz by those of z and p on which dz
// depends, which it names. Where dz depends on neither the graph is nil: a linear
// segment's gradient is constant.
func hessian(segment, embedding *onnx.Graph) (*onnx.Graph, []string, error) {
	h, err := hamiltonian(segment, embedding)
	if err != nil {
		return nil, nil, err
	}
	var by []string
	for _, in := range h.Inputs {
		by = append(by, in.Name)
	}
	for len(by) > 0 {
		b := &onnx.Builder{G: onnx.NewGraph(h.Name + "/second")}
		bind := map[string]string{}
		for _, in := range h.Inputs {
			bind[in.Name] = b.Input(in.Name, in.Shape)
		}
		g := b.Input("g", h.Outputs[0].Shape)
		dz := b.Inline(h, bind)[h.Outputs[0].Name]
		b.Prefix = "second/"
		gradients, err := grad.Backward(b, map[string]string{dz: g}, by)
		var independent grad.IndependentError
		if errors.As(err, &independent) {
			by = slices.DeleteFunc(by, func(s string) bool { return s == independent.Tensor })
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for _, name := range by {
			b.Output(b.G.Fresh("d"+name), gradients[name])
		}
		if err := b.Err(); err != nil {
			return nil, nil, err
		}
		b.G.Prune()
		return b.G, by, b.G.Verify()
	}
	return nil, nil, nil
}

func (p *pullbacks) close() {
	for _, s := range p.stages {
		for _, program := range []*ort.Program{s.segment, s.embedding, s.second.program} {
			if program != nil {
				program.Close()
			}
		}
	}
}
