package certify

import (
	"context"
	"errors"

	"selfheal/attacks"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/models/bounds"
)

// Image returns a function that proves, by α-CROWN, that an image of a classifier withstands an attack; nil where the
// classifier has no bounds.
func (p *Prover) Image(t plan.Trial, who open.Classifier) (func(ctx context.Context, im attacks.Image) (bool, error),
	error) {
	n, err := p.network(who)
	if err != nil {
		if errors.As(err, new(unbounded)) {
			err = nil
		}
		return nil, err
	}
	return func(ctx context.Context, im attacks.Image) (bool, error) {
		within := region(t, im.Pixels)
		margins, err := n.Margins(ctx, bounds.AlphaCROWN, within, im.Label, bounds.Positive)
		if err != nil || !bounds.Positive(margins) {
			return false, err
		}
		return true, p.hold(ctx, who, within, im)
	}, nil
}
