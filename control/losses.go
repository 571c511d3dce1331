package control

import (
	"context"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// losses computes a classifier's losses and their gradients; [Network] and [Defended] embed it. A program holds the
// forward pass, the loss and the backward pass, so that a gradient takes one run.
type losses struct {
	net     *Network
	given   *onnx.Graph   // input to logits, as given; its operators decide which losses have gradients
	fast    *onnx.Graph   // the same graph as it runs; it may have further inputs after the one to differentiate by
	detours []grad.Detour // parts that the gradient does not pass through
	sloped  bool          // by slopes instead of derivatives, see [grad.Sloped]

	mu       sync.Mutex
	heads    map[attacks.Loss]head
	bySlopes *losses // see [losses.slopes]
}

// head is a program that computes the gradient of a loss. If the program serves several losses, it also says which
// input selects this one.
type head struct {
	program         *ort.Program
	choice, choices int
}

func newLosses(net *Network, given, fast *onnx.Graph, detours ...grad.Detour) *losses {
	return &losses{net: net, given: given, fast: fast, detours: detours, heads: map[attacks.Loss]head{}}
}

func (l *losses) Shape() attacks.Shape { return l.net.shape }

func (l *losses) Classes() int { return l.net.classes }

// Prepare compiles the gradient of a loss. The error names every operator without a gradient rule.
func (l *losses) Prepare(loss attacks.Loss) error {
	_, err := l.head(loss)
	return err
}

// gradient writes logits, loss and gradient at x to e. further are the values of the graph's further inputs.
func (l *losses) gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int, e *attacks.Evaluation,
	further ...[]float32) error {
	h, err := l.head(loss)
	if err != nil {
		return err
	}
	classes := l.net.classes
	e.Logits, e.Gradient = sized(e.Logits, classes), sized(e.Gradient, len(x))
	in := [][]float32{x, oneHot(classes, label)}
	switch {
	case loss.Targeted():
		in = append(in, oneHot(classes, target))
	case h.choices > 1:
		in = append(in, make([]float32, classes))
	}
	if h.choices > 1 {
		in = append(in, oneHot(h.choices, h.choice))
	}
	truth, err := l.net.Task.of(ctx)
	if err != nil {
		return err
	}
	in = append(in, truth...)
	var value [1]float32
	if err := l.net.pool.Run(ctx, h.program, append(in, further...),
		[][]float32{e.Logits, value[:], e.Gradient}); err != nil {
		return err
	}
	e.Loss = value[0]
	return nil
}

// manyWeights is the number of parameters from which one program serves all losses. A program holds its own copy of
// the weights; for a smaller network, computing the losses that nobody asked for would cost more than the copies.
// Tests set it.
var manyWeights = int64(4 << 20)

// head compiles a loss's gradient graph on first use.
func (l *losses) head(loss attacks.Loss) (h head, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.heads[loss]; ok {
		return h, nil
	}
	if l.net.Opaque() {
		return h, errOpaque
	}
	all := []attacks.Loss{loss}
	derive := func() (*onnx.Graph, error) { return grad.Loss(l.fast, loss.String(), l.detours...) }
	if l.sloped {
		derive = func() (*onnx.Graph, error) { return grad.LossBy(grad.Sloped, l.fast, loss.String(), l.detours...) }
	} else if l.net.Parameters >= manyWeights && grad.Fits(loss.String(), l.given) == nil {
		all = slices.DeleteFunc(attacks.Losses(), func(o attacks.Loss) bool {
			return grad.Fits(o.String(), l.given) != nil
		})
		derive = func() (*onnx.Graph, error) {
			g, err := grad.Losses(l.fast, onnx.Each(all, attacks.Loss.String), l.detours...)
			if err == nil {
				g.Name = l.fast.Name + "/losses"
			}
			return g, err
		}
	}
	p, err := l.net.derived(derive)
	if err != nil {
		return h, err
	}
	for i, other := range all {
		l.heads[other] = head{program: p, choice: i, choices: len(all)}
	}
	return l.heads[loss], nil
}

func (l *losses) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.heads {
		h.program.Close() // a head may occur more than once
	}
	if l.bySlopes != nil {
		l.bySlopes.close()
	}
}
