package simplify_test

import (
	"path/filepath"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

const goldens = "../../grad/gradtest/testdata"

// simplified returns the operators that a golden's file becomes.
func simplified(t *testing.T, name string) string {
	t.Helper()
	g, _ := must.Get2(simplify.Load(filepath.Join(goldens, name+".onnx"), simplify.Options{}))(t)
	return onnxtest.Operators(g)
}

// What exporters write for Gelu and LayerNormalization becomes those operators,
// and composite operators become what has gradients.
func TestLoweredForms(t *testing.T) {
	for name, want := range map[string]string{
		"gelu_erf_0":               "Gelu",
		"gelu_erf_1":               "Gelu",
		"gelu_erf_2":               "Gelu",
		"erf":                      "Erf",
		"layernorm_means":          "LayerNormalization",
		"layernorm_means_axes":     "LayerNormalization",
		"layernorm_means_plain":    "LayerNormalization",
		"sub_self_broadcast":       "GlobalAveragePool Sub",
		"groupnorm":                "Reshape LayerNormalization Reshape Mul Reshape Add Reshape",
		"groupnorm_opset21":        "Reshape LayerNormalization Reshape Reshape Mul Reshape Add",
		"groupnorm_reshaped":       "Reshape LayerNormalization Reshape Mul Add",
		"einsum_linear":            "MatMul",
		"einsum_ellipsis":          "MatMul",
		"einsum_scale":             "Mul",
		"pow_square":               "Mul",
		"pow_half":                 "Sqrt",
		"pow_inverse":              "Reciprocal",
		"pow_cube":                 "Pow",
		"sum":                      "Mul Add Add",
		"mean":                     "Mul Tanh Add Add Add Mul",
		"max_three":                "Neg Max Max",
		"softmax_opset9":           "Reshape Softmax Reshape",
		"logsoftmax_opset9_matrix": "LogSoftmax",
		"softmax_axis1":            "Softmax",
		"swish":                    "Sigmoid Mul",
		"cast_output":              "Mul Identity",
		"reducel2_keep":            "Mul Transpose Reshape GlobalAveragePool Reshape Mul Clip Sqrt",
		"reducelogsumexp_keep":     "ReduceLogSumExp",
		"instancenorm":             "Reshape LayerNormalization Reshape Reshape Mul Reshape Add",
	} {
		if got := simplified(t, name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}

// The result of a lowering keeps the name that the file gives it.
func TestLoweringKeepsNames(t *testing.T) {
	g := onnxtest.Open(t, file(18, N, 3, 4).Node("LpNormalization x → norm; Neg norm → y").Bytes(N, 3, 4))
	if g.Producers()["norm"] == nil {
		t.Errorf("no tensor is called norm in %s", onnxtest.Operators(g))
	}
}

// A lowering that gives its input back leaves that tensor to its other readers.
func TestLoweringLeavesItsInput(t *testing.T) {
	f := file(18, N, 4).Node("one=1.0; Relu x → a; Pow a one → b; Neg b → c; Sub a c → y")
	if got := onnxtest.Operators(onnxtest.Open(t, f.Bytes(N, 4))); got != "Relu Neg Sub" {
		t.Errorf("becomes %s", got)
	}
}

// Operators that can't be taken apart are errors of one line.
func TestLoweringErrors(t *testing.T) {
	image := onnx.Shape{onnx.Batch, 4, 3, 3}
	for _, c := range []struct {
		op    string
		attrs onnx.Attrs
		more  []onnx.Shape // constants that follow x
		want  string
	}{
		{"Einsum", onnx.Attrs{"equation": "bcii->bci"}, nil, "diagonal"},
		{"Einsum", onnx.Attrs{"equation": "bchw->chw"}, nil, "sums over the batch"},
		{"Einsum", onnx.Attrs{"equation": "bchw,cd->bdhw"}, nil, "2 operands"},
		{"Einsum", onnx.Attrs{"equation": "bch->b"}, nil, "3 indices for an operand of shape [N 4 3 3]"},
		{"Einsum", onnx.Attrs{"equation": "bchw,cd->bdhw"}, []onnx.Shape{{5, 6}}, `index 'c' the sizes 4 and 5`},
		{"Einsum", onnx.Attrs{"equation": "bchw->bx"}, nil, "can't be read"},
		{"Einsum", onnx.Attrs{"equation": "bchw->bcc"}, nil, "can't be read"},
		{"Einsum", onnx.Attrs{"equation": "b1hw->b1"}, nil, "can't be read"},
		{"Einsum", onnx.Attrs{"equation": "......->..."}, nil, "can't be read"},
		{"Einsum", onnx.Attrs{"equation": "\ue000chw->c"}, nil, "can't be read"},
		{"Einsum", nil, nil, "0 indices"},
		{"GroupNormalization", onnx.Attrs{"num_groups": 3}, []onnx.Shape{{3}, {3}}, "4 channels into 3 groups"},
		{"GroupNormalization", nil, []onnx.Shape{{4}, {4}}, "4 channels into 0 groups"},
		{"GroupNormalization", onnx.Attrs{"num_groups": 2}, []onnx.Shape{{4}, {4}}, "not 2 values"},
		{"InstanceNormalization", nil, []onnx.Shape{{4}, {3}}, "not 4 values"},
		{"InstanceNormalization", nil, []onnx.Shape{{4}}, "has no input 2"},
		{"LayerNormalization", onnx.Attrs{"axis": -2}, []onnx.Shape{{4}}, "does not fit"},
		{"LayerNormalization", onnx.Attrs{"axis": 0}, []onnx.Shape{{3}}, "works along the batch"},
		{"LpNormalization", onnx.Attrs{"p": 3}, nil, "p = 3"},
		{"LpNormalization", onnx.Attrs{"axis": 0}, nil, "batch"},
		{"LpNormalization", onnx.Attrs{"axis": 9}, nil, "axis 9"},
		{"LRN", nil, nil, "size 0"},
		{"LRN", onnx.Attrs{"size": 1 << 40}, nil, "size"},
		{"RMSNormalization", onnx.Attrs{"axis": 0}, []onnx.Shape{{3}}, "batch"},
		{"ReduceL2", nil, nil, "reduces the batch"},
	} {
		g := onnx.NewGraph("test")
		g.Inputs = []onnx.Value{{Name: "x", DType: onnx.Float, Shape: slices.Clone(image)}}
		n := &onnx.Node{Op: c.op, Name: "n", Inputs: []string{"x"}, Outputs: []string{"y"}, Attrs: c.attrs}
		for _, shape := range c.more {
			n.Inputs = append(n.Inputs, g.AddConst("c", onnx.FloatTensor(shape, make([]float32, shape.Items()))))
		}
		g.Nodes, g.Outputs = []*onnx.Node{n}, []onnx.Value{{Name: "y", DType: onnx.Float}}
		must.Refuse(t, simplify.Graph(g), c.want)
	}
	old := onnx.NewGraph("test")
	old.Opset = 11
	old.Inputs = []onnx.Value{{Name: "x", DType: onnx.Float, Shape: slices.Clone(image)}}
	first := onnx.Attrs{"axis": 0}
	old.Nodes = []*onnx.Node{{Op: "Softmax", Inputs: []string{"x"}, Outputs: []string{"y"}, Attrs: first}}
	old.Outputs = []onnx.Value{{Name: "y", DType: onnx.Float}}
	must.Refuse(t, simplify.Graph(old), "works along the batch")
}
