package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	sloped   *losses // by slopes; nil where there are none, or they can't be computed
	layer    lastLayer
	forward  *ort.Program // to logits and features
	controls func(ctx context.Context, x []float32) (in [][]float32, release func(), err error)
	gradient func(ctx context.Context, by *losses, x []float32, loss attacks.Loss, label, target int,
		e *attacks.Evaluation, readout [][]float32) error
}

// lastLayer is a network's last linear layer, which everything passes.
type lastLayer struct {
	features, out string    // tensors
	width         int       // number of features
	weights, bias []float32 // [values, features] and [values]
}

// Planted compiles the network with readouts. Errors say why it has no last linear layer.
func (n *Network) Planted() (*Planted, error) {
	p := &Planted{controls: func(_ context.Context, x []float32) ([][]float32, func(), error) {
		return [][]float32{x}, func() {}, nil
	}}
	if n.Opaque() || n.votes > 0 {
		return nil, errors.New("no readouts can be planted in a network that is a function or draws random numbers")
	}
	err := p.plant(n, n.Graph, n.Graph)
	p.gradient = func(ctx context.Context, by *losses, x []float32, loss attacks.Loss, label, target int,
		e *attacks.Evaluation, readout [][]float32) error {
		return by.gradient(ctx, x, loss, label, target, e, readout...)
	}
	return p.checked(err)
}

// Planted compiles the controlled network with readouts.
func (d *Defended) Planted() (*Planted, error) {
	p := &Planted{}
	// An iterating solver's controls are further inputs of the forward pass from the image to the logits.
	whole := d.given
	p.controls = func(_ context.Context, x []float32) ([][]float32, func(), error) {
		return [][]float32{x}, func() {}, nil
	}
	if d.c.Solver.Iterates() {
		var err error
		if whole, err = d.c.compose("/planted", 0, entering); err != nil {
			return nil, err
		}
		p.controls = func(ctx context.Context, x []float32) ([][]float32, func(), error) {
			n := &numbers{d.c, ctx}
			found, err := solve(d.c, n, x, false, nil, nil)
			if err != nil {
				return nil, nil, err
			}
			u := slices.DeleteFunc(found.u, func(u []float32) bool { return u == nil })
			return append([][]float32{x}, u...), func() { n.release(found, u...) }, nil
		}
	}
	err := p.plant(d.c.net, whole, d.given, d.detours...)
	p.gradient = func(ctx context.Context, by *losses, x []float32, loss attacks.Loss, label, target int,
		e *attacks.Evaluation, readout [][]float32) error {
		other := *d
		other.losses = by
		return other.gradient(ctx, x, loss, label, target, e, readout...)
	}
	return p.checked(err)
}

func (p *Planted) checked(err error) (*Planted, error) {
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// plant compiles the forward pass of one graph and prepares the losses of another. Both end in the same layer.
func (p *Planted) plant(n *Network, whole, part *onnx.Graph, detours ...grad.Detour) error {
	forward, layer, err := planted(whole)
	if err != nil {
		return err
	}
	p.layer = layer
	forward.Outputs = forward.Outputs[:1]
	b := &onnx.Builder{G: forward}
	b.Output("planted/features", b.Reshape(layer.features, onnx.Shape{onnx.Batch, int64(layer.width)}))
	if _, err = b.Done(); err != nil {
		return err
	}
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
	fast, err := n.rewrite(given)
	if err != nil {
		return err
	}
	p.losses = newLosses(n, given, fast, detours...)
	if len(grad.Slopes(given)) > 0 {
		p.sloped = newLosses(n, given, fast, detours...)
		p.sloped.sloped = true
		if p.sloped.Prepare(attacks.LogitDifference) != nil { // such as integers on the way
			p.sloped = nil
		}
	}
	return nil
}

// planted returns a copy of a classifier with a readout's values as further inputs in place of the last linear layer.
func planted(g *onnx.Graph) (*onnx.Graph, lastLayer, error) {
	layer, err := lastLinear(g)
	if err != nil {
		return nil, layer, err
	}
	g = g.Clone()
	g.Name += "/planted"
	values, width := int64(len(layer.bias)), int64(layer.width)
	err = g.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		if n.Outputs[0] != layer.out {
			return false
		}
		b.Prefix = "planted/"
		weights := b.Input("planted/weights", onnx.Shape{onnx.Batch, width})
		rows := b.Input("planted/rows", onnx.Shape{onnx.Batch, values})
		base := b.Input("planted/base", onnx.Shape{onnx.Batch, values})
		features := b.Reshape(layer.features, onnx.Shape{onnx.Batch, width})
		margin := b.Sum(b.Op("Mul", features, weights), []int64{1})
		readout := b.Op("Add", b.Op("Mul", margin, rows), base)
		shape := g.Shapes[layer.out]
		again := b.Reshape(readout, shape)
		b.Append(&onnx.Node{Op: "Identity", Inputs: []string{again}, Outputs: n.Outputs})
		return true
	})
	if err != nil {
		return nil, layer, err
	}
	g.Prune()
	return g, layer, g.Verify()
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

func linearOf(g *onnx.Graph, n *onnx.Node, readers map[string][]*onnx.Node) (l lastLayer, ok bool) {
	if len(n.Inputs) < 2 || n.Domain != "" {
		return l, false
	}
	w := g.Consts[n.Inputs[1]]
	x, y := g.Shapes[n.Inputs[0]], g.Shapes[n.Outputs[0]]
	if w == nil || w.DType != onnx.Float || len(x) < 2 || len(y) < 2 || x[0] != onnx.Batch || x[1] < 1 ||
		x[1:].Items() != x[1] || y[1:].Items() != y[1] {
		return l, false
	}
	l = lastLayer{features: n.Inputs[0], out: n.Outputs[0], width: int(x[1])}
	values := int(y[1])
	transposed := false // weights are [features, values]
	switch n.Op {
	case "Gemm":
		if n.Int("transA", 0) != 0 || n.Float("alpha", 1) != 1 || n.Float("beta", 1) != 1 {
			return l, false
		}
		transposed = n.Int("transB", 0) == 0
	case "MatMul":
		transposed = true
	case "Conv":
		if n.Int("group", 1) != 1 {
			return l, false
		}
	default:
		return l, false
	}
	if len(w.Floats) != values*l.width {
		return l, false
	}
	l.weights, l.bias = slices.Clone(w.Floats), make([]float32, values)
	if transposed {
		for v := range values {
			for f := range l.width {
				l.weights[v*l.width+f] = w.Floats[f*values+v]
			}
		}
	}
	bias := n.Input(2)
	if next := readers[l.out]; n.Op == "MatMul" && len(next) == 1 && next[0].Op == "Add" {
		for i, other := range next[0].Inputs {
			if c := g.Consts[other]; c != nil && c.Len() == values && next[0].Inputs[1-i] == l.out {
				bias, l.out = other, next[0].Outputs[0]
				break
			}
		}
	}
	if bias != "" {
		c := g.Consts[bias]
		if c == nil || len(c.Floats) != values {
			return l, false
		}
		copy(l.bias, c.Floats)
	}
	return l, true
}

// Features returns the number of features, the values that enter the last linear layer.
func (p *Planted) Features() int { return p.layer.width }

// Values returns what the network's own last layer gives for features: as many values as a readout has rows.
func (p *Planted) Values(features []float32) []float64 {
	z := make([]float64, len(p.layer.bias))
	for v := range z {
		z[v] = float64(p.layer.bias[v])
		for f, x := range features {
			z[v] += float64(p.layer.weights[v*p.layer.width+f]) * float64(x)
		}
	}
	return z
}

// At writes the logits under a readout, and the features, at x.
func (p *Planted) At(ctx context.Context, x []float32, r Readout, logits, features []float32) error {
	in, release, err := p.controls(ctx, x)
	if err != nil {
		return err
	}
	defer release()
	return p.net.pool.Run(ctx, p.forward, append(in, r.Weights, r.Rows, r.Base), [][]float32{logits, features})
}

// With returns the classifier that a readout makes.
func (p *Planted) With(r Readout) attacks.Oracle { return &reading{p, r} }

// Close frees the programs.
func (p *Planted) Close() {
	for _, l := range []*losses{p.losses, p.sloped} {
		if l != nil {
			l.close()
		}
	}
	if p.forward != nil {
		p.forward.Close()
	}
}

// reading is a planted classifier under one readout, an [attacks.Oracle].
type reading struct {
	*Planted
	r Readout
}

// Logits implements [attacks.Oracle].
func (o *reading) Logits(ctx context.Context, x, out []float32) error {
	return o.At(ctx, x, o.r, out, make([]float32, o.Features()))
}

// Gradient implements [attacks.Oracle].
func (o *reading) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	return o.along(ctx, o.losses, x, loss, label, target, e)
}

func (o *reading) along(ctx context.Context, by *losses, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	err := o.gradient(ctx, by, x, loss, label, target, e, [][]float32{o.r.Weights, o.r.Rows, o.r.Base})
	if err != nil {
		return fmt.Errorf("planted: %w", err)
	}
	return nil
}

// sloping is a planted classifier under one readout whose gradients follow slopes.
type sloping struct{ reading }

// Gradient implements [attacks.Oracle].
func (o *sloping) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	return o.along(ctx, o.sloped, x, loss, label, target, e)
}

// Sloping returns the classifier that a readout makes, with slopes in place of derivatives, or nil if the network has
// no operator with a slope.
func (p *Planted) Sloping(r Readout) attacks.Oracle {
	if p.sloped == nil {
		return nil
	}
	return &sloping{reading{p, r}}
}
