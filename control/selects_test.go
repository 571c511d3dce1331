package control

import (
	"math"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// A network with a silent unit under a root has a gradient, and one that masks a class by −∞ too: by every loss.
func TestGradientsSelect(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("silent")}
	x := b.Input("x", onnx.Shape{onnx.Batch, 1, 1, 3})
	z := b.Op("Sqrt", b.Op("Relu", b.Op("Sub", b.Op("Flatten", x), b.Float(0.5))))
	weight := []float32{2, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0}
	z = b.Op("MatMul", z, b.Const(onnx.FloatTensor(onnx.Shape{3, 5}, weight)))
	b.Output("z", b.Op("Add", z, b.Const(onnx.FloatVector([]float32{0, 0.5, 0.25, 0.125, float32(math.Inf(-1))}))))
	net := open(t, testPool(t, 2), encoded(t, b), NetworkOptions{})
	for _, loss := range attacks.Losses() {
		var e attacks.Evaluation
		must.Do(t, net.Gradient(t.Context(), []float32{0.75, 0.25, 0.5}, loss, 0, 1, &e))
		cotangent := make([]float32, 5)
		loss.Cotangent(e.Logits, 0, 1, cotangent)
		want := []float32{2*cotangent[0] + cotangent[1], 0, 0} // 1/(2√¼) is 1
		if !(math.Abs(float64(e.Gradient[0]-want[0])) < 1e-6) || !slices.Equal(e.Gradient[1:3], want[1:]) ||
			!(math.Abs(float64(e.Loss)-loss.Value(e.Logits, 0, 1)) < 1e-6) {
			t.Errorf("%v: the loss is %v, the gradient %v, want %v", loss, e.Loss, e.Gradient, want)
		}
	}
}
