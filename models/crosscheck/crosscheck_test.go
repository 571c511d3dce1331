package crosscheck

import (
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// agree compares the engines on items of a model.
func agree(t *testing.T, model []byte, shape []int64, items ...[]float32) {
	t.Helper()
	g := onnxtest.Open(t, model)
	for i, item := range items {
		x, want := slices.Clone(item), onnxtest.Run(t, g, item)
		got := must.Get(Logits(model, x, shape))(t)
		if d := Compare(got, want); !(d <= 1e-4) {
			t.Errorf("item %d: relative difference %g\n got %v\nwant %v", i, d, got, want)
		}
		if !slices.Equal(x, item) {
			t.Errorf("item %d was written to", i)
		}
	}
}

func random(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 3))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func TestSmallModel(t *testing.T) {
	model := must.Get(os.ReadFile(filepath.Join("testdata", "small.onnx")))(t)
	agree(t, model, []int64{1, 3, 8, 8}, random(1, 192), random(2, 192), make([]float32, 192))
}

// The bundled network normalises tensors that its shortcuts read too; in a batch of one the engine would overwrite
// them.
func TestBundledNetworks(t *testing.T) {
	for _, name := range []string{"preact_standard.onnx", "preact_robust.onnx"} {
		model := must.Get(os.ReadFile(filepath.Join("..", "zoo", name)))(t)
		agree(t, model, []int64{1, 3, 32, 32}, random(3, 3072), random(4, 3072))
	}
}

func TestRealNetwork(t *testing.T) {
	model := realFile(t, "resnet_2b.onnx")
	data := realFile(t, "cifar10-test-1000.bin")
	mean, std := []float32{0.4914, 0.4822, 0.4465}, []float32{0.2471, 0.2435, 0.2616}
	var items [][]float32
	for i := range 8 {
		x := make([]float32, 3072)
		for j, b := range data[i*3073+1 : (i+1)*3073] {
			x[j] = (float32(b)/255 - mean[j/1024]) / std[j/1024]
		}
		items = append(items, x)
	}
	agree(t, model, []int64{1, 3, 32, 32}, items...)
}

func TestRealNetworkUnsupported(t *testing.T) {
	_, err := Logits(realFile(t, "rn18w16_standard.onnx"), make([]float32, 3072), []int64{1, 3, 32, 32})
	must.Refuse(t, err, "onnx-go lacks AveragePool, Constant, Pad")
}

// realFile reads a file of the real-input folder, which is not part of the project.
func realFile(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(testinput.Real(t, name)))(t)
}

// Any bytes give a result or an error.
func TestBrokenModels(t *testing.T) {
	model := must.Get(os.ReadFile(filepath.Join("testdata", "small.onnx")))(t)
	x, shape := random(1, 192), []int64{1, 3, 8, 8}
	for _, cut := range []int{0, 1, 40, 500, len(model) / 2, len(model) - 1} {
		if _, err := Logits(model[:cut], x, shape); err == nil {
			t.Errorf("%d of %d bytes: no error", cut, len(model))
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		broken := slices.Clone(model)
		for range 1 + r.IntN(3) {
			// Most bytes are weights; the structure is in the first few hundred.
			broken[r.IntN(900)] = byte(r.Uint32())
		}
		if out, err := Logits(broken, x, shape); err != nil && (out != nil || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%v beside %v", out, err)
		}
	}
	for _, s := range [][]int64{nil, {192}, {3, 8, 8}, {2, 3, 8, 4}, {1, 3, 8, 9}} {
		_, err := Logits(model, x, s)
		must.Refuse(t, err, "192 values for one item")
	}
	_, err := Logits(model, random(1, 108), []int64{1, 3, 6, 6})
	must.Refuse(t, err, `for input "x" of shape [1 3 8 8]`)
}

func TestCompare(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		a, b []float32
		want float64
	}{
		{nil, nil, 0},
		{[]float32{0, 0}, []float32{0, 0}, 0},
		{[]float32{1, -4}, []float32{1, -3}, 0.25},
		{[]float32{0, 2}, []float32{0.5, 1}, 0.5},
		{[]float32{1}, []float32{1, 2}, math.Inf(1)},
		{[]float32{nan}, []float32{nan}, math.Inf(1)},
		{[]float32{1, nan, 1}, []float32{1, 1, 1}, math.Inf(1)},
		{[]float32{inf}, []float32{inf}, math.Inf(1)},
		{[]float32{inf}, []float32{1}, math.Inf(1)},
	} {
		if got := Compare(c.a, c.b); got != c.want {
			t.Errorf("Compare(%v, %v) = %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

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

// weights makes pseudo-random constants; positive ones serve as variances.
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

// flat returns a matrix of x's values, [N 144].
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
		// Add the same tensor to itself; a third node reads it.
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
	if got, want := slices.Sorted(maps.Keys(cases)), operators; !slices.Equal(got, want) {
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
			if err == nil || err.Error() != "onnx-go lacks "+want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A refusal by the engine itself is one line too; one error names all operators.
func TestRefusedByEngine(t *testing.T) {
	_, err := Logits(model(t, func(b *onnx.Builder, x string) string {
		return b.Op("Mul", x, b.Op("GlobalAveragePool", x))
	}), random(1, 144), []int64{1, 4, 6, 6})
	must.Refuse(t, err, "onnx-go fails: ")
	_, err = Logits(model(t, func(b *onnx.Builder, x string) string {
		return b.Op("Softsign", b.Op("ThresholdedRelu", b.Op("Softsign", x)))
	}), random(1, 144), []int64{1, 4, 6, 6})
	must.Refuse(t, err, "onnx-go lacks Softsign, ThresholdedRelu")
}
