package control

import (
	"slices"

	"selfheal/models/ort"
)

// tape computes with one image's values and remembers how each came about, so that
// afterwards a cotangent of the result can be carried back to the image: reverse-mode
// differentiation of the whole solver, adjoints and inner steps included, with a pass of
// a second-order graph for each step. It keeps states and controls, and nothing
// of what lies within a segment or an embedding.
type tape struct {
	numbers
	backwards *pullbacks
	steps     []func() error // in the order of the computation
}

// tracked is a value and its cotangent, nil standing for 0.
type tracked struct {
	value, cotangent []float32
}

// receive adds weight·g to the cotangent.
func (v *tracked) receive(weight float32, g []float32) {
	if v.cotangent == nil {
		v.cotangent = make([]float32, len(v.value))
	}
	for i, x := range g {
		v.cotangent[i] += float32(weight * x)
	}
}

// push takes the result of a step, which back differentiates once the result's
// cotangent is complete; a result without one has no influence.
func (t *tape) push(value []float32, err error, back func(cotangent []float32) error) (*tracked, error) {
	if err != nil {
		return nil, err
	}
	out := &tracked{value: value}
	t.steps = append(t.steps, func() error {
		if out.cotangent == nil {
			return nil
		}
		g := out.cotangent
		out.cotangent = nil // no longer needed
		return back(g)
	})
	return out, nil
}

// rewind carries all cotangents back to the beginning.
func (t *tape) rewind() error {
	for _, step := range slices.Backward(t.steps) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *tape) embed(i int, z *tracked) (*tracked, error) {
	value, err := t.numbers.embed(i, z.value)
	return t.push(value, err, func(g []float32) error { return t.pull(t.backwards.stages[i].embedding, z, g) })
}

func (t *tape) segment(i int, z *tracked) (*tracked, error) {
	value, err := t.numbers.segment(i, z.value)
	return t.push(value, err, func(g []float32) error { return t.pull(t.backwards.stages[i].segment, z, g) })
}

// pull adds Jᵀg at z to z's cotangent; nothing where there is no program, as J is 0.
func (t *tape) pull(p *ort.Program, z *tracked, g []float32) error {
	if p == nil {
		return nil
	}
	dz, err := t.run(p, len(z.value), z.value, g)
	if err == nil {
		z.receive(1, dz)
	}
	return err
}

func (t *tape) ascent(i int, z *tracked, p **tracked) (*tracked, error) {
	second, in := &t.backwards.stages[i].second, [][]float32{z.value}
	var adjoint *[]float32
	var to []*tracked // what the step depends on
	if second.byState {
		to = append(to, z)
	}
	if p != nil {
		adjoint = &(*p).value
		in = append(in, *adjoint)
		if second.byAdjoint {
			to = append(to, *p)
		}
	}
	value, err := t.numbers.ascent(i, z.value, adjoint)
	return t.push(value, err, func(g []float32) error {
		if len(to) == 0 {
			return nil
		}
		out := make([][]float32, len(to))
		for k, v := range to {
			out[k] = make([]float32, len(v.value))
		}
		if err := t.c.net.pool.Run(t.ctx, second.program, append(in, g), out); err != nil {
			return err
		}
		for k, v := range to {
			v.receive(1, out[k])
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
			s.value.receive(s.weight, g)
		}
		return nil
	})
	return out
}

func (t *tape) running(bool, *tracked, *tracked, *tracked) {}
