package control

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/internal/lists"
	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// tape computes with one image's values and records each step, so that a cotangent of the result can be carried back
// to the image afterwards. This is reverse-mode differentiation of the whole solver, adjoints and inner steps
// included; each step takes a pass of a second-order graph. The tape keeps states and controls only.
type tape struct {
	numbers
	backwards pullbacks
	steps     []func() error // in the order of the computation
}

// tracked is a value and its cotangent. A nil cotangent stands for 0.
type tracked struct {
	value, cotangent []float32
}

func (t *tape) receive(v *tracked, weight float32, g []float32) {
	if v.cotangent == nil {
		v.cotangent = t.vector(len(v.value))
		clear(v.cotangent)
	}
	for i, x := range g {
		v.cotangent[i] += float32(weight * x)
	}
}

// push records the value of a step. The way back calls back with the value's cotangent once that is complete, and
// skips a value without one.
func (t *tape) push(value []float32, err error, back func(cotangent []float32) error) (*tracked, error) {
	if err != nil {
		return nil, err
	}
	out := &tracked{value: value}
	t.steps = append(t.steps, func() (err error) {
		if out.cotangent != nil {
			err = back(out.cotangent)
		}
		t.numbers.free(out.cotangent)
		t.numbers.free(out.value) // the steps after it have been rewound
		return err
	})
	return out, nil
}

// free keeps the value: the way back needs it.
func (t *tape) free(*tracked) {}

func (t *tape) rewind() error {
	for _, step := range slices.Backward(t.steps) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *tape) ask(q question, i int, z *tracked, p **tracked) (*tracked, error) {
	back, in := &t.backwards[i], [][]float32{z.value}
	var to []*tracked // the values that the answer depends on
	if q != ascent || back.byState {
		to = append(to, z)
	}
	var adjoint *[]float32
	if p != nil {
		adjoint = &(*p).value
		in = append(in, *adjoint)
		if back.byAdjoint {
			to = append(to, *p)
		}
	}
	value, err := t.numbers.ask(q, i, z.value, adjoint)
	return t.push(value, err, func(g []float32) error {
		program := back.passes[q].program
		if program == nil { // the answer is constant
			return nil
		}
		out := lists.Map(to, func(v *tracked) []float32 { return t.vector(len(v.value)) })
		if err := t.c.net.pool.Run(t.ctx, program, append(in, g), out); err != nil {
			return err
		}
		for k, v := range to {
			t.receive(v, 1, out[k])
			t.numbers.free(out[k])
		}
		return nil
	})
}

func (t *tape) sum(terms ...term[*tracked]) *tracked {
	values := make([]term[[]float32], len(terms))
	for i, s := range terms {
		values[i] = term[[]float32]{s.weight, s.value.value}
	}
	out, _ := t.push(t.numbers.sum(values...), nil, func(g []float32) error {
		for _, s := range terms {
			t.receive(s.value, s.weight, g)
		}
		return nil
	})
	return out
}

// pullbacks are the programs that differentiate a controller's solver step by step, by stage.
type pullbacks []pullback

// pullback differentiates a stage's answers: a program for each question maps the point z and the cotangent g of the
// answer to Jᵀg. An ascent's program is of second order: it maps z, p, g to the gradients of g·∇_z H(z, p) by z and
// by p, either of which may be missing. At the last controlled stage p is not an input. A program is nil if the
// controller does not need it or no gradient passes through its graph.
type pullback struct {
	passes             passes
	byState, byAdjoint bool // the gradients that the ascent's program has
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
			return nil, nil // no gradient passes
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
			if g == s.fast { // the second derivative of the fast form
				b.byState, b.byAdjoint = slices.Contains(by, "z"), slices.Contains(by, "p")
			}
			return second, err
		},
	})
}

// hessian differentiates dz, the gradient of [graphs.hamiltonian], once more. Inputs are z, p if there is a segment,
// and g. Outputs are the gradients of g·dz by z and p, if dz depends on them; their names are returned. The graph is
// nil if dz depends on neither.
func (of graphs) hessian() (*onnx.Graph, []string, error) {
	h, err := of.hamiltonian()
	if err != nil {
		return nil, nil, err
	}
	by := onnx.Each(h.Inputs, func(in onnx.Value) string { return in.Name })
	for len(by) > 0 {
		b := &onnx.Builder{G: onnx.NewGraph(h.Name + "/second")}
		inputs := lists.Map(h.Inputs, func(in onnx.Value) string { return b.Input(in.Name, in.Shape) })
		g := b.Input("g", h.Outputs[0].Shape)
		dz := b.Call(h, inputs...)
		b.Prefix = "second/"
		gradients, err := grad.Backward(b, map[string]string{dz: g}, by)
		if independent, ok := errors.AsType[grad.IndependentError](err); ok {
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
