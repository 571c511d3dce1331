package control

import "slices"

// tape computes with one image's values and remembers how each came about, so that afterwards a cotangent of the result
// can be carried back to the image: reverse-mode differentiation of the whole solver, adjoints and inner steps
// included, with a pass of a second-order graph for each step. It keeps states and controls only.
type tape struct {
	numbers
	backwards pullbacks
	steps     []func() error // in the order of the computation
}

// tracked is a value and its cotangent, nil standing for 0.
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

// push takes the result of a step, which back differentiates once the result's cotangent is complete; a result without
// one has no influence.
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
		t.numbers.free(out.value) // all that follows from it is rewound
		return err
	})
	return out, nil
}

// The way back needs all values.
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
	var to []*tracked // what the answer depends on
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
		if program == nil { // nothing depends on anything
			return nil
		}
		out := make([][]float32, len(to))
		for k, v := range to {
			out[k] = t.vector(len(v.value))
		}
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
