package ort

// Function makes a program that answer computes instead of the runtime: of n items, whose values x holds one after
// the other, it writes the results to y. It is called by several workers at once, with at most a batch of items.
func (p *Pool) Function(name string, in, out Port, answer func(x, y []float32, n int) error) (*Program, error) {
	prog := &Program{pool: p, name: name, inputs: []Port{in}, outputs: []Port{out}, on: p.on, answer: answer}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	p.programs[prog] = struct{}{}
	return prog, nil
}

// answered runs a batch of a program that a function computes.
func (p *Program) answered(batch []*request) error {
	in, out := p.inputs[0].Size, p.outputs[0].Size
	x, y := make([]float32, len(batch)*in), make([]float32, len(batch)*out)
	for j, r := range batch {
		if item := x[j*in : (j+1)*in]; r.fill != nil {
			r.fill(item)
		} else {
			copy(item, r.in[0])
		}
	}
	if err := p.answer(x, y, len(batch)); err != nil {
		return err
	}
	for j, r := range batch {
		copy(r.out[0], y[j*out:])
	}
	return nil
}
