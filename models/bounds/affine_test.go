package bounds

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// An operator's terms are as many as an output adds up of inputs, and an input gives to outputs: the numbers that are
// not 0 in a row and in a column of its matrix, or at most 16 more where sizes alone tell.
func TestTerms(t *testing.T) {
	testinput.Runtime(t)
	ones := func(f onnxtest.File, shape ...int64) onnxtest.File {
		w := make([]float32, onnx.Shape(shape).Items())
		for i := range w {
			w[i] = 1 + float32(i)/8
		}
		return f.Floats("w", shape, w...)
	}
	for _, c := range []struct {
		name, op string
		file     onnxtest.File
		shape    []int64 // of an item
		slack    int64
	}{
		{"convolution", "Conv", ones(onnxtest.New(17, -1, 2, 5, 5), 3, 2, 3, 2).Node("Conv x w → y"),
			[]int64{3, 3, 4}, 0},
		{"of groups", "Conv", ones(onnxtest.New(17, -1, 4, 5, 5), 6, 2, 2, 2).Node("Conv x w → y group=2"),
			[]int64{6, 4, 4}, 0},
		{"transposed", "ConvTranspose", ones(onnxtest.New(17, -1, 2, 4, 4), 2, 3, 2, 3).Node("ConvTranspose x w → y"),
			[]int64{3, 5, 6}, 0},
		{"transposed, of groups", "ConvTranspose", ones(onnxtest.New(17, -1, 4, 4, 4), 4, 3, 2, 2).
			Node("ConvTranspose x w → y group=2"), []int64{6, 5, 5}, 0},
		{"Gemm", "Gemm", ones(onnxtest.New(17, -1, 4), 4, 3).Node("Gemm x w → y"), []int64{3}, 0},
		{"Gemm, transposed", "Gemm", ones(onnxtest.New(17, -1, 4), 3, 4).Node("Gemm x w → y transB=1"), []int64{3}, 0},
		{"MatMul", "MatMul", ones(onnxtest.New(17, -1, 2, 4), 4, 3).Node("MatMul x w → y"), []int64{2, 3}, 0},
		{"MatMul from the left", "MatMul", ones(onnxtest.New(17, -1, 4, 2), 3, 4).Node("MatMul w x → y"),
			[]int64{3, 2}, 0},
		{"MatMul from the left by a batch", "MatMul", ones(onnxtest.New(17, -1, 2, 4, 1), 2, 3,
			4).Node("MatMul w x → y"),
			[]int64{2, 3, 1}, 1},
		{"MatMul by a batch", "MatMul", ones(onnxtest.New(17, -1, 2, 1, 4), 2, 4, 3).Node("MatMul x w → y"),
			[]int64{2, 1, 3}, 1},
		{"mean", "GlobalAveragePool", onnxtest.New(17, -1, 2, 3, 3).Node("GlobalAveragePool x → y"),
			[]int64{2, 1, 1}, 16},
		{"means", "AveragePool", onnxtest.New(17, -1, 1, 5, 5).Node("AveragePool x → y kernel_shape=3,2"),
			[]int64{1, 3, 4}, 0},
		{"running sum", "CumSum", onnxtest.New(17, -1, 5).Node("a=1,; CumSum x a → y"), []int64{5}, 0},
		{"larger", "Resize", onnxtest.New(17, -1, 1, 2, 2).Floats("s", []int64{4}, 1, 1, 2, 3).
			Node("Resize x _ s → y mode=linear"), []int64{1, 4, 6}, 16 + 6},
	} {
		g := onnxtest.Open(t, c.file.Bytes(append([]int64{-1}, c.shape...)...))
		var terms [2]int64
		for _, n := range g.Nodes {
			if row, ok := affineOperators[n.Op]; ok && n.Op == c.op {
				terms[0], terms[1] = row.terms(g, n)
			}
		}
		rows, columns := map[int]int64{}, map[int]int64{}
		s := must.Get(ort.Open(c.name, must.Get(g.Encode())(t)))(t)
		in := g.Inputs[0].Shape.Single()
		for i := range int(in.Items()) {
			x := make([]float32, in.Items())
			x[i] = 1
			y := must.Get(s.Run([]ort.Tensor{{Shape: in, Data: x}}))(t)
			for j, v := range y[0].Data {
				if v != 0 {
					rows[j]++
					columns[i]++
				}
			}
		}
		s.Close()
		for k, all := range []map[int]int64{rows, columns} {
			most := int64(0)
			for _, n := range all {
				most = max(most, n)
			}
			if terms[k] < most || terms[k] > most+c.slack {
				t.Errorf("%s: %d terms, forward and backward %v, of which %d are not 0", c.name, terms[k], terms, most)
			}
		}
	}
}

// Outputs of the file outside the bounds proved for an image alone are an error that names the first.
func TestHold(t *testing.T) {
	testinput.Runtime(t)
	f := onnxtest.New(17, -1, 4).Floats("w", []int64{4, 3}, 1, -2, 3, 0.5, 1, -1, 2, 0, 1, -3, 1, 0.25)
	n := ready(t, onnxtest.Open(t, f.Node("MatMul x w → z; Relu z → y").Bytes(-1, 3)), Unit)
	x, y := []float32{0.5, 0.25, 1, 0.125}, []float64{2.25, 0, 2.28125}
	must.Do(t, n.Hold(t.Context(), x, y))
	for i := range y {
		for _, v := range []float64{y[i] + 1e-4, y[i] - 1e-4, math.NaN()} {
			other := slices.Clone(y)
			other[i] = v
			must.Refuse(t, n.Hold(t.Context(), x, other), fmt.Sprintf("output %d is proven to be from", i))
		}
	}
}

// A box is rounded inwards, and the first value that holds no float32 is told.
func TestWithin(t *testing.T) {
	tiny := 1e-12
	low, high, apart := Within([]float64{0, 0.1, math.Inf(-1), 1 + tiny, 2},
		[]float64{1, 0.1, math.Inf(1), 1 + 2*tiny, 3})
	if apart != 1 && apart != 3 {
		t.Errorf("value %d is said to hold none", apart)
	}
	if float64(low[1]) < 0.1 || float64(high[1]) > 0.1 || low[0] != 0 || high[0] != 1 || low[2] != -math.MaxFloat32 ||
		high[2] != math.MaxFloat32 {
		t.Errorf("the ends are %v, %v", low, high)
	}
	if _, _, apart := Within([]float64{0, 1 + tiny, 2}, []float64{1, 1 + 2*tiny, 3}); apart != 1 {
		t.Errorf("of three the value %d holds none, not 1", apart)
	}
	if _, _, apart := Within([]float64{0, 2}, []float64{1, 3}); apart != -1 {
		t.Errorf("value %d of whole intervals holds none", apart)
	}
}
