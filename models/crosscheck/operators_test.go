package crosscheck

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// image is the shape of the small graphs' input.
var image = onnx.Shape{onnx.Batch, 4, 6, 6}

// model builds a graph's bytes from its body, which returns the output.
func model(t *testing.T, body func(b *onnx.Builder, x string) string) []byte {
	t.Helper()
	b := &onnx.Builder{G: onnx.NewGraph("test")}
	x := b.Input("x", image)
	b.Output("y", body(b, x))
	must.Do(t, b.Err())
	return must.Get(b.G.Encode())(t)
}

// weights are pseudo-random constants; positive ones serve as variances.
func weights(b *onnx.Builder, positive bool, shape ...int64) string {
	v := random(uint64(len(b.G.Consts)+1), int(onnx.Shape(shape).Items()))
	if positive {
		for i := range v {
			v[i] = float32(0.5 + math.Abs(float64(v[i])))
		}
	}
	return b.Const(onnx.FloatTensor(shape, v))
}

func normalised(b *onnx.Builder, x string) string {
	scale, offset, mean := weights(b, false, 4), weights(b, false, 4), weights(b, false, 4)
	return b.Op("BatchNormalization", x, scale, offset, mean, weights(b, true, 4))
}

// flat is a matrix of x's values, [N 144].
func flat(b *onnx.Builder, x string) string { return b.OpWith("Flatten", onnx.Attrs{"axis": 1}, x) }

func square(b *onnx.Builder, x string) string {
	return b.OpWith("Gemm", onnx.Attrs{"transB": 1}, flat(b, x), weights(b, false, 7, 144), weights(b, false, 7))
}

func unary(op string) func(*onnx.Builder, string) string {
	return func(b *onnx.Builder, x string) string { return b.Op(op, x) }
}

func ofPositive(op string) func(*onnx.Builder, string) string {
	return func(b *onnx.Builder, x string) string { return b.Op(op, b.Op("Exp", x)) }
}

func binary(op string) func(*onnx.Builder, string) string {
	return func(b *onnx.Builder, x string) string {
		return b.Op(op, b.Op("Tanh", x), b.Op("Exp", x))
	}
}

func strided() onnx.Attrs {
	return onnx.Attrs{"kernel_shape": []int64{3, 3}, "pads": []int64{1, 1, 1, 1}, "strides": []int64{2, 2}}
}

// cases has a graph for every operator in the table.
var cases = map[string]func(b *onnx.Builder, x string) string{
	"Abs": unary("Abs"), "Exp": unary("Exp"), "GlobalAveragePool": unary("GlobalAveragePool"),
	"Identity": unary("Identity"), "Neg": unary("Neg"), "Relu": unary("Relu"), "Sigmoid": unary("Sigmoid"),
	"Tanh": unary("Tanh"),
	"Log":  ofPositive("Log"), "Sqrt": ofPositive("Sqrt"),
	"Add": binary("Add"), "Sub": binary("Sub"), "Mul": binary("Mul"), "Div": binary("Div"),
	"BatchNormalization": func(b *onnx.Builder, x string) string {
		// Twice of one tensor, which is read a third time.
		c := b.Op("Relu", x)
		return b.Op("Add", b.Op("Add", normalised(b, c), normalised(b, c)), c)
	},
	"Conv": func(b *onnx.Builder, x string) string {
		return b.OpWith("Conv", strided(), x, weights(b, false, 5, 4, 3, 3), weights(b, false, 5))
	},
	"Flatten": flat,
	"Gemm":    square,
	"LeakyRelu": func(b *onnx.Builder, x string) string {
		return b.OpWith("LeakyRelu", onnx.Attrs{"alpha": float32(0.3)}, x)
	},
	"MatMul": func(b *onnx.Builder, x string) string { return b.Op("MatMul", flat(b, x), weights(b, false, 144, 5)) },
	"MaxPool": func(b *onnx.Builder, x string) string {
		return b.OpWith("MaxPool", strided(), x)
	},
	"Reshape": func(b *onnx.Builder, x string) string { return b.Op("Reshape", x, b.Ints(0, 12, 12)) },
	"Softmax": func(b *onnx.Builder, x string) string {
		return b.OpWith("Softmax", onnx.Attrs{"axis": 1}, square(b, x))
	},
	"Transpose": func(b *onnx.Builder, x string) string {
		return b.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 2, 3, 1}}, x)
	},
}

func TestOperators(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(cases)), slices.Sorted(maps.Keys(operators)); !slices.Equal(got, want) {
		t.Fatalf("cases for %v, the table has %v", got, want)
	}
	for op, body := range cases {
		t.Run(op, func(t *testing.T) {
			agree(t, model(t, body), []int64{1, 4, 6, 6}, random(1, 144), random(2, 144))
		})
	}
}

func TestUnsupported(t *testing.T) {
	kernel := func(b *onnx.Builder, x string, attrs onnx.Attrs, group int64) string {
		attrs["kernel_shape"] = []int64{3, 3}
		return b.OpWith("Conv", attrs, x, weights(b, false, 4, 4/group, 3, 3))
	}
	for want, body := range map[string]func(b *onnx.Builder, x string) string{
		"Conv with group 4": func(b *onnx.Builder, x string) string { return kernel(b, x, onnx.Attrs{"group": 4}, 4) },
		"Conv with pads [1 1 0 0]": func(b *onnx.Builder, x string) string {
			return kernel(b, x, onnx.Attrs{"pads": []int64{1, 1, 0, 0}}, 1)
		},
		"Add of a tensor with itself": func(b *onnx.Builder, x string) string { return b.Op("Add", x, x) },
		"AveragePool": func(b *onnx.Builder, x string) string {
			return b.OpWith("AveragePool", onnx.Attrs{"kernel_shape": []int64{2, 2}}, x)
		},
		"Gemm without a bias": func(b *onnx.Builder, x string) string {
			return b.Op("Gemm", flat(b, x), weights(b, false, 144, 3))
		},
		"Gemm with a shared bias": func(b *onnx.Builder, x string) string {
			c := weights(b, false, 144)
			h := b.Op("Gemm", flat(b, x), weights(b, false, 144, 144), c)
			return b.Op("Gemm", h, weights(b, false, 144, 144), c)
		},
		"Softmax other than over the classes after Gemm": unary("Softmax"),
		"Identity of a constant": func(b *onnx.Builder, x string) string {
			return b.Op("Add", x, b.Op("Identity", weights(b, false, 4, 6, 6)))
		},
		"Reshape to [0 -1]": func(b *onnx.Builder, x string) string { return b.Op("Reshape", x, b.Ints(0, -1)) },
	} {
		t.Run(want, func(t *testing.T) {
			_, err := Logits(model(t, body), random(1, 144), []int64{1, 4, 6, 6})
			var lacks *ErrUnsupported
			if !errors.As(err, &lacks) || !slices.Equal(lacks.Operators, []string{want}) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What the engine refuses itself is an ErrUnsupported too; all operators are
// named in one error.
func TestRefusedByEngine(t *testing.T) {
	var lacks *ErrUnsupported
	_, err := Logits(model(t, func(b *onnx.Builder, x string) string {
		return b.Op("Mul", x, b.Op("GlobalAveragePool", x))
	}), random(1, 144), []int64{1, 4, 6, 6})
	if !errors.As(err, &lacks) || len(lacks.Operators) != 1 {
		t.Errorf("got %v", err)
	}
	_, err = Logits(model(t, func(b *onnx.Builder, x string) string {
		return b.Op("Softsign", b.Op("ThresholdedRelu", b.Op("Softsign", x)))
	}), random(1, 144), []int64{1, 4, 6, 6})
	if !errors.As(err, &lacks) || !slices.Equal(lacks.Operators, []string{"Softsign", "ThresholdedRelu"}) {
		t.Errorf("got %v", err)
	}
}
