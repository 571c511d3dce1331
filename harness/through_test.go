package harness

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// real controls on a bundled network.
const throughControls = `
version: 1
default_suites: [s]
datasets:
  test: {format: cifar10-bin, path: models/zoo/shapes10/test.bin, limit: 4}
  train: {format: cifar10-bin, path: models/zoo/shapes10/train.bin, limit: 100}
models:
  standard: {path: models/zoo/preact_standard.onnx}
controls:
  greedy:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}},
             {at: last, embedding: {kind: onnx, path: models/zoo/hidden_ae.onnx}}]
  linear:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: linear, fit: train, rank: 40}},
             {at: last, embedding: {kind: linear, fit: train, rank: 8}}]
attacks:
  none-needed: {kind: fgsm, norm: linf, epsilon: 8/255}
suites:
  s: {dataset: test, models: [standard], controls: [greedy, linear], attacks: [none-needed], mode: whitebox-through}
`

// On a trained network with trained embeddings the gradient through greedy controls is
// that of the whole controlled loss: central differences of the judge's own answer, in
// random directions, agree to a hundredth. (Through an iterating solver differences
// say nothing on a network of ReLUs: its adjoints jump wherever one flips, and
// with them its answer. See the goldens of package control.)
func TestThroughControlGradientOnBundledNetwork(t *testing.T) {
	testinput.Runtime(t)
	p := plan(t, throughControls, 2, 8)
	r := openerOf(t, p.Config)
	set, net, _, err := r.prepare(p.Jobs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	ctx := context.Background()
	for _, name := range p.Jobs[0].Suite.Controls {
		c := must.Get(r.controller(ctx, net, p.Config.Control(name), true))(t)
		at := must.Get(oracleOf(classifier{net, c}, result.WhiteboxThrough))(t)
		for k, im := range set {
			rng := rand.New(rand.NewPCG(uint64(k), 1))
			// An image of no class: away from confident answers, where the loss is flat.
			x := make([]float32, len(im.Pixels))
			for i, v := range im.Pixels {
				x[i] = 0.8*v + 0.2*rng.Float32()
			}
			var e attacks.Evaluation
			must.Do(t, at.Gradient(ctx, x, attacks.Margin, im.Label, -1, &e))
			value := func(direction []float64, h float64) float64 {
				y := make([]float32, len(x))
				for i := range y {
					y[i] = x[i] + float32(h*direction[i])
				}
				z := must.Get(at.of.logits(ctx, y))(t)
				return -attacks.LogitMargin(z, im.Label)
			}
			direction, length, slope := make([]float64, len(x)), 0.0, 0.0
			size := attacks.L2.Length(e.Gradient)
			// Random, with a share of the gradient, whose slope stands out of the answer's
			// rounding; what this hides of an error across the gradient, the goldens show.
			for i, g := range e.Gradient {
				direction[i] = rng.NormFloat64()/math.Sqrt(float64(len(x))) + float64(g)/size
				length += direction[i] * direction[i]
			}
			for i, g := range e.Gradient {
				direction[i] /= math.Sqrt(length)
				slope += direction[i] * float64(g)
			}
			const h = 2e-3
			if difference := (value(direction, h) - value(direction,
				-h)) / (2 * h); math.Abs(difference-slope) > 1e-2*math.Abs(slope) {
				t.Errorf("%s, image %d: slope %.5g by the gradient, %.5g by differences", name, im.ID, slope,
					difference)
			}
		}
		at.close()
		c.Close()
	}
}
