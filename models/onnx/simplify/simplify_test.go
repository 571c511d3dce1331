package simplify_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// Simplify gives a file these properties: its operators, its output's shape and, for
// known values, what it computes of onnxtest.Ramp(input).
func TestSimplify(t *testing.T) {
	same := func(x vec) vec { return x }
	for _, c := range []struct {
		name  string
		file  File
		ops   string
		shape Shape
		value func(x vec) vec
	}{
		{"chains of Identity on an initializer",
			file(13, N, 2).Node("w[2]=3.0; Identity w → a; Identity a → b; Mul x b → c; Add c a → y"), "Mul Add",
			Shape{N, 2}, func(x vec) vec { return vec{3*x[0] + 3, 3*x[1] + 3} }},
		{"Identity between operators", file(13, N, 2).Node("Relu x → a; Identity a → b; Neg b → y"), "Relu Neg",
			Shape{N, 2}, nil},
		{"Identity at the output stays", file(13, N, 2).Node("Relu x → a; Identity a → y"), "Relu Identity",
			Shape{N, 2}, nil},
		{"Constant nodes", file(13, N, 2).Node("Constant → c", "value", onnxtest.FloatTensor("", []int64{2}, 1, -1)).
			Node("Constant → d value_float=0.5; Add x c → a; Mul a d → y"), "Add Mul", Shape{N, 2},
			func(x vec) vec { return vec{(x[0] + 1) / 2, (x[1] - 1) / 2} }},
		{"a zero Pad", file(13, N, 1, 4, 4).
			Node("Constant → p", "value", onnxtest.IntTensor("", []int64{8}, 0, 0, 0, 0, 0, 0, 0, 0)).
			Node("Pad x p → a; AveragePool a → y kernel_shape=2,2 strides=2,2"), "AveragePool", Shape{N, 1, 2, 2}, nil},
		{"a Pad that pads", file(13, N, 1, 4, 4).
			Node("p=0,0,1,1,0,0,1,1; Pad x p → a; AveragePool a → y kernel_shape=2,2 strides=2,2"), "Pad AveragePool",
			Shape{N, 1, 3, 3}, nil},
		{"view", file(13, N, 2, 3).Node("Constant → m", "value", onnxtest.IntTensor("", []int64{1}, -1)).
			Node("zero=0; axes=0,; Shape x → s; Gather s zero → n axis=0; Unsqueeze n axes → n1").
			Node("Concat n1 m → t axis=0; Reshape x t → y"), "Reshape", Shape{N, 6}, same},
		{"view by sizes", file(13, N, 4, 3).Node("Shape x → s; zero=0; one=1; axes=0,; two=2,").
			Node("Gather s zero → n; Gather s one → c; Unsqueeze n axes → n1; Unsqueeze c axes → c1").
			Node("Div c1 two → h; Concat n1 two h two axes → t0 axis=0; Cast t0 → t1 to=7").
			Node("m=-1,; Slice t1 axes two → t2; Concat t2 m → t axis=0; Reshape x t → y"), "Reshape", Shape{N, 2, 6},
			same},
		{"a Range that counts down", file(13, N, 6).Node("m=-1,; a=3; b=1; c=-1; Range a b c → r").
			Node("Concat m r → t axis=0; Reshape x t → y"), "Reshape", Shape{N, 3, 2}, same},
		{"flatten over a size of one", file(13, N, 3, 1, 1).Node("Flatten x → y axis=1"), "Flatten", Shape{N, 3}, same},
		{"Dropout", file(13, N, 2).Node("r=0.5; Dropout x r → a mask; Neg a → y"), "Neg", Shape{N, 2}, nil},
		{"Dropout of old", file(7, N, 2).Node("Dropout x → a ratio=0.5; Neg a → y"), "Neg", Shape{N, 2}, nil},
		{"Dropout of nothing", file(13, N, 2).Tensor(onnxtest.BoolTensor("m", true)).
			Node("r=0.0; Dropout x r m → a; Neg a → y"), "Neg", Shape{N, 2}, nil},
		{"Dropout in no training", file(13, N, 2).Tensor(onnxtest.BoolTensor("m", false)).
			Node("r=0.5; Dropout x r m → a; Neg a → y"), "Neg", Shape{N, 2}, nil},
		{"a Cast that does nothing", file(13, N, 2).Node("Cast x → a to=1; Neg a → y"), "Neg", Shape{N, 2}, nil},
		{"a Cast of truth values", file(13, N, 2).Node("c=0.0; Greater x c → b; Cast b → f to=1; Mul f x → y"),
			"Greater Cast Mul", Shape{N, 2}, func(x vec) vec { return vec{0, x[1]} }},
		{"a Pow that gives its input back, which others read",
			file(18, N, 4).Node("one=1.0; Relu x → a; Pow a one → b; Neg b → c; Sub a c → y"), "Relu Neg Sub",
			Shape{N, 4}, func(x vec) vec { return vec{0, 0, 2 * x[2], 2 * x[3]} }},
		{"dead nodes", file(13, N, 2).Node("Exp x → dead; Neg x → y"), "Neg", Shape{N, 2}, nil},
		{"nodes out of order", file(13, N, 2).Node("Neg a → y; Relu x → a"), "Relu Neg", Shape{N, 2}, nil},
		{"ConstantOfShape", file(13, N, 2, 2).
			Node("s=2,2; ConstantOfShape s → c", "value", onnxtest.FloatTensor("", []int64{1}, 2)).Node("Mul x c → y"),
			"Mul", Shape{N, 2, 2}, func(x vec) vec { return vec{2 * x[0], 2 * x[1], 2 * x[2], 2 * x[3]} }},

		{"a fixed batch", file(9, 1, 3, 2).Node("t=1,-1; Relu x → a; Reshape a t → y"), "Relu Reshape", Shape{N, 6},
			nil},
		{"a fixed batch of 4", file(9, 4, 3, 2).Node("t=4,6; Reshape x t → y"), "Reshape", Shape{N, 6}, same},
		{"a fixed batch read from the shape",
			file(13, 1, 3, 2).Node("Shape x → s; i=0,; m=6,; Gather s i → n; Concat n m → t axis=0; Reshape x t → y"),
			"Reshape", Shape{N, 6}, same},
		{"a batch written as 0", file(13, 0, 2).Node("Neg x → y"), "Neg", Shape{N, 2}, nil},
		{"sizes with a fixed batch", file(11, 2, 1, 2, 2).Node("roi[0]=0.0; none[0]=0.0; s=2,1,4,6").
			Node("Resize x roi none s → y mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor"),
			"Resize", Shape{N, 1, 4, 6}, nil},
		{"sizes that are no whole factor", file(11, 1, 1, 2, 2).Node("s=1,1,3,2").
			Node("Resize x _ _ s → y mode=nearest coordinate_transformation_mode=asymmetric nearest_mode=floor"),
			"Resize", Shape{N, 1, 3, 2}, func(x vec) vec { return vec{x[0], x[1], x[0], x[1], x[2], x[3]} }},

		{"Clip's attributes", file(7, N, 4).Node("Clip x → y min=-0.5 max=0.3"), "Clip", Shape{N, 4},
			func(x vec) vec { return vec{-0.5, x[1], x[2], 0.3} }},
		{"Clip's one attribute", file(9, N, 4).Node("Clip x → y min=0.0"), "Clip", Shape{N, 4},
			func(x vec) vec { return vec{0, 0, x[2], x[3]} }},
		{"axes of Squeeze and Unsqueeze", file(11, N, 1, 2).Node("Squeeze x → a axes=1,; Unsqueeze a → y axes=1,3"),
			"Squeeze Unsqueeze", Shape{N, 1, 2, 1}, same},
		{"Slice's attributes", file(9, N, 4).Node("Slice x → y axes=1, starts=1, ends=-1,"), "Slice", Shape{N, 2},
			func(x vec) vec { return x[1:3] }},
		{"Slice from the front without axes",
			file(9, N, 4).Node("Slice x → y", "starts", []int64{0, 2}, "ends", []int64{1 << 40, 9}), "Slice",
			Shape{N, 2}, func(x vec) vec { return x[2:] }},
		{"Pad's attributes", file(9, N, 2).Node("Pad x → y pads=0,1,0,0 value=7.0"), "Pad", Shape{N, 3},
			func(x vec) vec { return vec{7, x[0], x[1]} }},
		{"TopK's attribute", file(9, N, 3).Node("TopK x → y i k=2 axis=-1"), "TopK", Shape{N, 2},
			func(x vec) vec { return vec{x[2], x[1]} }},
		{"Upsample 7", file(7, N, 1, 1, 2).Node("Upsample x → y", "scales", []float32{1, 1, 2, 2}, "mode", "nearest"),
			"Resize", Shape{N, 1, 2, 4},
			func(x vec) vec { return vec{x[0], x[0], x[1], x[1], x[0], x[0], x[1], x[1]} }},
		{"Upsample 9", file(9, N, 1, 1, 2).Floats("s", []int64{4}, 1, 1, 1, 3).Node("Upsample x s → y"), "Resize",
			Shape{N, 1, 1, 6}, func(x vec) vec { return vec{x[0], x[0], x[0], x[1], x[1], x[1]} }},
		{"Resize 10", file(10, N, 1, 1, 2).Floats("s", []int64{4}, 1, 1, 2, 1).Node("Resize x s → y"), "Resize",
			Shape{N, 1, 2, 2}, func(x vec) vec { return vec{x[0], x[1], x[0], x[1]} }},
		{"ReduceMean's attribute", file(11, N, 2, 1, 2).Node("ReduceMean x → y axes=2,3 keepdims=0"),
			"GlobalAveragePool Reshape", Shape{N, 2},
			func(x vec) vec { return vec{(x[0] + x[1]) / 2, (x[2] + x[3]) / 2} }},
		{"ReduceSum's attribute", file(11, N, 2, 2).Node("ReduceSum x → a axes=1, keepdims=1; Neg a → y"),
			"Transpose Reshape GlobalAveragePool Reshape Mul Neg", Shape{N, 1, 2},
			func(x vec) vec { return vec{-x[0] - x[2], -x[1] - x[3]} }},
		{"Softmax 11 on the last axis", file(11, N, 2).Node("Softmax x → y"), "Softmax", Shape{N, 2},
			func(x vec) vec {
				a, b := math.Exp(float64(x[0])), math.Exp(float64(x[1]))
				return vec{float32(a / (a + b)), float32(b / (a + b))}
			}},
		{"BatchNormalization 7", file(7, N, 1).
			Node("s[1]=2.0; b[1]=1.0; m[1]=0.5; v[1]=0.25; BatchNormalization x s b m v → y epsilon=0.0 momentum=0.9"),
			"BatchNormalization", Shape{N, 1}, func(x vec) vec { return vec{4*(x[0]-0.5) + 1} }},
		{"auto_pad", file(11, N, 1, 3, 3).Node("w[1,1,2,2]=1.0; Conv x w → y auto_pad=SAME_UPPER"), "Conv",
			Shape{N, 1, 3, 3}, nil},
		{"axes that are reshaped", file(18, N, 3, 2).Ints("a", 2).Ints("one", 1).Ints("empty").
			Node("Reshape a empty → s; Reshape s one → v; ReduceMax x v → m; Flatten m → y"), "ReduceMax Flatten",
			Shape{N, 3}, func(x vec) vec { return vec{x[1], x[3], x[5]} }},
		{"ceil_mode", file(12, N, 1, 3, 3).Node("MaxPool x → y kernel_shape=2,2 strides=2,2 ceil_mode=1"), "MaxPool",
			Shape{N, 1, 2, 2}, func(x vec) vec { return vec{x[4], x[5], x[7], x[8]} }},
		{"output_shape",
			file(11, N, 1, 2, 2).Node("w[1,1,2,2]=1.0; ConvTranspose x w → y strides=2,2 output_shape=3,3"),
			"ConvTranspose", Shape{N, 1, 3, 3}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := c.file.Bytes(c.shape...)
			g := onnxtest.Open(t, data)
			if got := onnxtest.Operators(g); got != c.ops {
				t.Errorf("operators %s, want %s", got, c.ops)
			}
			if !slices.Equal(g.Outputs[0].Shape, c.shape) {
				t.Errorf("output %v, want %v", g.Outputs[0].Shape, c.shape)
			}
			if g.Opset < onnx.Opset {
				t.Errorf("operator set %d", g.Opset)
			}
			x := onnxtest.Ramp(g.Inputs[0].Shape.Items())
			got := onnxtest.Run(t, g, x)
			if c.value != nil && !onnxtest.Near(got, c.value(x)) {
				t.Errorf("gives %v, want %v", got, c.value(x))
			}
			if strings.Count(string(data), "batch") == 2 { // the file's own batch is open
				if want := onnxtest.RunFile(t, data, x, g.Outputs[0].Shape.Items()); !onnxtest.Near(got, want) {
					t.Errorf("gives %v, the file %v", got, want)
				}
			}
		})
	}
}

// A Dropout in training mode keeps a share of the values, scaled by its inverse, as ONNX Runtime's own does.
func TestDropoutInTrainingMode(t *testing.T) {
	const n = 8192
	data := file(13, N, n).Tensor(onnxtest.BoolTensor("m", true)).Node("r=0.25; Dropout x r m → y").Bytes(N, n)
	g := onnxtest.Open(t, data)
	if got := onnxtest.Operators(g); got != "RandomUniformLike GreaterOrEqual Cast Mul Mul" {
		t.Errorf("operators %s", got)
	}
	x := slices.Repeat([]float32{3}, n)
	for name, y := range map[string][]float32{"simplified": onnxtest.Run(t, g, x),
		"the file": onnxtest.RunFile(t, data, x, n)} {
		kept := 0
		for _, v := range y {
			if v != 0 {
				kept++
				v -= 4
			}
			if v < -1e-6 || v > 1e-6 {
				t.Fatalf("%s: %v is left of 4", name, v)
			}
		}
		if share := float64(kept) / n; math.Abs(share-0.75) > 0.03 { // six standard deviations
			t.Errorf("%s keeps %v of the values", name, share)
		}
	}
}

// Constants that a thousand operators make would hold 2^33 values.
func TestFoldingIsBounded(t *testing.T) {
	f := file(13, N, 2).Ints("s", 1<<23)
	for i := range 1000 {
		f.Node(fmt.Sprintf("ConstantOfShape s → c%d", i))
		f.Graph.Output = append(f.Graph.Output, onnxtest.Value(fmt.Sprint("c", i), 1, 1<<23))
	}
	_, err := simplify.Open(f.Node("Neg x → y").Bytes(N, 2), simplify.Options{})
	must.Refuse(t, err, "ConstantOfShape")
}

// A chain of 100 000 operators, in the worst order, is read in little time.
func TestDeepChain(t *testing.T) {
	const n = 100_000
	f := file(13, N, 2).Node(fmt.Sprintf("Neg t%d → y", n))
	for i := n; i > 0; i-- {
		f.Node(fmt.Sprintf("Identity t%d → t%d", i-1, i))
	}
	g := onnxtest.Open(t, f.Node("Relu x → t0").Bytes(N, 2))
	if onnxtest.Operators(g) != "Relu Neg" {
		t.Error(len(g.Nodes), "operators left")
	}
}

// (x − mean)/std comes before a padded Conv, whose border stays 0: folding it
// into the weights would make the border (0 − mean)/std.
func TestPreprocessKeepsTheBorder(t *testing.T) {
	data := file(13, N, 2, 2, 2).Node("w[1,2,3,3]=1.0; Conv x w → y pads=1,1,1,1").
		Bytes(N, 1, 2, 2)
	g := must.Get(simplify.Open(data, simplify.Options{Mean: []float32{0.5, 0.25}, Std: []float32{0.25, 0.5}}))(t)
	if got := onnxtest.Operators(g); got != "Sub Div Conv" {
		t.Error(got)
	}
	x := []float32{1, 0.5, 0.5, 0.5, 0.75, 0.75, 0.75, 0.75}
	// Every window covers the whole 2×2 image: (1−.5)/.25 + 0·3 + 4·(.75−.25)/.5
	if got := onnxtest.Run(t, g, x); !onnxtest.Near(got, []float32{6, 6, 6, 6}) {
		t.Error(got)
	}
}

func TestPreprocessErrors(t *testing.T) {
	image := file(13, N, 3, 2, 2).Node("Neg x → y").Bytes(N, 3, 2, 2)
	row := file(13, N, 3).Node("Neg x → y").Bytes(N, 3)
	state := file(13, N, 3, 2).Node("Neg x → y").Bytes(N, 3, 2)
	for _, c := range []struct {
		data      []byte
		mean, std []float32
		want      string
	}{
		{image, []float32{1, 2}, nil, "mean has 2 values, the image 3 channels"},
		{image, nil, []float32{1, 2, 3, 4}, "std has 4 values, the image 3 channels"},
		{image, nil, []float32{0}, "std 0, in float32, is not above 0"},
		{image, nil, []float32{float32(math.NaN())}, "std NaN, in float32, is not above 0"},
		{image, []float32{float32(math.NaN())}, nil, "NaN"},
		{row, []float32{1, 2}, nil, "mean has 2 values, a row 3 values"},
		{state, []float32{1}, nil, "[N 3 2]"},
	} {
		_, err := simplify.Open(c.data, simplify.Options{Mean: c.mean, Std: c.std})
		must.Refuse(t, err, c.want)
	}
	if _, err := simplify.Open(state, simplify.Options{}); err != nil {
		t.Error(err)
	}
}
