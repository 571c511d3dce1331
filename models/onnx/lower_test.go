package onnx

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const goldens = "../grad/gradtest/testdata"

// Every operator that is taken apart, here or when a graph is written, is in a
// golden, whose values and gradients are compared with PyTorch's.
func TestLoweringsHaveGoldens(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldens, "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens", err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		g, err := Decode(data)
		if err != nil {
			t.Fatal(f, err)
		}
		for _, n := range g.Nodes {
			seen[n.Op] = true
		}
	}
	for _, op := range slices.Concat(sortedKeys(lowerings), sortedKeys(kernels)) {
		if !seen[op] {
			t.Errorf("no golden has a %s: add a case to scripts/goldens_*.py", op)
		}
	}
	if seen["NoSuchOperator"] {
		t.Error("sees what is not there")
	}
}

// simplified returns the operators that a golden's file becomes.
func simplified(t *testing.T, name string) string {
	t.Helper()
	g, _, err := Load(filepath.Join(goldens, name+".onnx"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return operators(g)
}

func operators(g *Graph) string {
	ops := []string{}
	for _, n := range g.Nodes {
		ops = append(ops, n.Op)
	}
	return strings.Join(ops, " ")
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
	g := NewGraph("test")
	b := &Builder{G: g}
	x := b.Input("x", Shape{Batch, 3, 4})
	b.Named("norm", "LpNormalization", x)
	b.Output("y", b.Op("Neg", "norm"))
	if b.Err() != nil {
		t.Fatal(b.Err())
	}
	if err := g.Simplify(); err != nil {
		t.Fatal(err)
	}
	if g.Producers()["norm"] == nil {
		t.Errorf("no tensor is called norm in %s", operators(g))
	}
}

// A lowering that gives its input back leaves that tensor to its other readers.
func TestLoweringLeavesItsInput(t *testing.T) {
	g := NewGraph("test")
	b := &Builder{G: g}
	b.Named("a", "Relu", b.Input("x", Shape{Batch, 4}))
	b.Named("b", "Pow", "a", b.Float(1))
	b.Output("y", b.Op("Sub", "a", b.Op("Neg", "b")))
	if b.Err() != nil {
		t.Fatal(b.Err())
	}
	if err := g.Simplify(); err != nil {
		t.Fatal(err)
	}
	if got := operators(g); got != "Relu Neg Sub Identity" {
		t.Errorf("becomes %s", got)
	}
}

// Operators that can't be taken apart are errors of one line.
func TestLoweringErrors(t *testing.T) {
	image := Shape{Batch, 4, 3, 3}
	for _, c := range []struct {
		op    string
		attrs Attrs
		more  []Shape // constants that follow x
		want  string
	}{
		{"Einsum", Attrs{"equation": "bcii->bci"}, nil, "diagonal"},
		{"Einsum", Attrs{"equation": "bchw->chw"}, nil, "sums over the batch"},
		{"Einsum", Attrs{"equation": "bchw,cd->bdhw"}, nil, "2 operands"},
		{"Einsum", Attrs{"equation": "bch->b"}, nil, "3 indices for an operand of shape [N 4 3 3]"},
		{"Einsum", Attrs{"equation": "bchw,cd->bdhw"}, []Shape{{5, 6}}, `index 'c' the sizes 4 and 5`},
		{"Einsum", Attrs{"equation": "bchw->bx"}, nil, "can't be read"},
		{"Einsum", Attrs{"equation": "bchw->bcc"}, nil, "can't be read"},
		{"Einsum", Attrs{"equation": "b1hw->b1"}, nil, "can't be read"},
		{"Einsum", Attrs{"equation": "......->..."}, nil, "can't be read"},
		{"Einsum", Attrs{"equation": "\ue000chw->c"}, nil, "can't be read"},
		{"Einsum", nil, nil, "0 indices"},
		{"GroupNormalization", Attrs{"num_groups": 3}, []Shape{{3}, {3}}, "4 channels into 3 groups"},
		{"GroupNormalization", nil, []Shape{{4}, {4}}, "4 channels into 0 groups"},
		{"GroupNormalization", Attrs{"num_groups": 2}, []Shape{{4}, {4}}, "not 2 values"},
		{"InstanceNormalization", nil, []Shape{{4}, {3}}, "not 4 values"},
		{"InstanceNormalization", nil, []Shape{{4}}, "has no input 2"},
		{"LayerNormalization", Attrs{"axis": -2}, []Shape{{4}}, "does not fit"},
		{"LayerNormalization", Attrs{"axis": 0}, []Shape{{3}}, "works along the batch"},
		{"LpNormalization", Attrs{"p": 3}, nil, "p = 3"},
		{"LpNormalization", Attrs{"axis": 0}, nil, "batch"},
		{"LpNormalization", Attrs{"axis": 9}, nil, "axis 9"},
		{"LRN", nil, nil, "size 0"},
		{"LRN", Attrs{"size": 1 << 40}, nil, "size"},
		{"RMSNormalization", Attrs{"axis": 0}, []Shape{{3}}, "batch"},
		{"ReduceL2", nil, nil, "reduces the batch"},
	} {
		g := NewGraph("test")
		g.Inputs = []Value{{Name: "x", DType: Float, Shape: slices.Clone(image)}}
		n := &Node{Op: c.op, Name: "n", Inputs: []string{"x"}, Outputs: []string{"y"}}
		for k, v := range c.attrs {
			n.Set(k, v)
		}
		for _, shape := range c.more {
			n.Inputs = append(n.Inputs, g.AddConst("c", FloatTensor(shape, make([]float32, shape.Items()))))
		}
		g.Nodes, g.Outputs = []*Node{n}, []Value{{Name: "y", DType: Float}}
		err := g.Simplify()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %v: %v, want %q", c.op, c.attrs, err, c.want)
		}
	}
	old := NewGraph("test")
	old.Opset = 11
	old.Inputs = []Value{{Name: "x", DType: Float, Shape: slices.Clone(image)}}
	old.Nodes = []*Node{{Op: "Softmax", Inputs: []string{"x"}, Outputs: []string{"y"}}}
	old.Nodes[0].Set("axis", 0)
	old.Outputs = []Value{{Name: "y", DType: Float}}
	if err := old.Simplify(); err == nil || !strings.Contains(err.Error(), "works along the batch") {
		t.Errorf("a Softmax over the batch: %v", err)
	}
}

// Encode writes the operators in kernels by others, under the same names, and
// leaves the graph as it is.
func TestForRuntime(t *testing.T) {
	for op := range kernels {
		g := NewGraph("test")
		b := &Builder{G: g}
		b.Output("y", b.Op(op, b.Op("Transpose", b.Input("x", Shape{Batch, 5})))) // [5, N]: the batch is no whole registers
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		before := operators(g)
		r, err := g.forRuntime()
		if err != nil {
			t.Fatal(op, err)
		}
		if operators(g) != before {
			t.Errorf("%s: the graph became %s", op, operators(g))
		}
		if strings.Contains(operators(r), op) && !strings.Contains(operators(r), "Pad "+op+" Slice") {
			t.Errorf("%s is written as %s", op, operators(r))
		}
		if r.Producers()[op] == nil {
			t.Errorf("%s: the tensor's name is lost", op)
		}
	}
	// Whole registers need no filling.
	g := NewGraph("test")
	b := &Builder{G: g}
	b.Output("y", b.Op("Log", b.Input("x", Shape{Batch, 4, 8})))
	if r, err := g.forRuntime(); err != nil || operators(r) != "Log Identity" {
		t.Errorf("Log of 32 values is written as %s, %v", operators(r), err)
	}
}
