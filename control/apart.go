package control

import (
	"context"
	"fmt"

	"selfheal/attacks"
	"selfheal/internal/lists"
	"selfheal/models/ort"
)

// Gap is the difference between the gradients of a network on the device that attacks use and on the CPU provider.
type Gap struct {
	// median over images of the relative ℓ2 norm of the difference, for the loss with the largest one
	median              float64
	loss                attacks.Loss
	provider, precision string
}

// String says how large the gap is.
func (g Gap) String() string {
	return fmt.Sprintf("gradients of provider %s in %s are up to %.2g of their length away from the CPU provider's "+
		"(%s)", g.provider, g.precision, g.median, g.loss)
}

// Check returns an error if attacks by these gradients would be weaker.
func (g Gap) Check() error {
	if most := ort.FindPrecision(g.precision).Apart; !(g.median <= most) {
		return fmt.Errorf("%s, more than %g: attacks would be weak", g, most)
	}
	return nil
}

// Apart compares the gradients of all losses on n images. The first network runs on the CPU provider. The gap of a
// network without gradients is 0.
func Apart(ctx context.Context, here, attacked *Network, n int, image func(i int) (attacks.Image, error)) (
	Gap, error) {
	worst := Gap{provider: attacked.pool.Target(true).Provider, precision: attacked.pool.Target(true).Precision}
	if here.Prepare(attacks.Margin) != nil || n == 0 {
		return worst, nil
	}
	for _, loss := range attacks.Losses() {
		if loss.MinClasses() > here.Classes() {
			continue
		}
		apart := make([]float64, n)
		err := ForEach(ctx, here.pool, n, 0, func(ctx context.Context, i int) error {
			im, err := image(i)
			if err != nil {
				return err
			}
			ctx = attacks.About(ctx, im)
			var of [2]attacks.Evaluation
			for k, net := range []*Network{here, attacked} {
				if err := net.Gradient(ctx, im.Pixels, loss, im.Label, (im.Label+1)%net.Classes(), &of[k]); err != nil {
					return err
				}
			}
			length := max(attacks.L2.Length(of[0].Gradient), 1e-30) // avoids a division by 0
			apart[i] = attacks.L2.Distance(of[0].Gradient, of[1].Gradient) / length
			return nil
		})
		if err != nil {
			return worst, err
		}
		if median := lists.Median(apart); !(median <= worst.median) {
			worst.median, worst.loss = median, loss
		}
	}
	return worst, nil
}
