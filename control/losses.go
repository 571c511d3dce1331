package control

import (
	"context"
	"sync"

	"selfheal/attacks"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// losses gives a classifier's losses and their gradients. A program holds the
// forward pass, the loss and the backward pass, so that a gradient is one run.
type losses struct {
	pool       *ort.Pool
	given      *onnx.Graph   // input to logits, as given: what its operators allow is decided on it
	fast       *onnx.Graph   // the same as it runs; may have further inputs behind the one to differentiate by
	detours    []grad.Detour // what the gradient does not see of it
	parameters int64
	classes    int
	size       int // values of the input

	mu    sync.Mutex
	heads map[attacks.Loss]*head
}

// head is what gives the gradient of a loss: a program, and where that serves
// several losses, which of them.
type head struct {
	program         *ort.Program
	graph           *onnx.Graph // of the program, for its FLOPs
	choice, choices int
}

func newLosses(pool *ort.Pool, given, fast *onnx.Graph, parameters int64, detours ...grad.Detour) *losses {
	return &losses{pool: pool, given: given, fast: fast, detours: detours, parameters: parameters,
		classes: int(given.Outputs[0].Shape.Items()), size: int(given.Inputs[0].Shape.Items()),
		heads: map[attacks.Loss]*head{}}
}

// gradient writes logits, loss and gradient at x to e; further are the values of the
// graph's further inputs.
func (l *losses) gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int, e *attacks.Evaluation,
	further ...[]float32) error {
	h, err := l.head(loss)
	if err != nil {
		return err
	}
	e.Logits, e.Gradient = sized(e.Logits, l.classes), sized(e.Gradient, l.size)
	in := [][]float32{x, oneHot(l.classes, label)}
	switch {
	case loss.Targeted():
		in = append(in, oneHot(l.classes, target))
	case h.choices > 1:
		in = append(in, make([]float32, l.classes))
	}
	if h.choices > 1 {
		in = append(in, oneHot(h.choices, h.choice))
	}
	var value [1]float32
	if err := l.pool.Run(ctx, h.program, append(in, further...),
		[][]float32{e.Logits, value[:], e.Gradient}); err != nil {
		return err
	}
	e.Loss = value[0]
	return nil
}

// manyWeights is the number of parameters from which one program serves all
// losses. A program holds its own weights, several times those of the file where
// Package optimize rewrites convolutions; for a small network the losses that are not asked for
// would cost more than that.
var manyWeights = int64(4 << 20) // a variable for tests

// head compiles a loss's gradient graph on first use.
func (l *losses) head(loss attacks.Loss) (*head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.heads[loss]; ok {
		return h, nil
	}
	if l.parameters < manyWeights || !grad.Fits(loss.String(), l.given) {
		g, err := grad.Loss(l.fast, loss.String(), l.detours...)
		if err != nil {
			return nil, err
		}
		p, err := compile(l.pool, g)
		if err != nil {
			return nil, err
		}
		l.heads[loss] = &head{program: p, graph: g}
		return l.heads[loss], nil
	}
	var all []attacks.Loss
	var names []string
	for _, other := range attacks.Losses() {
		if grad.Fits(other.String(), l.given) {
			all, names = append(all, other), append(names, other.String())
		}
	}
	g, err := grad.Losses(l.fast, names, l.detours...)
	if err != nil {
		return nil, err
	}
	g.Name = l.fast.Name + "/losses"
	p, err := compile(l.pool, g)
	if err != nil {
		return nil, err
	}
	for i, other := range all {
		l.heads[other] = &head{program: p, graph: g, choice: i, choices: len(all)}
	}
	return l.heads[loss], nil
}

func (l *losses) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.heads {
		h.program.Close() // once or more
	}
}
