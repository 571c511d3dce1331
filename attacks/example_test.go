package attacks_test

import (
	"context"
	"fmt"

	"selfheal/attacks"
)

// tilted is a classifier of one's own: two classes on images of 2 × 2 gray pixels, z = (Σ x − 2, 2 − Σ x).
type tilted struct{}

func (tilted) Shape() attacks.Shape { return attacks.Shape{C: 1, H: 2, W: 2} }
func (tilted) Classes() int         { return 2 }

func (tilted) Logits(_ context.Context, x, out []float32) error {
	sum := x[0] + x[1] + x[2] + x[3]
	out[0], out[1] = sum-2, 2-sum
	return nil
}

// Gradient takes the loss and ∂loss/∂logits from the loss that the attack asks for, and pulls them back to the image.
func (c tilted) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	e.Logits, e.Gradient = make([]float32, 2), make([]float32, 4)
	if err := c.Logits(ctx, x, e.Logits); err != nil {
		return err
	}
	e.Loss = float32(loss.Value(e.Logits, label, target))
	var cotangent [2]float32
	loss.Cotangent(e.Logits, label, target, cotangent[:])
	for i := range e.Gradient {
		e.Gradient[i] = cotangent[0] - cotangent[1]
	}
	return nil
}

// A classifier of one's own is attacked with AutoAttack: an image whose sum is 2.2 can lose 4 ε, which is enough from
// ε = 0.05 on.
func Example() {
	ctx, oracle := context.Background(), tilted{}
	image := attacks.Image{Pixels: []float32{0.4, 0.5, 0.6, 0.7}, Label: 0}
	for _, epsilon := range []float64{0.04, 0.06} {
		recipe, err := attacks.Setup{Kind: "autoattack", Norm: attacks.Linf}.Make(epsilon, oracle.Classes())
		if err != nil {
			fmt.Println(err)
			return
		}
		broken := ""
		for _, component := range recipe.Components {
			if err := component.Check(oracle.Classes(), oracle.Shape()); err != nil {
				fmt.Println(err)
				return
			}
			result, err := component.Perturb(ctx, oracle, image, attacks.Options{Seed: 1})
			if err != nil {
				fmt.Println(err)
				return
			}
			if result.Adversarial != nil {
				broken = component.Name()
				break
			}
		}
		fmt.Printf("epsilon %g: broken by %q\n", epsilon, broken)
	}
	// Output:
	// epsilon 0.04: broken by ""
	// epsilon 0.06: broken by "apgd-ce"
}
