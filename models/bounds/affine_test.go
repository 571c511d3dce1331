package bounds

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
)

// An operator's terms are as many as an output adds up of inputs, and an input gives to outputs: the numbers that are
// not 0 in a row and in a column of its matrix, or at most 16 more where sizes alone tell.
func TestTerms(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		op, nodes string
		in, out   []int64 // shapes of an item
		slack     int64
	}{
		{"Conv", "w[3,2,3,2]=1.0; Conv x w → y", []int64{2, 5, 5}, []int64{3, 3, 4}, 0},
		{"Conv", "w[6,2,2,2]=1.0; Conv x w → y group=2", []int64{4, 5, 5}, []int64{6, 4, 4}, 0},
		{"ConvTranspose", "w[2,3,2,3]=1.0; ConvTranspose x w → y", []int64{2, 4, 4}, []int64{3, 5, 6}, 0},
		{"ConvTranspose", "w[4,3,2,2]=1.0; ConvTranspose x w → y group=2", []int64{4, 4, 4}, []int64{6, 5, 5}, 0},
		{"Gemm", "w[4,3]=1.0; Gemm x w → y", []int64{4}, []int64{3}, 0},
		{"Gemm", "w[3,4]=1.0; Gemm x w → y transB=1", []int64{4}, []int64{3}, 0},
		{"MatMul", "w[4,3]=1.0; MatMul x w → y", []int64{2, 4}, []int64{2, 3}, 0},
		{"MatMul", "w[3,4]=1.0; MatMul w x → y", []int64{4, 2}, []int64{3, 2}, 0},
		{"MatMul", "w[2,3,4]=1.0; MatMul w x → y", []int64{2, 4, 1}, []int64{2, 3, 1}, 1},
		{"MatMul", "w[2,4,3]=1.0; MatMul x w → y", []int64{2, 1, 4}, []int64{2, 1, 3}, 1},
		{"GlobalAveragePool", "GlobalAveragePool x → y", []int64{2, 3, 3}, []int64{2, 1, 1}, 16},
		{"AveragePool", "AveragePool x → y kernel_shape=3,2", []int64{1, 5, 5}, []int64{1, 3, 4}, 0},
		{"CumSum", "a=1,; CumSum x a → y", []int64{5}, []int64{5}, 0},
		{"Resize", "z=4,6; Resize x _ _ z → y mode=linear axes=2,3", []int64{1, 2, 2}, []int64{1, 4, 6}, 16 + 6},
	} {
		g := onnxtest.Open(t, onnxtest.New(18, append([]int64{-1}, c.in...)...).Node(c.nodes).
			Bytes(append([]int64{-1}, c.out...)...))
		var terms [2]int64
		for _, n := range g.Nodes {
			if n.Op == c.op {
				terms[0], terms[1] = affineOperators[n.Op].terms(g, n)
			}
		}
		in, out := int(g.Inputs[0].Shape.Items()), int(g.Outputs[0].Shape.Items())
		units := make([]float32, in*in)
		for i := range in {
			units[i*in+i] = 1
		}
		rows, columns := make([]int64, out), make([]int64, in)
		for i, v := range asked(t, g)(units)[0].Data {
			if v != 0 {
				rows[i%out]++
				columns[i/out]++
			}
		}
		for k, most := range []int64{slices.Max(rows), slices.Max(columns)} {
			if terms[k] < most || terms[k] > most+c.slack {
				t.Errorf("%s: %d terms, forward and backward %v, of which %d are not 0", c.nodes, terms[k], terms, most)
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
