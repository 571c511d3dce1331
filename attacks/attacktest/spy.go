package attacktest

import (
	"context"

	"selfheal/attacks"
)

// Pass is what an attack asks an oracle.
type Pass struct {
	X        []float32
	Gradient bool // of Loss, at Target if it is targeted; else logits are asked for
	Loss     attacks.Loss
	Target   int
}

// Spy is an oracle that shows every pass before it is made.
type Spy struct {
	attacks.Oracle
	Visit func(Pass)
}

// Logits implements [attacks.Oracle].
func (s *Spy) Logits(ctx context.Context, x, out []float32) error {
	s.Visit(Pass{X: x})
	return s.Oracle.Logits(ctx, x, out)
}

// Gradient implements [attacks.Oracle].
func (s *Spy) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	s.Visit(Pass{x, true, loss, target})
	return s.Oracle.Gradient(ctx, x, loss, label, target, e)
}
