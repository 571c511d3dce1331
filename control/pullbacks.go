package control

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// pullbacks are the programs that differentiate a controller's solver step by step.
type pullbacks []pullback

// pullback is a stage's, a pass a question: from the point that was asked about and the cotangent g of the answer, z, g
// → Jᵀg of a segment or an embedding. An ascent's is of second order: z, p, g → the gradients of g·∇_z H(z, p) by z and
// by p, of which either may not exist; p is no input at the last controlled stage. Programs that this controller does
// not need are nil, and those of a graph through which no gradient passes.
type pullback struct {
	passes             passes
	byState, byAdjoint bool // the gradients that an ascent's has
}

func newPullbacks(c *Controller) (pullbacks, error) {
	p := make(pullbacks, len(c.stages))
	for t, s := range c.stages[:c.last+1] {
		if err := p[t].compile(c, t, s); err != nil {
			p.close()
			return nil, fmt.Errorf("control %s, model %s, segment %d: %w", c.Name, c.net.Name, t, err)
		}
	}
	return p, nil
}

func (b *pullback) compile(c *Controller, t int, s *stage) error {
	of := func(f *onnx.Graph) (*onnx.Graph, error) {
		if f == nil {
			return nil, nil
		}
		g, err := graphs{segment: f}.hamiltonian()
		if errors.As(err, new(grad.IndependentError)) {
			return nil, nil // no cotangent ever passes
		}
		return g, err
	}
	return b.passes.compile(c.net, s, [questions]builder{
		segment: func(g graphs) (*onnx.Graph, error) { return of(s.ahead(g).segment) },
		embed:   func(g graphs) (*onnx.Graph, error) { return of(g.embedding) },
		ascent: func(g graphs) (*onnx.Graph, error) {
			if !c.Solver.Iterates() || t < c.first {
				return nil, nil
			}
			second, by, err := s.ahead(g).hessian()
			if g == s.fast { // what runs
				b.byState, b.byAdjoint = slices.Contains(by, "z"), slices.Contains(by, "p")
			}
			return second, err
		},
	})
}

// hessian differentiates [graphs.hamiltonian]'s gradient dz once more: inputs z, p where there is a segment, and g;
// outputs the gradients of g·dz by those of z and p on which dz depends, which it names. The graph is nil where dz
// depends on neither.
func (of graphs) hessian() (*onnx.Graph, []string, error) {
	h, err := of.hamiltonian()
	if err != nil {
		return nil, nil, err
	}
	var by []string
	for _, in := range h.Inputs {
		by = append(by, in.Name)
	}
	for len(by) > 0 {
		b := &onnx.Builder{G: onnx.NewGraph(h.Name + "/second")}
		var inputs []string
		for _, in := range h.Inputs {
			inputs = append(inputs, b.Input(in.Name, in.Shape))
		}
		g := b.Input("g", h.Outputs[0].Shape)
		dz := b.Call(h, inputs...)
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
		out, err := b.Done()
		return out, by, err
	}
	return nil, nil, nil
}

func (p pullbacks) close() {
	for _, b := range p {
		b.passes.close()
	}
}
