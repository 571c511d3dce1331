package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Readout takes the place of a network's last linear layer for one image: for features φ the layer gives
// m·Rows + Base with the margin m = Weights·φ.
type Readout struct {
	Weights    []float32 // one for each feature
	Rows, Base []float32 // one for each of the layer's values
}

// Planted is a classifier, undefended or controlled, in which each image has a [Readout] of its own. Active tests
// (Zimmermann et al. 2022) plant perturbations by it that an attack must find. Close it when done.
type Planted struct {
	*losses
	sloped           *losses // by slopes; nil where there are none, or they can't be computed
	features, values int     // sizes of the last layer's input and output
	forward          *ort.Program
	of               *Defended // nil if undefended

	others sync.Mutex
	along  map[string]*Planted // other gradients of the same readouts
}

// Planted compiles the network with readouts. Errors say why it has no last linear layer.
func (n *Network) Planted() (_ *Planted, err error) {
	if err := plantable(n); err != nil {
		return nil, err
	}
	p := &Planted{along: map[string]*Planted{}}
	return p, p.plant(n, n.Graph, n.Graph)
}

// plantable returns an error for networks in which a readout would say nothing of the network itself.
func plantable(n *Network) error {
	switch {
	case n.Opaque() || n.votes > 0:
		return errors.New("no readouts can be planted in a network that is a function or draws random numbers")
	case n.Task != nil:
		return errors.New("no readouts are planted in a network whose task is not classification")
	case n.Labels:
		return errors.New("no readouts can be planted in a network that gives classes alone")
	case n.unrounded != nil: // its attacks also follow the gradient without rounding
		return errors.New("no readouts can be planted in a file that rounds in its own kernels")
	}
	return nil
}

// Planted compiles the controlled network with readouts. Close it before d.
func (d *Defended) Planted() (_ *Planted, err error) {
	if err := plantable(d.c.net); err != nil {
		return nil, err
	}
	p, whole := &Planted{of: d, along: map[string]*Planted{}}, d.given
	if d.c.Solver.Iterates() { // its controls are inputs of the pass from the image to the logits
		if whole, err = d.c.compose("/planted", 0, entering); err != nil {
			return nil, err
		}
	}
	return p, p.plant(d.c.net, whole, d.given, d.detours...)
}

// plant compiles the passes of one graph with readouts, and the gradients of another, which ends in the same layer.
func (p *Planted) plant(n *Network, whole, part *onnx.Graph, detours ...grad.Detour) (err error) {
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	forward, l, err := planted(whole)
	if err != nil {
		return err
	}
	if p.features, p.values = l.features, l.values; p.values != n.classes && (p.values != 1 || n.classes != 2) {
		return fmt.Errorf("its last linear layer has %d values, for %d classes", p.values, n.classes)
	}
	forward.Outputs = append(forward.Outputs[:1], forward.Outputs[len(forward.Outputs)-2:]...)
	if forward, err = n.rewrite(forward); err != nil {
		return err
	}
	if p.forward, err = n.compile(forward); err != nil {
		return err
	}
	given, _, err := planted(part)
	if err != nil {
		return err
	}
	given.Outputs = given.Outputs[:len(given.Outputs)-2]
	given.Prune()
	fast, err := n.rewrite(given)
	if err != nil {
		return err
	}
	p.losses = newLosses(n, given, fast, detours...)
	p.sloped = p.losses.slopes()
	return nil
}

// lastLayer is a network's last linear layer, which everything passes.
type lastLayer struct {
	in, out          string // tensors
	features, values int    // how many numbers they have for an image
}

// planted returns a copy of a classifier with a readout's values as further inputs, in place of the last linear layer.
// Further outputs are the features and what the layer itself gives.
func planted(g *onnx.Graph) (*onnx.Graph, lastLayer, error) {
	l, err := lastLinear(g)
	if err != nil {
		return nil, l, err
	}
	g = g.Clone()
	g.Name += "/planted"
	features, values := onnx.Shape{onnx.Batch, int64(l.features)}, onnx.Shape{onnx.Batch, int64(l.values)}
	var seen, own string
	err = g.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		if n.Outputs[0] != l.out {
			return false
		}
		b.Prefix = "planted/"
		weights := b.Input("planted/weights", features)
		rows, base := b.Input("planted/rows", values), b.Input("planted/base", values)
		own = b.Reshape(b.OpWith(n.Op, n.Attrs, n.Inputs...), values)
		seen = b.Reshape(l.in, features)
		margin := b.Sum(b.Op("Mul", seen, weights), []int64{1})
		z := b.Reshape(b.Op("Add", b.Op("Mul", margin, rows), base), b.Shape(l.out))
		b.Append(&onnx.Node{Op: "Identity", Inputs: []string{z}, Outputs: n.Outputs})
		return true
	})
	if err != nil {
		return nil, l, err
	}
	b := &onnx.Builder{G: g}
	b.Output("planted/features", seen)
	b.Output("planted/values", own)
	if _, err := b.Done(); err != nil {
		return nil, l, err
	}
	g.Prune()
	return g, l, g.Verify()
}

// lastLinear finds the last linear layer of constant weights, which every path from the image to the logits passes: a
// Gemm, a MatMul, perhaps with a bias added, or a 1×1 Conv on a single position.
func lastLinear(g *onnx.Graph) (l lastLayer, err error) {
	readers := g.Consumers()
	for _, n := range slices.Backward(g.Nodes) {
		if l, ok := linearOf(g, n, readers); ok && passed(g, l.out) {
			return l, nil
		}
	}
	return l, errors.New("it has no last linear layer of constant weights that everything passes")
}

// passed reports whether every path from the inputs to the logits goes through a tensor.
func passed(g *onnx.Graph, tensor string) bool {
	reached := map[string]bool{}
	for _, in := range g.Inputs {
		reached[in.Name] = true
	}
	for _, n := range g.Nodes {
		if slices.ContainsFunc(n.Inputs, func(in string) bool { return reached[in] }) {
			for _, o := range n.Outputs {
				reached[o] = o != tensor
			}
		}
	}
	return !reached[g.Outputs[0].Name]
}

// linearOf returns the layer that a node computes, if it is linear.
func linearOf(g *onnx.Graph, n *onnx.Node, readers map[string][]*onnx.Node) (l lastLayer, ok bool) {
	if !slices.Contains([]string{"Gemm", "MatMul", "Conv"}, n.Op) || n.Domain != "" || n.Int("group", 1) != 1 {
		return l, false
	}
	x, y := g.Shapes[n.Inputs[0]], g.Shapes[n.Outputs[0]]
	if w := g.Consts[n.Inputs[1]]; w == nil || w.DType != onnx.Float || !vector(x) || !vector(y) ||
		w.Shape.Items() != x[1]*y[1] {
		return l, false
	}
	l = lastLayer{n.Inputs[0], n.Outputs[0], int(x[1]), int(y[1])}
	if next := readers[l.out]; n.Op == "MatMul" && len(next) == 1 && next[0].Op == "Add" {
		for i, other := range next[0].Inputs {
			if c := g.Consts[other]; c != nil && next[0].Inputs[1-i] == l.out {
				l.out = next[0].Outputs[0]
			}
		}
	}
	return l, true
}

// vector reports whether an image has one number for each channel.
func vector(s onnx.Shape) bool {
	return len(s) > 1 && s[0] == onnx.Batch && s[1] > 0 && s[1:].Items() == s[1]
}

// Width returns the number of features.
func (p *Planted) Width() int { return p.features }

// Blank returns a readout of zeros.
func (p *Planted) Blank() Readout {
	return Readout{make([]float32, p.features), make([]float32, p.values), make([]float32, p.values)}
}

// Features returns the features at x, the numbers that enter the last linear layer, and what that layer gives for
// them: as many values as a readout has rows.
func (p *Planted) Features(ctx context.Context, x []float32) (features, values []float32, err error) {
	return p.at(ctx, x, p.Blank(), make([]float32, p.Classes()))
}

// at writes the logits under a readout.
func (p *Planted) at(ctx context.Context, x []float32, r Readout, logits []float32) (features, values []float32,
	err error) {
	features, values = make([]float32, p.features), make([]float32, p.values)
	in, out := [][]float32{x}, [][]float32{logits, features, values}
	if p.of != nil && p.of.c.Solver.Iterates() {
		n := &numbers{p.of.c, ctx}
		found, err := solve(p.of.c, n, x, false, nil, nil)
		if err != nil {
			return nil, nil, err
		}
		controls := slices.DeleteFunc(found.u, func(u []float32) bool { return u == nil })
		defer n.release(found, controls...)
		in = append(in, controls...)
	}
	return features, values, p.net.pool.Run(ctx, p.forward, append(in, r.Weights, r.Rows, r.Base), out)
}

// With returns the classifier that a readout makes.
func (p *Planted) With(r Readout) attacks.Oracle { return &reading{p, p.losses, r} }

// Sloping returns the classifier that a readout makes, with slopes in place of derivatives, or nil if the network has
// no operator with a slope.
func (p *Planted) Sloping(r Readout) attacks.Oracle {
	if p.sloped == nil {
		return nil
	}
	return &reading{p, p.sloped, r}
}

// Close frees the programs.
func (p *Planted) Close() {
	if p.losses != nil {
		p.losses.close()
	}
	for _, other := range p.along {
		other.Close()
	}
	if p.forward != nil {
		p.forward.Close()
	}
}

// reading is a planted classifier under one readout, an [attacks.Oracle].
type reading struct {
	*Planted
	by *losses // of its gradients
	r  Readout
}

// Logits implements [attacks.Oracle].
func (o *reading) Logits(ctx context.Context, x, out []float32) error {
	_, _, err := o.at(ctx, x, o.r, out)
	return err
}

// Along implements [attacks.Other], as the classifier itself does.
func (o *reading) Along(gradient string) (attacks.Oracle, error) {
	if gradient == attacks.Slopes {
		return o.Sloping(o.r), nil
	}
	p, err := o.other(gradient)
	if p == nil || err != nil {
		return nil, err
	}
	return &following{o, p.With(o.r).(*reading), true}, nil
}

// other returns the classifier with readouts whose gradient is detached from the control, or that of the bare network;
// nil if there is none. It is compiled on first use.
func (p *Planted) other(gradient string) (other *Planted, err error) {
	p.others.Lock()
	defer p.others.Unlock()
	if p.of == nil || p.along[gradient] != nil {
		return p.along[gradient], nil
	}
	switch {
	case gradient == attacks.Bare:
		other, err = p.net.Planted()
	case gradient == attacks.Detached && p.of.knows != Detached:
		var d *Defended
		if d, err = p.of.detach(); err == nil {
			other, err = d.Planted()
		}
	}
	if other != nil && err == nil {
		p.along[gradient] = other
	}
	return other, err
}

// gradient implements what [following] needs.
func (o *reading) gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation, _ ...[]float32) error {
	return o.Gradient(ctx, x, loss, label, target, e)
}

// Gradient implements [attacks.Oracle].
func (o *reading) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	if o.of == nil {
		return o.by.gradient(ctx, x, loss, label, target, e, o.r.Weights, o.r.Rows, o.r.Base)
	}
	return o.of.with(o.by).gradient(ctx, x, loss, label, target, e, o.r.Weights, o.r.Rows, o.r.Base)
}
