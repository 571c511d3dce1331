package attacktest

import (
	"context"

	"selfheal/attacks"
)

// spy sees every point and loss that an attack asks about.
type spy struct {
	attacks.Oracle
	visit func(x []float32)
	climb func(attacks.Loss)
}

func (s *spy) Logits(ctx context.Context, x, out []float32) error {
	if s.visit != nil {
		s.visit(x)
	}
	return s.Oracle.Logits(ctx, x, out)
}

func (s *spy) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	if s.visit != nil {
		s.visit(x)
	}
	if s.climb != nil {
		s.climb(loss)
	}
	return s.Oracle.Gradient(ctx, x, loss, label, target, e)
}
