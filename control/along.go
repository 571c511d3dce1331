package control

import (
	"context"

	"selfheal/attacks"
	"selfheal/models/grad"
)

// following is an oracle with the answers of another and other gradients.
type following struct {
	attacks.Oracle
	by interface {
		gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int, e *attacks.Evaluation,
			further ...[]float32) error
	}
	answer bool // whether the logits that come with the gradient are not the oracle's
}

// Gradient implements [attacks.Oracle].
func (o *following) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	if err := o.by.gradient(ctx, x, loss, label, target, e); err != nil || !o.answer {
		return err
	}
	return answered(ctx, o.Oracle, x, loss, label, target, e)
}

// Cost returns the costs by which passes are counted.
func (o *following) Cost() (cost Cost, err error) {
	if d, ok := o.by.(*Defended); ok {
		return d.Cost()
	}
	cost = Cost{1, 1, 1}
	if d, ok := o.Oracle.(*Defended); ok { // the gradient is the bare network's, the answer the control's
		cost.Logits = d.c.Passes()
		cost.Forward += cost.Logits
	}
	return cost, nil
}

// slopes returns the losses by slopes in place of derivatives, made on first use; nil if no operator needs one or none
// can be computed, such as for integers on the way.
func (l *losses) slopes() *losses {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bySlopes == nil && len(grad.Slopes(l.fast)) > 0 {
		s := newLosses(l.net, l.given, l.fast, l.detours...)
		if s.sloped = true; s.Prepare(attacks.LogitDifference) == nil {
			l.bySlopes = s
		}
	}
	return l.bySlopes
}

// Along implements [attacks.Other]: a network has slopes.
func (n *Network) Along(gradient string) (attacks.Oracle, error) {
	if gradient != attacks.Slopes || n.Opaque() {
		return nil, nil
	}
	switch s := n.slopes(); {
	case s == nil:
		return nil, nil
	case n.votes > 0:
		return &following{n, averagedBy{n, s}, false}, nil
	default:
		return &following{n, s, n.file != nil}, nil
	}
}

// Along implements [attacks.Other]: a controlled network has slopes, the gradient detached from the controls, and that
// of the bare network.
func (d *Defended) Along(gradient string) (attacks.Oracle, error) {
	switch {
	case gradient == attacks.Slopes:
		if s := d.slopes(); s != nil {
			return &following{d, d.with(s), d.c.ByFile()}, nil
		}
	case gradient == attacks.Detached && d.knows != Detached:
		detached, err := d.detach()
		if err != nil {
			return nil, err
		}
		return &following{d, detached, d.c.ByFile()}, nil
	case gradient == attacks.Bare:
		return &following{d, d.c.net.losses, true}, nil
	}
	return nil, nil
}

// detach returns the controlled network with its controls as constants, compiled on first use.
func (d *Defended) detach() (_ *Defended, err error) {
	d.compiling.Lock()
	defer d.compiling.Unlock()
	if d.detached == nil {
		d.detached, err = d.c.WhiteBox(Detached)
	}
	return d.detached, err
}

// with returns the controlled network with other losses of the same graphs.
func (d *Defended) with(l *losses) *Defended {
	return &Defended{c: d.c, losses: l, backwards: d.backwards}
}
