package crosscheck

import (
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// model makes a file of images [4 6 6]. "w ~4,3,3" draws a constant of a shape.
func model(nodes string) []byte {
	f := onnxtest.New(13, -1, 4, 6, 6)
	for i, node := range strings.Split(nodes, "; ") {
		name, shape, drawn := strings.Cut(node, " ~")
		if !drawn {
			f.Node(node)
			continue
		}
		dims := onnx.Each(strings.Split(shape, ","), func(d string) int64 {
			n, _ := strconv.Atoi(d)
			return int64(n)
		})
		f.Floats(name, dims, random(uint64(i+1), int(onnx.Shape(dims).Items()))...)
	}
	return f.Bytes()
}

const (
	strided = " kernel_shape=3,3 pads=1,1,1,1 strides=2,2"
	gemm    = "w ~7,144; c ~7; Flatten x → f; Gemm f w c → "
)

// cases has a graph for every operator in the table.
var cases = map[string]string{
	// The same tensor is added to itself; a third node reads it.
	"BatchNormalization": "s ~4; b ~4; m ~4; v[4]=0.75; Relu x → c; BatchNormalization c s b m v → d; t ~4; " +
		"a ~4; n ~4; w[4]=1.25; BatchNormalization c t a n w → e; Add d e → g; Add g c → y",
	"Conv":      "w ~5,4,3,3; c ~5; Conv x w c → y" + strided,
	"Flatten":   "Flatten x → y axis=1",
	"Gemm":      gemm + "y transB=1",
	"LeakyRelu": "LeakyRelu x → y alpha=0.3",
	"MatMul":    "w ~144,5; Flatten x → f; MatMul f w → y",
	"MaxPool":   "MaxPool x → y" + strided,
	"Reshape":   "s=0,12,12; Reshape x s → y",
	"Softmax":   gemm + "z transB=1; Softmax z → y axis=1",
	"Transpose": "Transpose x → y perm=0,2,3,1",
	"Log":       "Exp x → e; Log e → y", "Sqrt": "Exp x → e; Sqrt e → y",
}

func init() {
	for _, op := range []string{"Abs", "Exp", "GlobalAveragePool", "Identity", "Neg", "Relu", "Sigmoid", "Tanh"} {
		cases[op] = op + " x → y"
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div"} {
		cases[op] = "Tanh x → t; Exp x → e; " + op + " t e → y"
	}
}

func TestOperators(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(cases)), operators; !slices.Equal(got, want) {
		t.Fatalf("cases for %v, the table has %v", got, want)
	}
	for op, nodes := range cases {
		t.Run(op, func(t *testing.T) {
			agree(t, model(nodes), []int64{1, 4, 6, 6}, random(1, 144), random(2, 144))
		})
	}
}

func TestUnsupported(t *testing.T) {
	for want, nodes := range map[string]string{
		"onnx-go lacks Conv with group 4":           "w ~4,1,3,3; Conv x w → y kernel_shape=3,3 group=4",
		"onnx-go lacks Conv with pads [1 1 0 0]":    "w ~4,4,3,3; Conv x w → y kernel_shape=3,3 pads=1,1,0,0",
		"onnx-go lacks Add of a tensor with itself": "Add x x → y",
		"onnx-go lacks AveragePool":                 "AveragePool x → y kernel_shape=2,2",
		"onnx-go lacks Gemm without a bias":         "w ~144,3; Flatten x → f; Gemm f w → y",
		"onnx-go lacks Gemm with a shared bias": "w ~144,144; v ~144,144; c ~144; Flatten x → f; Gemm f w c → h; " +
			"Gemm h v c → y",
		"onnx-go lacks Softmax other than over the classes after Gemm": "Softmax x → y",
		"onnx-go lacks Identity of a constant":                         "w ~4,6,6; Identity w → i; Add x i → y",
		"onnx-go lacks Reshape to [0 -1]":                              "s=0,-1; Reshape x s → y",
		// One error names all operators, and a refusal by the engine itself is one line too.
		"onnx-go lacks Softsign, ThresholdedRelu": "Softsign x → a; ThresholdedRelu a → b; Softsign b → y",
		"onnx-go fails: ":                         "GlobalAveragePool x → p; Mul x p → y",
	} {
		t.Run(want, func(t *testing.T) {
			_, err := Logits(model(nodes), random(1, 144), []int64{1, 4, 6, 6})
			if must.Refuse(t, err, want); err.Error() != want && want != "onnx-go fails: " {
				t.Error(err)
			}
		})
	}
}
