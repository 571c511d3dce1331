package crosscheck

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// reference runs a model on ONNX Runtime, one item.
func reference(t *testing.T, model []byte, items ...[]float32) [][]float32 {
	t.Helper()
	data := must.Get(must.Get(simplify.Open(model, nil, nil))(t).Encode())(t)
	pool := ort.NewPool(1, 1)
	defer pool.Close()
	p := must.Get(pool.Compile("m", data))(t)
	var outs [][]float32
	for _, x := range items {
		out := make([]float32, p.Outputs()[0].Size)
		must.Do(t, pool.Run(context.Background(), p, [][]float32{x}, [][]float32{out}))
		outs = append(outs, out)
	}
	return outs
}

// agree compares the engines on items of a model.
func agree(t *testing.T, model []byte, shape []int64, items ...[]float32) {
	t.Helper()
	for i, want := range reference(t, model, items...) {
		x := slices.Clone(items[i])
		got := must.Get(Logits(model, x, shape))(t)
		if d := Compare(got, want); !(d <= 1e-4) {
			t.Errorf("item %d: relative difference %g\n got %v\nwant %v", i, d, got, want)
		}
		if !slices.Equal(x, items[i]) {
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

// The bundled network normalises tensors that its shortcuts read too, which the
// engine would write over in a batch of one.
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
	var lacks *ErrUnsupported
	if !errors.As(err, &lacks) || !slices.Equal(lacks.Operators, []string{"AveragePool", "Constant", "Pad"}) {
		t.Errorf("got %v", err)
	}
}

// realFile reads a file of the real-input folder, which is not part of the project.
func realFile(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(testinput.Real(t, name)))(t)
}

// Whatever the bytes, there is a result or an error.
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
