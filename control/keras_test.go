package control

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/onnx/simplify"
)

// Networks that Keras exports, channels last and with images in [0,255], give TensorFlow's logits and gradients;
// scripts/goldens/keras_samples.py wrote both.
func TestKerasNetworks(t *testing.T) {
	type golden struct{ Logits, Gradients [][]float64 }
	var want struct{ Plain, Mobile golden }
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/keras.json"))(t), &want))
	pool := testPool(t, 4)
	for name, g := range map[string]golden{"plain": want.Plain, "mobile": want.Mobile} {
		model := must.Get(os.ReadFile("testdata/keras_" + name + ".onnx"))(t)
		net := open(t, pool, model,
			NetworkOptions{Options: simplify.Options{Scale: 255}, Probabilities: name == "mobile"})
		must.Do(t, net.Prepare(attacks.CrossEntropy))
		if net.Shape() != (attacks.Shape{C: 3, H: 16, W: 16}) || len(g.Logits) == 0 {
			t.Fatalf("%s takes %v", name, net.Shape())
		}
		for n, logits := range g.Logits {
			x := levelsOf(n, net.Shape().Size())
			var e attacks.Evaluation
			must.Do(t, net.Gradient(t.Context(), x, attacks.CrossEntropy, n, -1, &e))
			for what, pair := range map[string]struct {
				got  []float32
				want []float64
			}{"logits": {e.Logits, logits}, "gradient": {e.Gradient, g.Gradients[n]}} {
				worst, largest := 0.0, 0.0
				for i, v := range pair.want {
					worst, largest = max(worst, math.Abs(v-float64(pair.got[i]))), max(largest, math.Abs(v))
				}
				if len(pair.got) != len(pair.want) || !(worst < 2e-5*largest) {
					t.Errorf("%s, image %d: %s off by %.2g of %.2g", name, n, what, worst, largest)
				}
			}
		}
	}
}

// levelsOf returns the pixels of the n-th image of the goldens, computed as in the script.
func levelsOf(n, size int) []float32 {
	x := make([]float32, size)
	for i := range x {
		x[i] = float32((7*i+3*(i/5)+11*n)%256) / 255
	}
	return x
}
