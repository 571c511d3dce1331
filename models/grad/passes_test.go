package grad_test

import (
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// The gradients of the most frequent elementwise operations take few passes over the data: exactly these operators.
func TestGradientsTakeFewPasses(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *onnx.Builder, x string) string
		want  string
	}{
		{"SiLU", func(b *onnx.Builder, x string) string { return b.Op("Mul", x, b.Op("Sigmoid", x)) },
			"HardSigmoid Mul Add Mul"},
		{"SiLU, exchanged", func(b *onnx.Builder, x string) string { return b.Op("Mul", b.Op("Sigmoid", x), x) },
			"HardSigmoid Mul Add Mul"},
		{"a gate that is not SiLU", func(b *onnx.Builder, x string) string {
			return b.Op("Mul", b.Op("Sigmoid", b.Op("Neg", x)), x)
		}, "Mul Mul Sub Mul Mul Neg Add"},
		{"HardSwish in two", func(b *onnx.Builder, x string) string { return b.Op("Mul", x, b.Op("HardSigmoid", x)) },
			"Sub Mul Sub HardSigmoid Mul Add Mul"},
		{"HardSwish", func(b *onnx.Builder, x string) string { return b.Op("HardSwish", x) },
			"HardSigmoid Sub Mul Sub HardSigmoid Mul Add Mul"},
		{"a square", func(b *onnx.Builder, x string) string { return b.Op("Mul", x, x) }, "Mul Add"},
		{"ReLU", func(b *onnx.Builder, x string) string { return b.Op("Relu", x) }, "HardSigmoid Mul"},
		{"LeakyReLU", func(b *onnx.Builder, x string) string { return b.Op("LeakyRelu", x) }, "HardSigmoid Max Mul"},
		{"ReLU6", func(b *onnx.Builder, x string) string { return b.Op("Clip", x, b.Float(0), b.Float(6)) },
			"Sub Mul HardSigmoid Mul"},
		{"Clip as old exporters write ReLU", func(b *onnx.Builder, x string) string {
			return b.Op("Clip", x, b.Float(0), b.Float(3.4028235e38))
		}, "HardSigmoid Mul"},
		{"ELU", func(b *onnx.Builder, x string) string { return b.Op("Elu", x) }, "Clip Add Mul"},
		{"Gelu", func(b *onnx.Builder, x string) string { return b.Op("Gelu", x) },
			"Mul Erf HardSigmoid Mul Sub Exp Mul Add Mul"},
		{"LayerNormalization", func(b *onnx.Builder, x string) string {
			scale := b.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 2, 3, 4}))
			return b.Op("LayerNormalization", x, scale)
		}, "Sub Mul Mul Mul GlobalAveragePool GlobalAveragePool Mul Mul Mul Mul Mul Add Sub"},
	} {
		b := &onnx.Builder{G: onnx.NewGraph("test")}
		b.G.Opset = 20
		x := b.Input("x", onnx.Shape{onnx.Batch, 3, 4})
		y := c.build(b, x)
		w := b.Input("w", b.Shape(y))
		forward := len(b.G.Nodes)
		g := must.Get(grad.Backward(b, map[string]string{y: w}, []string{x}))(t)
		ops := []string{}
		for _, n := range b.G.Nodes[forward:] {
			if !n.Guard && n.Op != "Cast" { // they do not run unless there is NaN
				ops = append(ops, n.Op)
			}
		}
		if got := strings.Join(ops, " "); got != c.want || g[x] == "" {
			t.Errorf("%s: its gradient takes %s, want %s", c.name, got, c.want)
		}
	}
}
