package control

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/internal/number"
	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// Knowledge says whether a white-box attacker's gradient includes the controls.
type Knowledge int

// The ways to take a gradient of a controlled network.
const (
	// Detached takes every control as a constant, as the paper's own code does. This is backward pass differentiable
	// approximation: the identity replaces each controlled state z_t(x_t) (Athalye et al. 2018, section 4.1).
	Detached Knowledge = iota
	// Through also differentiates the controls, for msa and pmp through every step of the solver.
	Through
)

// Defended is a controlled network for a white-box attacker, an [attacks.Oracle].
type Defended struct {
	c *Controller
	// One run differentiates the greedily controlled network; with Detached the gradient passes around its
	// embeddings. For an iterating solver it differentiates the network with its controls as further inputs or, with
	// Through, the network from the last controlled state on.
	*losses
	backwards pullbacks // for an iterating solver with Through; otherwise nil
	knows     Knowledge

	compiling sync.Mutex
	detached  *Defended // made on first use, see [Defended.detach]
}

// WhiteBox compiles the gradients of a controlled network. Errors name operators without a gradient rule. Close it
// when done, before the controller.
func (c *Controller) WhiteBox(k Knowledge) (*Defended, error) {
	d := &Defended{c: c, knows: k}
	name, from := "/detached", 0
	var detours []grad.Detour
	enter := entering
	switch iterates := c.Solver.Iterates(); {
	case iterates && k == Through:
		name, from, enter = "/tail", c.last, nil
		var err error
		if d.backwards, err = newPullbacks(c); err != nil {
			return nil, err
		}
	case k == Through:
		name, enter = "/greedy", c.greedy
	case !iterates:
		enter = func(b *onnx.Builder, t int, x string) string {
			z := b.Op("Add", x, b.Op("Sub", c.greedy(b, t, x), x))
			detours = append(detours, grad.Detour{From: x, To: z})
			return z
		}
	}
	fail := func(err error) (*Defended, error) {
		d.Close()
		return nil, fmt.Errorf("control %s, model %s: %w", c.Name, c.net.Name, err)
	}
	g, err := c.compose(name, from, enter)
	if err != nil {
		return fail(err)
	}
	for _, way := range detours {
		for _, name := range []string{way.From, way.To} {
			if name != g.Inputs[0].Name {
				g.Outputs = append(g.Outputs, onnx.Value{Name: name, DType: onnx.Float, Shape: g.Shapes[name]})
			}
		}
	}
	fast, err := c.net.rewrite(g)
	if err != nil {
		return fail(err)
	}
	d.losses = newLosses(c.net, g, fast, detours...)
	return d, nil
}

// entering adds a control, which is a further input.
func entering(b *onnx.Builder, t int, x string) string {
	return b.Op("Add", x, b.Input(fmt.Sprintf("u%d", t), b.Shape(x)))
}

func (c *Controller) greedy(b *onnx.Builder, t int, x string) string {
	b.Prefix = fmt.Sprintf("E%d/", t)
	defer func() { b.Prefix = "" }()
	return b.Call(c.stages[t].plain.embedding, x)
}

// compose chains the segments from segment from on to the logits. enter, unless nil, makes the controlled state z_t
// from x_t.
func (c *Controller) compose(name string, from int,
	enter func(b *onnx.Builder, t int, x string) string) (*onnx.Graph, error) {
	b := &onnx.Builder{G: onnx.NewGraph(c.net.Name + "/" + c.Name + name)}
	first := c.stages[from].plain.segment.Inputs[0]
	x, further := b.Input(first.Name, first.Shape), []string(nil)
	for _, in := range c.stages[len(c.stages)-1].plain.segment.Inputs[1:] { // the truth of a task's head
		further = append(further, b.Input(in.Name, in.Shape))
	}
	for t := from; t < len(c.stages); t++ {
		if c.stages[t].controlled() && enter != nil {
			x = enter(b, t, x)
		}
		s := c.stages[t].plain.segment
		x = b.Call(s, append([]string{x}, further[:len(s.Inputs)-1]...)...)
	}
	b.Output(b.G.Fresh("logits"), x)
	return b.Done()
}

// Close frees the programs that [Controller.WhiteBox] compiled.
func (d *Defended) Close() {
	if d.losses != nil {
		d.losses.close()
	}
	if d.detached != nil {
		d.detached.Close()
	}
	d.backwards.close()
}

// Logits implements [attacks.Oracle].
func (d *Defended) Logits(ctx context.Context, x, out []float32) error {
	return d.c.Logits(ctx, x, out)
}

// Gradient implements [attacks.Oracle].
func (d *Defended) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	if err := d.gradient(ctx, x, loss, label, target, e); err != nil || !d.c.ByFile() {
		return err
	}
	return answered(ctx, d, x, loss, label, target, e)
}

// gradient implements Gradient with the opened network's answers. further are values of the losses' last inputs.
func (d *Defended) gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation, further ...[]float32) error {
	n := &numbers{d.c, ctx}
	switch {
	case !d.c.Solver.Iterates():
		return d.losses.gradient(ctx, x, loss, label, target, e, further...)
	case d.backwards == nil:
		p, err := solve(d.c, n, x, false, nil, nil)
		if err != nil {
			return err
		}
		controls := slices.DeleteFunc(p.u, func(u []float32) bool { return u == nil })
		err = d.losses.gradient(ctx, x, loss, label, target, e, slices.Concat(controls, further)...)
		n.release(p, controls...)
		return err
	}
	t := &tape{numbers: *n, backwards: d.backwards}
	image := &tracked{value: x}
	p, err := solve(d.c, t, image, false, nil, nil)
	if err != nil {
		return err
	}
	last := p.z[d.c.last]
	var end attacks.Evaluation
	if err := d.losses.gradient(ctx, last.value, loss, label, target, &end, further...); err != nil {
		return err
	}
	t.receive(last, 1, end.Gradient)
	if err := t.rewind(); err != nil {
		return err
	}
	e.Logits, e.Loss = append(e.Logits[:0], end.Logits...), end.Loss
	e.Gradient = sized(e.Gradient, len(x))
	clear(e.Gradient)
	copy(e.Gradient, image.cotangent) // nil stands for 0
	t.numbers.free(image.cotangent)
	return nil
}

// Cost is the cost of an oracle's answers, by FLOPs of the networks as given. Logits and the forward part of a
// gradient are in forward passes of the undefended network, the backward part in its backward passes.
type Cost struct{ Logits, Forward, Backward float64 }

// Cost returns the costs by which passes are counted.
func (d *Defended) Cost() (Cost, error) {
	c := d.c
	plain, err := c.net.losses.flops()
	if err != nil {
		return Cost{}, err
	}
	own, err := d.losses.flops()
	if err != nil {
		return Cost{}, err
	}
	forward := d.given.FLOPs()
	backward := own - forward
	if c.Solver.Iterates() {
		solving := c.count(false)
		forward = number.Sum(forward, solving.flops(c))
		for t, b := range d.backwards {
			backward = number.Sum(backward, b.passes.flops(solving[t]))
		}
	}
	unit := c.net.FLOPs()
	return Cost{c.Passes(), float64(forward) / float64(unit), float64(backward) / float64(plain-unit)}, nil
}

// flops returns the operations of a loss with its gradient, for the network as given.
func (l *losses) flops() (int64, error) {
	g, err := grad.Loss(l.given, attacks.CrossEntropy.String(), l.detours...)
	if err != nil {
		return 0, err
	}
	return g.Unguarded().FLOPs(), nil
}
