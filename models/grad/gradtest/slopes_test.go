package gradtest

import (
	"math"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Each slope agrees with its formula, in place of a derivative that is 0 or stops. Other operators keep their rules.
func TestSlopes(t *testing.T) {
	kernel := func(d float64) float64 { return 1 / math.Pow(1+10*math.Abs(d), 2) }
	float := func(b *onnx.Builder, x string) string {
		return b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, x)
	}
	compared := func(op string) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string { return float(b, b.Op(op, x, b.Float(0.25))) }
	}
	one := func(op string) func(b *onnx.Builder, x string) string {
		return func(b *onnx.Builder, x string) string { return b.Op(op, x) }
	}
	positive := func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return 0
	}
	joined := func(op string) func(b *onnx.Builder, x string) string { // x > 0.25 with itself
		return func(b *onnx.Builder, x string) string {
			return float(b, b.Op(op, b.Op("Greater", x, b.Float(0.25)), b.Op("Greater", x, b.Float(0.25))))
		}
	}
	placed := func(op string) func(b *onnx.Builder, x string) string { // among x, 2x and 0, by a new last axis
		return func(b *onnx.Builder, x string) string {
			x = b.Op("Unsqueeze", x, b.Ints(2))
			all := b.OpWith("Concat", onnx.Attrs{"axis": int64(2)}, x, b.Op("Mul", x, b.Float(2)),
				b.Op("Mul", x, b.Float(0)))
			return float(b, b.OpWith(op, onnx.Attrs{"axis": int64(2), "keepdims": int64(0)}, all))
		}
	}
	place := func(x float64) float64 { // of the mean place by x
		a, b := math.Exp(x), math.Exp(2*x)
		p, q := a/(a+b+1), b/(a+b+1)
		mean := q + 2*(1-p-q)
		return p*(0-mean) + 2*q*(1-mean)
	}
	rises := func(x float64) float64 { return kernel(x - 0.25) }
	falls := func(x float64) float64 { return -kernel(x - 0.25) }
	straight := func(float64) float64 { return 1 }
	beyond := func(lo, hi float64) func(x float64) float64 {
		return func(x float64) float64 { return kernel(x - max(lo, min(x, hi))) }
	}
	bytes := func(b *onnx.Builder, x string) string { // 32·x + 100 as bytes
		scaled := b.Op("Add", b.Op("Mul", x, b.Float(32)), b.Float(100))
		return b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Uint8)}, scaled)
	}
	byteOf := func(v int64) *onnx.Tensor {
		return &onnx.Tensor{DType: onnx.Uint8, Shape: onnx.Shape{}, Ints: []int64{v}}
	}
	type sloped struct {
		build func(b *onnx.Builder, x string) string
		slope func(x float64) float64
		nodes int
	}
	masked := func(op string) sloped {
		return sloped{func(b *onnx.Builder, x string) string {
			return float(b, b.Op(op, bytes(b, x), b.Const(byteOf(0xe0))))
		}, func(float64) float64 { return 32 }, 3}
	}
	cases := map[string]sloped{
		"Sign": {one("Sign"), straight, 1}, "Round": {one("Round"), straight, 1}, "Floor": {one("Floor"), straight, 1},
		"Ceil":    {one("Ceil"), straight, 1},
		"Greater": {compared("Greater"), rises, 2}, "GreaterOrEqual": {compared("GreaterOrEqual"), rises, 2},
		"Less": {compared("Less"), falls, 2}, "LessOrEqual": {compared("LessOrEqual"), falls, 2},
		"Not": {func(b *onnx.Builder, x string) string {
			return float(b, b.Op("Not", b.Op("Greater", x, b.Float(0.25))))
		}, falls, 3},
		"Cast": {func(b *onnx.Builder, x string) string {
			return float(b, b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, x))
		}, straight, 2},
		"Clip": {func(b *onnx.Builder, x string) string {
			return b.Op("Clip", x, b.Float(0), b.Float(0.1))
		}, beyond(0, 0.1), 1},
		"Clip as ReLU": {func(b *onnx.Builder, x string) string {
			return b.Op("Clip", x, b.Float(0), b.Float(math.MaxFloat32))
		}, positive, 0},
		"Clip to a constant": {func(b *onnx.Builder, x string) string {
			return b.Op("Add", b.Op("Floor", x), b.Op("Clip", x, b.Float(0), b.Float(0)))
		}, straight, 1},
		"QuantizeLinear": {func(b *onnx.Builder, x string) string {
			zero := b.Const(&onnx.Tensor{DType: onnx.Uint8, Shape: onnx.Shape{}, Ints: []int64{0}})
			return b.Op("DequantizeLinear", b.Op("QuantizeLinear", x, b.Float(0.5), zero), b.Float(0.5), zero)
		}, beyond(-0.25, 127.75), 1},
		"Where": {func(b *onnx.Builder, x string) string {
			return b.Op("Where", b.Op("Less", b.Float(0.25), x), b.Op("Mul", x, b.Float(3)), b.Float(2))
		}, func(x float64) float64 {
			through := 0.0
			if x > 0.25 {
				through = 3
			}
			return through + (3*x-2)*kernel(0.25-x)
		}, 2},
		"Sigmoid": {one("Sigmoid"), func(x float64) float64 { return math.Pow(2+math.Abs(x), -2) }, 1},
		"Tanh":    {one("Tanh"), func(x float64) float64 { return math.Pow(1+math.Abs(x), -2) }, 1},
		"HardSigmoid": {func(b *onnx.Builder, x string) string {
			return b.Op("HardSigmoid", b.Op("Mul", x, b.Float(2)))
		}, func(x float64) float64 { return 0.4 * beyond(0, 1)(0.4*x+0.5) }, 1},
		"Equal": {compared("Equal"), func(x float64) float64 {
			return math.Copysign(kernel(x-0.25), 0.25-x)
		}, 2},
		"And": {joined("And"), func(x float64) float64 { return 2 * positive(x-0.25) * kernel(x-0.25) }, 4},
		"Or":  {joined("Or"), func(x float64) float64 { return 2 * (1 - positive(x-0.25)) * kernel(x-0.25) }, 4},
		"Softmax": {func(b *onnx.Builder, x string) string { // the first of 100·x, 0 and 0, by a new last axis
			x = b.Op("Unsqueeze", x, b.Ints(2))
			zero := b.Op("Mul", x, b.Float(0))
			all := b.OpWith("Concat", onnx.Attrs{"axis": int64(2)}, b.Op("Mul", x, b.Float(100)), zero, zero)
			return b.OpWith("ReduceSum", onnx.Attrs{"keepdims": int64(0)}, b.Op("Mul", b.OpWith("Softmax",
				onnx.Attrs{"axis": int64(2)}, all), b.Const(onnx.FloatVector([]float32{1, 0, 0}))), b.Ints(2))
		}, func(x float64) float64 {
			t := math.Max(1, 10*x) // the other two are equal
			p := math.Exp(100*x/t) / (math.Exp(100*x/t) + 2)
			return 100 / t * p * (1 - p)
		}, 1},
		// Places 0, 1, 2 of x, 2x and 0, as means, coded by two of them.
		"ArgMax": {placed("ArgMax"), func(x float64) float64 { return place(x) }, 2},
		"ArgMin": {placed("ArgMin"), func(x float64) float64 { return -place(-x) }, 2},
		"OneHot": {func(b *onnx.Builder, x string) string { // of 0, 1 or 2 the first two, times 5 and 7
			i := b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, b.Op("Clip", x, b.Float(0), b.Float(2)))
			code := b.OpWith("OneHot", onnx.Attrs{"axis": int64(-1)}, i, b.Ints(3), b.Const(onnx.FloatVector(
				[]float32{1, 3})))
			return b.OpWith("ReduceSum", onnx.Attrs{"keepdims": int64(0)}, b.Op("Mul", code, b.Const(onnx.FloatVector(
				[]float32{5, 7, 2}))), b.Ints(2))
		}, func(x float64) float64 {
			return []float64{2, -3, -5}[int(max(0, min(x, 2)))] * beyond(0, 2)(x)
		}, 3},
		"Gather": {func(b *onnx.Builder, x string) string { // rows of a table, the second halved
			i := b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, b.Op("Clip", x, b.Float(0), b.Float(2)))
			rows := b.Op("Gather", b.Const(onnx.FloatTensor(onnx.Shape{3, 2}, []float32{1, 2, 5, 4, 6, 0})), i)
			return b.OpWith("ReduceSum", onnx.Attrs{"keepdims": int64(0)}, b.Op("Mul", rows, b.Const(onnx.FloatVector(
				[]float32{1, 0.5}))), b.Ints(2))
		}, func(x float64) float64 {
			return []float64{2.5, 2, -0.5}[int(max(0, min(x, 2)))] * beyond(0, 2)(x)
		}, 3},
		"GatherElements": {func(b *onnx.Builder, x string) string { // x at its own places, which no slope moves
			i := b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, b.Op("Clip", x, b.Float(0), b.Float(0.5)))
			return b.OpWith("GatherElements", onnx.Attrs{"axis": int64(1)}, x, b.Op("Add", b.Ints(0, 1, 2), i))
		}, straight, 0},
		"Mod": {func(b *onnx.Builder, x string) string { // x rounded down to thirds
			return b.Op("Sub", x, b.OpWith("Mod", onnx.Attrs{"fmod": int64(1)}, x, b.Float(1./3)))
		}, straight, 1},
		"Mod alone": {func(b *onnx.Builder, x string) string {
			return b.OpWith("Mod", onnx.Attrs{"fmod": int64(1)}, x, b.Float(1./3))
		}, straight, 0},
		"Div": {func(b *onnx.Builder, x string) string { // of integers
			nine := b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, b.Op("Mul", x, b.Float(9)))
			return float(b, b.Op("Div", nine, b.Ints(2)))
		}, func(float64) float64 { return 4.5 }, 2},
		"Mul": {func(b *onnx.Builder, x string) string { // of integers
			return float(b, b.Op("Mul", b.Ints(3), b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, x)))
		}, func(float64) float64 { return 3 }, 2},
		"BitShift": {func(b *onnx.Builder, x string) string {
			return float(b, b.OpWith("BitShift",
				onnx.Attrs{"direction": "RIGHT"}, bytes(b, x), b.Const(byteOf(3))))
		}, func(float64) float64 { return 4 }, 3},
		"BitwiseAnd": masked("BitwiseAnd"), "BitwiseOr": masked("BitwiseOr"), "BitwiseXor": masked("BitwiseXor"),
		"BitwiseNot": {func(b *onnx.Builder, x string) string {
			return float(b, b.Op("BitwiseNot", bytes(b, x)))
		}, func(float64) float64 { return -32 }, 3},
		"derivative": {one("Relu"), func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return 0
		}, 0},
	}
	for _, op := range onnx.Operators() {
		if _, ok := cases[op]; grad.HasSlope(op) && !ok {
			t.Errorf("%s has a slope and no case", op)
		}
	}
	for name, c := range cases {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		x := b.Input("x", onnx.Shape{onnx.Batch, 3})
		y := c.build(b, x)
		b.Output("y", y)
		if n := len(grad.Slopes(b.G)); n != c.nodes {
			t.Errorf("%s: %d nodes have a slope, want %d", name, n, c.nodes)
		}
		w := b.Input("w", onnx.Shape{onnx.Batch, 3})
		g := must.Get(grad.BackwardBy(b, grad.Sloped, map[string]string{y: w}, []string{x}))(t)
		b.Output("gradient", g[x])
		s := must.Get(ort.OpenGraph(must.Get(b.Done())(t)))(t)
		t.Cleanup(s.Close)
		in := [][]float32{{-0.7, 0.2, 0.6, 1.3, -0.1, 0.05}, {1, -2, 0.5, 3, 1, 2}}
		shape := []int64{2, 3}
		got := must.Get(s.Run([]ort.Tensor{{Shape: shape, Data: in[0]}, {Shape: shape, Data: in[1]}}))(t)[1].Data
		for i, x := range in[0] {
			if want := c.slope(float64(x)) * float64(in[1][i]); math.Abs(float64(got[i])-want) > 1e-5 {
				t.Errorf("%s at %v: %v, want %v", name, x, got[i], want)
			}
		}
	}
}
