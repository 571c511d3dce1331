package simplify_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
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

// The nodes that exporters write for Gelu and LayerNormalization become those operators, and composite operators
// become operators that have gradients.
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

// Operators that can't be taken apart are errors of one line.
func TestLoweringErrors(t *testing.T) {
	for _, c := range [][2]string{
		{"Einsum x → y equation=bcii->bci", "diagonal"},
		{"Einsum x → y equation=bchw->chw", "sums over the batch"},
		{"Einsum x → y equation=bchw,cd->bdhw", "2 operands"},
		{"Einsum x → y equation=bch->b", "3 indices for an operand of shape [N 4 3 3]"},
		{"c[5,6]=1.0; Einsum x c → y equation=bchw,cd->bdhw", `index 'c' the sizes 4 and 5`},
		{"Einsum x → y equation=bchw->bx", "can't be read"},
		{"Einsum x → y equation=bchw->bcc", "can't be read"},
		{"Einsum x → y equation=b1hw->b1", "can't be read"},
		{"Einsum x → y equation=......->...", "can't be read"},
		{"Einsum x → y equation=\ue000chw->c", "can't be read"},
		{"Einsum x → y", "0 indices"},
		{"g[1,2,2,2]=0.5; GridSample x g → y mode=odd", `has mode "odd"`},
		{"g[1,2,2,2]=0.5; GridSample x g → y padding_mode=odd", `has padding_mode "odd"`},
		{"g[1,2,2,3]=0.5; GridSample x g → y", "images and [N, height, width, 2] are supported"},
		{"t[1,2,3]=0.5; s=1,1,1,3; AffineGrid t s → g align_corners=1; GridSample x g → y", "corners of one place"},
		{"c[3]=1.0; GroupNormalization x c c → y num_groups=3", "4 channels into 3 groups"},
		{"c[4]=1.0; GroupNormalization x c c → y", "4 channels into 0 groups"},
		{"c[4]=1.0; GroupNormalization x c c → y num_groups=2", "not 2 values"},
		{"c[4]=1.0; d[3]=1.0; InstanceNormalization x c d → y", "not 4 values"},
		{"c[4]=1.0; InstanceNormalization x c → y", "has no input 2"},
		{"c[4]=1.0; LayerNormalization x c → y axis=-2", "does not fit"},
		{"c[3]=1.0; LayerNormalization x c → y axis=0", "works along the batch"},
		{"LpNormalization x → y p=3", "p = 3"},
		{"LpNormalization x → y axis=0", "batch"},
		{"LpNormalization x → y axis=9", "axis 9"},
		{"LRN x → y", "size 0"},
		{"LRN x → y size=1099511627776", "size"},
		{"c[3]=1.0; RMSNormalization x c → y axis=0", "batch"},
		{"ReduceL2 x → y", "reduces the batch"},
	} {
		_, err := simplify.Open(file(18, N, 4, 3, 3).Node(c[0]).Bytes(N, 4), simplify.Options{})
		must.Refuse(t, err, c[1])
	}
	_, err := simplify.Open(file(11, N, 4, 3, 3).Node("Softmax x → y axis=0").Bytes(N, 4), simplify.Options{})
	must.Refuse(t, err, "works along the batch")
}

// A Softmax that is written out, and the logarithm of one, become the operators that neither overflow nor round to 0.
// They answer as the file does if its own parts do neither.
func TestSoftmaxIsPutBack(t *testing.T) {
	const out = "Exp a → e; one=1,; ReduceSum e one → s; Div e s → "
	for name, c := range map[string]struct{ nodes, want string }{
		"written out":           {out + "y", "Softmax"},
		"a logarithm":           {"Softmax a → p axis=1; Log p → y", "LogSoftmax"},
		"a logarithm of sums":   {out + "p; Log p → y", "LogSoftmax"},
		"the sum of the batch":  {"Exp a → e; one=1,; ReduceSum e one → s; Div s e → y", "Div"},
		"another sum":           {"Exp a → e; one=1,; ReduceSum a one → s; Div e s → y", "Div"},
		"a logarithm of others": {"Sigmoid a → p; Log p → y", "Log"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, scale := range []float32{1, 1000} {
				data := file(17, N, 3).Floats("k", []int64{3}, scale, 2*scale, 3*scale).Node("Mul x k → a; "+c.nodes).
					Bytes(N, 3)
				g := onnxtest.Open(t, data)
				if ops := strings.Fields(onnxtest.Operators(g)); ops[len(ops)-1] != c.want {
					t.Fatalf("%v, want %s at the end", ops, c.want)
				}
				opened, file := asFile(t, data, 0.5)
				for k, v := range file {
					same := math.Abs(float64(opened[k])-v) < 1e-5
					if finite := v-v == 0; finite && !same || !finite && strings.HasSuffix(c.want, "Softmax") &&
						opened[k]-opened[k] != 0 {
						t.Errorf("scale %g: %v, the file gives %v", scale, opened, file)
					}
				}
			}
		})
	}
}
