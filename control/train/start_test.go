package train

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"selfheal/control"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

// classifier returns a network of random weights on states of a shape: one matrix. Another matrix in front makes
// states out of images if the states do not have an image's shape.
func classifier(t *testing.T, state onnx.Shape) (Network, [3]int) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 1))
	matrix := func(name string, in onnx.Shape, out int64) *onnx.Graph {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		w := make([]float32, in.Items()*out)
		for i := range w {
			w[i] = float32(r.NormFloat64() / math.Sqrt(float64(in.Items())))
		}
		flat := b.Op("Flatten", b.Input("x", in))
		b.Output("y", b.Op("Gemm", flat, b.Const(onnx.FloatTensor(onnx.Shape{in.Items(), out}, w))))
		must.Do(t, b.Err())
		return b.G
	}
	n := Network{Name: "matrix", After: matrix("after", state, 5)}
	if len(state) == 4 {
		return n, [3]int{int(state[1]), int(state[2]), int(state[3])}
	}
	n.Before = matrix("before", onnx.Shape{onnx.Batch, 3, 4, 4}, state.Items())
	return n, [3]int{3, 4, 4}
}

// Embeddings of the paper's architectures that PyTorch exported, by either exporter, can be trained further. A small
// step along the gradient lowers the loss by the step times the gradient's square.
func TestStartFromExported(t *testing.T) {
	for _, name := range []string{"fcn", "unet", "segnet", "segnet-dynamo", "autoencoder", "denoising-autoencoder"} {
		t.Run(name, func(t *testing.T) {
			if name == "segnet" && !testinput.Large() {
				t.Skip("SELFHEAL_TEST_LARGE=1 runs it: segnet-dynamo is the same network")
			}
			skeleton := must.Get(os.ReadFile("../../models/zoo/skeletons/" + name + ".onnx"))(t)
			filled := must.Get(onnxtest.FillSkeleton(skeleton, 4))(t)
			data := must.Get(filled.Encode())(t)
			state := filled.Inputs[0].Shape
			e := must.Get(control.ONNXEmbedding(data, append(onnx.Shape{onnx.Batch}, state[1:]...)))(t)
			n, image := classifier(t, e.Inputs[0].Shape)
			images := Data{Shape: image, Labels: []int{0, 3}, Pixels: func(i int, out []float32) error {
				r := rand.New(rand.NewPCG(5, uint64(i)))
				for j := range out {
					out[j] = r.Float32()
				}
				return nil
			}}
			// The rate lowers the loss by about a thousandth.
			tr := trainer(t, e, []Network{n}, images, Settings{Epochs: 3, Batch: 2, Weight: 0.01, Workers: 1,
				Optimizer: SGD})
			first := must.Get(tr.Step(t.Context()))(t)
			square, still := 0.0, 0
			for _, g := range tr.sum[:len(tr.values)] {
				part := 0.0
				for _, v := range g {
					part += v * v
				}
				if square += part; part == 0 {
					still++
				}
			}
			if still > 0 {
				t.Errorf("%d of %d parameters have no gradient", still, len(tr.values))
			}
			before := first.total(0.01)
			tr.optimizer.LearningRate = 1e-3 * before / square
			if _, err := tr.Step(t.Context()); err != nil { // the same gradient again, as the rate was 0
				t.Fatal(err)
			}
			last := must.Get(tr.Step(t.Context()))(t)
			fell := (before - last.total(0.01)) / (1e-3 * before)
			t.Logf("%d parameters, loss %.4g, falls by %.4f of what the gradient says", len(tr.values), before, fell)
			if !(fell > 0.9 && fell < 1.1) {
				t.Errorf("a step lowers the loss by %.3f of what the gradient says", fell)
			}
		})
	}
}
