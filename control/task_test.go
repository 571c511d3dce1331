package control

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/heads"
	"selfheal/models/onnx"
)

// steep opens a network of two values that are steep functions of an image's pixels, under a task.
func steep(t *testing.T, last string, task heads.Task) (*Network, error) {
	b := &onnx.Builder{G: onnx.NewGraph("steep")}
	x := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 2, 3}))
	y := b.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, b.Const(weights(rand.New(rand.NewPCG(3, 2)), 25, 2, 6)))
	if last != "" {
		y = b.Op(last, y)
	}
	b.Output("y", y)
	n, err := NewNetwork(testPool(t, 4), "steep", encoded(t, b), NetworkOptions{Task: task})
	if err == nil {
		t.Cleanup(n.Close)
	}
	return n, err
}

// slopeOf returns the length of the loss's gradient at an image with a truth.
func slopeOf(t *testing.T, n *Network, x, truth []float32) float64 {
	ctx := attacks.About(context.Background(), attacks.Image{Pixels: x, Truth: truth})
	e := attacks.Evaluation{Logits: make([]float32, 2), Gradient: make([]float32, len(x))}
	must.Do(t, n.Gradient(ctx, x, attacks.CrossEntropy, heads.Right, -1, &e))
	return attacks.L2.Length(e.Gradient)
}

// The gradient of an answer far on its side is small, but not lost in rounding: neither in a head of one's own whose
// margin is the first score, nor behind a Sigmoid. The answers stay probabilities.
func TestGradientsFarFromTheThreshold(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("head")}
	y := b.Input("answer", onnx.Shape{onnx.Batch, 2})
	off := b.Op("Sub", y, b.Input("truth", onnx.Shape{onnx.Batch, 2}))
	b.Output("scores", b.Op("Mul", off, b.Const(onnx.FloatTensor(onnx.Shape{1, 2}, []float32{1, 0}))))
	own := must.Get(steep(t, "", heads.Task{File: &onnx.File{Data: encoded(t, b)}, Settings: heads.Settings{
		Kind: heads.Own}}))(t)
	labels := heads.Task{Settings: heads.Settings{Kind: heads.MultiLabel, Threshold: 0.3}}
	sigmoid := must.Get(steep(t, "Sigmoid", labels))(t)
	labels.Threshold = math.Log(0.3 / 0.7)
	plain := must.Get(steep(t, "", labels))(t)
	far, ctx, r := 0, context.Background(), rand.New(rand.NewPCG(3, 4))
	for range 20 {
		x, z, truth := make([]float32, 6), make([]float32, 2), []float32{0, 0}
		for i := range x {
			x[i] = r.Float32()
		}
		about := attacks.About(ctx, attacks.Image{Pixels: x, Truth: truth})
		must.Do(t, own.CopyLogits(about, x, z))
		if margin := z[heads.Right] - z[heads.Wrong]; margin > 17 && margin < 60 {
			if far++; slopeOf(t, own, x, truth) == 0 {
				t.Errorf("no gradient at the margin %v", margin)
			}
			truth = []float32{1, -1}
			if a, b := slopeOf(t, sigmoid, x, truth), slopeOf(t, plain, x, truth); a == 0 || a != b {
				t.Errorf("the gradient behind a Sigmoid has length %v, without it %v", a, b)
			}
		}
		must.Do(t, sigmoid.Task.Scores(about, []float64{0.29, 0.1}, z))
		if z[heads.Right] <= z[heads.Wrong] {
			t.Errorf("0.29 is above 0.3: %v", z)
		}
	}
	if far < 3 {
		t.Errorf("%d images are far", far)
	}
	last := sigmoid.Task.before(sigmoid.Graph)
	if made := last.Producers()[last.Outputs[0].Name]; made.Op != "Sigmoid" {
		t.Errorf("without its head the network ends in %s", made.Op)
	}
	_, err := sigmoid.Cut(At{Tensor: sigmoid.Task.answer.Name})
	must.Refuse(t, err, "is not a tensor at which the network can be cut before its answer")
	labels.Threshold = 0
	_, err = steep(t, "Sigmoid", labels)
	must.Refuse(t, err, "between 0 and 1, such as threshold: 0.5")
}
