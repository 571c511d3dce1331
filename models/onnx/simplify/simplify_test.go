package simplify_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// What Simplify makes of a file: its operators, its output's shape and, for
// known values, what it computes of onnxtest.Ramp(input).
func TestSimplify(t *testing.T) {
	same := func(x []float32) []float32 { return x }
	for _, c := range []struct {
		name  string
		data  []byte
		ops   string
		shape onnx.Shape
		value func(x []float32) []float32
	}{
		{"chains of Identity on an initializer", onnxtest.New(13, N, 2).Floats("w", []int64{2}, 3).
			Node("Identity w → a").Node("Identity a → b").Node("Mul x b → c").Node("Add c a → y").Bytes(N, 2),
			"Mul Add", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{3*x[0] + 3, 3*x[1] + 3} }},
		{"Identity between operators", onnxtest.New(13, N, 2).Node("Relu x → a").Node("Identity a → b").Node("Neg b → y").Bytes(N, 2),
			"Relu Neg", onnx.Shape{N, 2}, nil},
		{"Identity at the output stays", onnxtest.New(13, N, 2).Node("Relu x → a").Node("Identity a → y").Bytes(N, 2),
			"Relu Identity", onnx.Shape{N, 2}, nil},
		{"Constant nodes", onnxtest.New(13, N, 2).Node("Constant → c", "value", onnxtest.FloatTensor("", []int64{2}, 1, -1)).
			Node("Constant → d", "value_float", 0.5).Node("Add x c → a").Node("Mul a d → y").Bytes(N, 2),
			"Add Mul", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{(x[0] + 1) / 2, (x[1] - 1) / 2} }},
		{"a zero Pad", onnxtest.New(13, N, 1, 4, 4).Node("Constant → p", "value", onnxtest.IntTensor("", []int64{8}, 0, 0, 0, 0, 0, 0, 0, 0)).
			Node("Pad x p → a").Node("AveragePool a → y", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}).Bytes(N, 1, 2, 2),
			"AveragePool", onnx.Shape{N, 1, 2, 2}, nil},
		{"a Pad that pads", onnxtest.New(13, N, 1, 4, 4).Ints("p", 0, 0, 1, 1, 0, 0, 1, 1).
			Node("Pad x p → a").Node("AveragePool a → y", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}).Bytes(N, 1, 3, 3),
			"Pad AveragePool", onnx.Shape{N, 1, 3, 3}, nil},
		{"view", onnxtest.New(13, N, 2, 3).Node("Shape x → s").Tensor(onnxtest.IntTensor("zero", nil, 0)).Ints("axes", 0).
			Node("Gather s zero → n", "axis", 0).Node("Unsqueeze n axes → n1").Node("Constant → m", "value", onnxtest.IntTensor("", []int64{1}, -1)).
			Node("Concat n1 m → t", "axis", 0).Node("Reshape x t → y").Bytes(N, 6),
			"Reshape", onnx.Shape{N, 6}, same},
		{"view by sizes", onnxtest.New(13, N, 4, 3).Node("Shape x → s").Tensor(onnxtest.IntTensor("zero", nil, 0)).Tensor(onnxtest.IntTensor("one", nil, 1)).Ints("axes", 0).Ints("two", 2).
			Node("Gather s zero → n").Node("Gather s one → c").Node("Unsqueeze n axes → n1").Node("Unsqueeze c axes → c1").Node("Div c1 two → h").
			Node("Concat n1 two h two axes → t0", "axis", 0).Node("Cast t0 → t1", "to", 7).Ints("m", -1).
			Node("Slice t1 axes two → t2").Node("Concat t2 m → t", "axis", 0).Node("Reshape x t → y").Bytes(N, 2, 6),
			"Reshape", onnx.Shape{N, 2, 6}, same},
		{"flatten over a size of one", onnxtest.New(13, N, 3, 1, 1).Node("Flatten x → y", "axis", 1).Bytes(N, 3), "Flatten", onnx.Shape{N, 3}, same},
		{"Dropout", onnxtest.New(13, N, 2).Floats("r", nil, 0.5).Node("Dropout x r → a mask").Node("Neg a → y").Bytes(N, 2),
			"Neg", onnx.Shape{N, 2}, nil},
		{"Dropout of old", onnxtest.New(7, N, 2).Node("Dropout x → a", "ratio", 0.5).Node("Neg a → y").Bytes(N, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"a Cast that does nothing", onnxtest.New(13, N, 2).Node("Cast x → a", "to", 1).Node("Neg a → y").Bytes(N, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"dead nodes", onnxtest.New(13, N, 2).Node("Exp x → dead").Node("Neg x → y").Bytes(N, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"nodes out of order", onnxtest.New(13, N, 2).Node("Neg a → y").Node("Relu x → a").Bytes(N, 2), "Relu Neg", onnx.Shape{N, 2}, nil},
		{"ConstantOfShape", onnxtest.New(13, N, 2, 2).Ints("s", 2, 2).Node("ConstantOfShape s → c", "value", onnxtest.FloatTensor("", []int64{1}, 2)).
			Node("Mul x c → y").Bytes(N, 2, 2), "Mul", onnx.Shape{N, 2, 2}, func(x []float32) []float32 {
			return []float32{2 * x[0], 2 * x[1], 2 * x[2], 2 * x[3]}
		}},

		{"a fixed batch", onnxtest.New(9, 1, 3, 2).Ints("t", 1, -1).Node("Relu x → a").Node("Reshape a t → y").Bytes(1, 6),
			"Relu Reshape", onnx.Shape{N, 6}, nil},
		{"a fixed batch of 4", onnxtest.New(9, 4, 3, 2).Ints("t", 4, 6).Node("Reshape x t → y").Bytes(4, 6), "Reshape", onnx.Shape{N, 6}, same},
		{"a fixed batch read from the shape", onnxtest.New(13, 1, 3, 2).Node("Shape x → s").Ints("i", 0).Ints("m", 6).Node("Gather s i → n").
			Node("Concat n m → t", "axis", 0).Node("Reshape x t → y").Bytes(1, 6), "Reshape", onnx.Shape{N, 6}, same},
		{"a batch written as 0", onnxtest.New(13, 0, 2).Node("Neg x → y").Bytes(0, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"sizes with a fixed batch", onnxtest.New(11, 2, 1, 2, 2).Floats("roi", []int64{0}, 0).Floats("none", []int64{0}, 0).Ints("s", 2, 1, 4, 6).
			Node("Resize x roi none s → y", "mode", "nearest", "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor").Bytes(2, 1, 4, 6),
			"Resize", onnx.Shape{N, 1, 4, 6}, nil},
		{"sizes that are no whole factor", onnxtest.New(11, 1, 1, 2, 2).Ints("s", 1, 1, 3, 2).
			Node("Resize x _ _ s → y", "mode", "nearest", "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor").Bytes(1, 1, 3, 2),
			"Resize", onnx.Shape{N, 1, 3, 2}, func(x []float32) []float32 { return []float32{x[0], x[1], x[0], x[1], x[2], x[3]} }},

		{"Clip's attributes", onnxtest.New(7, N, 4).Node("Clip x → y", "min", -0.5, "max", 0.3).Bytes(N, 4), "Clip", onnx.Shape{N, 4},
			func(x []float32) []float32 { return []float32{-0.5, x[1], x[2], 0.3} }},
		{"Clip's one attribute", onnxtest.New(9, N, 4).Node("Clip x → y", "min", 0.0).Bytes(N, 4), "Clip", onnx.Shape{N, 4},
			func(x []float32) []float32 { return []float32{0, 0, x[2], x[3]} }},
		{"axes of Squeeze and Unsqueeze", onnxtest.New(11, N, 1, 2).Node("Squeeze x → a", "axes", []int64{1}).Node("Unsqueeze a → y", "axes", []int64{1, 3}).Bytes(N, 1, 2, 1),
			"Squeeze Unsqueeze", onnx.Shape{N, 1, 2, 1}, same},
		{"Slice's attributes", onnxtest.New(9, N, 4).Node("Slice x → y", "axes", []int64{1}, "starts", []int64{1}, "ends", []int64{-1}).Bytes(N, 2),
			"Slice", onnx.Shape{N, 2}, func(x []float32) []float32 { return x[1:3] }},
		{"Slice from the front without axes", onnxtest.New(9, N, 4).Node("Slice x → y", "starts", []int64{0, 2}, "ends", []int64{1 << 40, 9}).Bytes(N, 2),
			"Slice", onnx.Shape{N, 2}, func(x []float32) []float32 { return x[2:] }},
		{"Pad's attributes", onnxtest.New(9, N, 2).Node("Pad x → y", "pads", []int64{0, 1, 0, 0}, "value", 7.0).Bytes(N, 3),
			"Pad", onnx.Shape{N, 3}, func(x []float32) []float32 { return []float32{7, x[0], x[1]} }},
		{"TopK's attribute", onnxtest.New(9, N, 3).Node("TopK x → y i", "k", 2, "axis", -1).Bytes(N, 2),
			"TopK", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{x[2], x[1]} }},
		{"Upsample 7", onnxtest.New(7, N, 1, 1, 2).Node("Upsample x → y", "scales", []float32{1, 1, 2, 2}, "mode", "nearest").Bytes(N, 1, 2, 4),
			"Resize", onnx.Shape{N, 1, 2, 4}, func(x []float32) []float32 {
				return []float32{x[0], x[0], x[1], x[1], x[0], x[0], x[1], x[1]}
			}},
		{"Upsample 9", onnxtest.New(9, N, 1, 1, 2).Floats("s", []int64{4}, 1, 1, 1, 3).Node("Upsample x s → y").Bytes(N, 1, 1, 6),
			"Resize", onnx.Shape{N, 1, 1, 6}, func(x []float32) []float32 { return []float32{x[0], x[0], x[0], x[1], x[1], x[1]} }},
		{"Resize 10", onnxtest.New(10, N, 1, 1, 2).Floats("s", []int64{4}, 1, 1, 2, 1).Node("Resize x s → y").Bytes(N, 1, 2, 2),
			"Resize", onnx.Shape{N, 1, 2, 2}, func(x []float32) []float32 { return []float32{x[0], x[1], x[0], x[1]} }},
		{"ReduceMean's attribute", onnxtest.New(11, N, 2, 1, 2).Node("ReduceMean x → y", "axes", []int64{2, 3}, "keepdims", 0).Bytes(N, 2),
			"GlobalAveragePool Reshape", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{(x[0] + x[1]) / 2, (x[2] + x[3]) / 2} }},
		{"ReduceSum's attribute", onnxtest.New(11, N, 2, 2).Node("ReduceSum x → a", "axes", []int64{1}, "keepdims", 1).Node("Neg a → y").Bytes(N, 1, 2),
			"Transpose Reshape GlobalAveragePool Reshape Mul Neg", onnx.Shape{N, 1, 2}, func(x []float32) []float32 { return []float32{-x[0] - x[2], -x[1] - x[3]} }},
		{"Softmax 11 on the last axis", onnxtest.New(11, N, 2).Node("Softmax x → y").Bytes(N, 2), "Softmax", onnx.Shape{N, 2}, func(x []float32) []float32 {
			a, b := math.Exp(float64(x[0])), math.Exp(float64(x[1]))
			return []float32{float32(a / (a + b)), float32(b / (a + b))}
		}},
		{"BatchNormalization 7", onnxtest.New(7, N, 1).Floats("s", []int64{1}, 2).Floats("b", []int64{1}, 1).Floats("m", []int64{1}, 0.5).Floats("v", []int64{1}, 0.25).
			Node("BatchNormalization x s b m v → y", "epsilon", 0.0, "momentum", 0.9).Bytes(N, 1), "BatchNormalization", onnx.Shape{N, 1},
			func(x []float32) []float32 { return []float32{4*(x[0]-0.5) + 1} }},
		{"auto_pad", onnxtest.New(11, N, 1, 3, 3).Floats("w", []int64{1, 1, 2, 2}, 1).Node("Conv x w → y", "auto_pad", "SAME_UPPER").Bytes(N, 1, 3, 3),
			"Conv", onnx.Shape{N, 1, 3, 3}, nil},
		{"axes that are reshaped", onnxtest.New(18, N, 3, 2).Ints("a", 2).Ints("one", 1).Ints("empty").Node("Reshape a empty → s").Node("Reshape s one → v").Node("ReduceMax x v → m").Node("Flatten m → y").Bytes(N, 3),
			"ReduceMax Flatten", onnx.Shape{N, 3}, func(x []float32) []float32 { return []float32{x[1], x[3], x[5]} }},
		{"ceil_mode", onnxtest.New(12, N, 1, 3, 3).Node("MaxPool x → y", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}, "ceil_mode", 1).Bytes(N, 1, 2, 2),
			"MaxPool", onnx.Shape{N, 1, 2, 2}, func(x []float32) []float32 { return []float32{x[4], x[5], x[7], x[8]} }},
		{"output_shape", onnxtest.New(11, N, 1, 2, 2).Floats("w", []int64{1, 1, 2, 2}, 1).Node("ConvTranspose x w → y", "strides", []int64{2, 2}, "output_shape", []int64{3, 3}).Bytes(N, 1, 3, 3),
			"ConvTranspose", onnx.Shape{N, 1, 3, 3}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := onnxtest.Open(t, c.data)
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
			if strings.Contains(string(c.data), "batch") { // the file's own batch is open
				if want := onnxtest.RunFile(t, c.data, x, g.Outputs[0].Shape.Items()); !onnxtest.Near(got, want) {
					t.Errorf("gives %v, the file %v", got, want)
				}
			}
		})
	}
}

// Errors name what the user needs, on one line.
func TestOpenErrors(t *testing.T) {
	big := int64(1) << 40
	window := func(op string, attrs ...any) []byte {
		return onnxtest.New(13, N, 1, 4, 4).Floats("w", []int64{1, 1, 2, 2}, 1).Node(op+" x w → y", attrs...).Bytes(N, 1, 4, 4)
	}
	pool := func(attrs ...any) []byte {
		return onnxtest.New(13, N, 1, 4, 4).Node("AveragePool x → y", attrs...).Bytes(N, 1, 4, 4)
	}
	for _, c := range []struct {
		name string
		data []byte
		want []string
	}{
		{"nothing", nil, []string{"not an ONNX model", "no graph"}},
		{"text", []byte("import torch\n"), []string{"not an ONNX model"}},
		{"unsupported operators", onnxtest.New(13, N, 2).Node("LSTM x → a").Node("NonMaxSuppression a → b").Node("Swish@com.example b → c").Node("LSTM c → y").Bytes(N, 2),
			[]string{`LSTM (operator set 13) at node 0 "a", node 3 "y"; NonMaxSuppression (operator set 13) at node 1 "b"; com.example.Swish`}},
		{"an old operator set", onnxtest.New(6, N, 2).Node("Neg x → y").Bytes(N, 2), []string{"operator set 6", "7"}},
		{"two inputs", func() []byte {
			f := onnxtest.New(13, N, 2).Node("Add x z → y")
			f.Graph.Input = append(f.Graph.Input, onnxtest.Value("z", 1, N, 2))
			return f.Bytes(N, 2)
		}(), []string{`2 inputs ("x", "z")`}},
		{"an integer input", func() []byte {
			f := onnxtest.New(13, N, 2).Node("Neg x → y")
			f.Graph.Input[0] = onnxtest.Value("x", 7, N, 2)
			return f.Bytes(N, 2)
		}(), []string{`input "x"`, "float32"}},
		{"an open image size", onnxtest.New(13, N, 3, -1, -1).Node("Neg x → y").Bytes(N, 2), []string{`input "x"`, "open dimension 2"}},
		{"a vector", onnxtest.New(13, N).Node("Neg x → y").Bytes(N), []string{`input "x"`, "rank 2"}},
		{"a giant input", onnxtest.New(13, N, big, big).Node("Neg x → y").Bytes(N, 2), []string{`input "x"`, "shape"}},
		{"a subgraph", onnxtest.New(13, N, 2).Node("If x → y", "then_branch", onnxtest.New(13, N).Graph).Bytes(N, 2), []string{`If (operator set 13) at node 0 "y"`, "subgraph"}},
		{"an operator with a subgraph", onnxtest.New(13, N, 2).Node("Neg x → y", "body", onnxtest.New(13, N).Graph).Bytes(N, 2), []string{`Neg (operator set 13) at node 0 "y"`, "subgraph"}},
		{"attributes that are not read", onnxtest.New(15, N, 2).Node("Optional → a", "type", &pb.TypeProto{}).Node("OptionalGetElement a → b").Node("Add x b → y").Bytes(N, 2),
			[]string{`Optional (operator set 15) at node 0 "a"; OptionalGetElement (operator set 15) at node 1 "b"`}},
		{"integer operators", onnxtest.New(13, N, 2).Node("MatMulInteger x x → a").Node("QLinearAdd@com.microsoft a → y").Bytes(N, 2),
			[]string{"MatMulInteger", `com.microsoft.QLinearAdd (a domain that the model doesn't import) at node 1 "y"`, "QDQ"}},

		{"a cycle", onnxtest.New(13, N, 2).Node("Add x b → a").Node("Neg a → b").Node("Neg b → y").Bytes(N, 2), []string{`Add "a"`, `"b"`, "nothing before it writes"}},
		{"a missing tensor", onnxtest.New(13, N, 2).Node("Add x gone → y").Bytes(N, 2), []string{`Add "y"`, `"gone"`}},
		{"a tensor written twice", onnxtest.New(13, N, 2).Node("Neg x → y").Node("Exp x → y").Bytes(N, 2), []string{`"y" is written twice`, "Exp"}},
		{"an initializer twice", onnxtest.New(13, N, 2).Ints("a", 1).Ints("a", 2).Node("Neg x → y").Bytes(N, 2), []string{`"a" is defined twice`}},
		{"an initializer over a node", onnxtest.New(13, N, 2).Floats("y", []int64{2}, 1).Node("Neg x → y").Bytes(N, 2), []string{`"y" is written twice`}},
		{"no output", onnxtest.New(13, N, 2).Node("Neg x → z").Bytes(N, 2), []string{`output "y"`}},
		{"a node without output", onnxtest.New(13, N, 2).Node("Neg x → _").Node("Neg x → y").Bytes(N, 2), []string{"no output"}},
		{"a node without input", onnxtest.New(13, N, 2).Node("Relu → y").Bytes(N, 2), []string{`Relu "y"`, "no input 0"}},
		{"a NaN weight", onnxtest.New(13, N, 2).Floats("w", []int64{2}, float32(math.NaN())).Node("Mul x w → y").Bytes(N, 2), []string{`"w"`, "NaN"}},
		{"a weight too short", onnxtest.New(13, N, 2).Tensor(onnxtest.FloatTensor("w", []int64{3}, 1)).Node("Mul x w → y").Bytes(N, 2), []string{`"w"`, "3 values", "holds 1"}},
		{"a giant weight", onnxtest.New(13, N, 2).Tensor(onnxtest.FloatTensor("w", []int64{big, big}, 1)).Node("Mul x w → y").Bytes(N, 2), []string{`"w"`, "not possible"}},
		{"weights elsewhere", func() []byte {
			f := onnxtest.New(13, N, 2).Floats("w", []int64{2}, 1).Node("Mul x w → y")
			f.Graph.Initializer[0].DataLocation = pb.TensorProto_EXTERNAL.Enum()
			return f.Bytes(N, 2)
		}(), []string{`"w"`, "another file"}},

		{"a reshape that mixes the batch", onnxtest.New(13, 2, 3, 4).Ints("t", 6, 4).Node("Reshape x t → y").Bytes(6, 4),
			[]string{`output "y"`, "[3N 4]", "batch in front"}},
		{"a reshape that infers over the batch", onnxtest.New(13, N, 3, 4).Ints("t", -1, 4).Node("Reshape x t → y").Bytes(N, 4),
			[]string{`output "y"`, "[3N 4]", "batch in front"}},
		{"a reshape that moves the batch", onnxtest.New(13, N, 3).Node("Transpose x → a").Ints("t", -1, 3).Node("Reshape a t → y").Bytes(N, 3),
			[]string{`Reshape "y"`, "mixes the batch"}},
		{"an Expand of a fixed batch", onnxtest.New(13, 2, 3).Ints("t", 2, 3).Node("Expand x t → y").Bytes(2, 3), []string{`Expand "y"`, "exported as 2"}},
		{"a constant of the batch's size", onnxtest.New(13, 2, 3).Floats("c", []int64{2, 3}, 1).Node("Add x c → y").Bytes(2, 3), []string{`Add "y"`, "exported as 2"}},
		{"sizes that fix the batch", onnxtest.New(13, N, 1, 2, 2).Ints("s", 2, 1, 4, 4).Node("Resize x _ _ s → y").Bytes(N, 1, 4, 4), []string{`Resize "y"`, "fix the batch"}},
		{"a reduced batch", onnxtest.New(13, N, 3).Ints("a", 0).Node("ReduceSum x a → m").Node("Sub x m → y").Bytes(N, 3), []string{`ReduceSum "m"`, "reduces the batch"}},
		{"everything reduced", onnxtest.New(13, N, 3).Node("ReduceMean x → m").Node("Sub x m → y").Bytes(N, 3), []string{`ReduceMean "m"`, "reduces the batch"}},
		{"a softmax over the batch", onnxtest.New(13, N, 3).Node("Softmax x → y", "axis", 0).Bytes(N, 3), []string{`Softmax "y"`, "along the batch"}},
		{"a product over the batch", onnxtest.New(13, N, 3).Node("Transpose x → t").Node("MatMul t x → m").Node("MatMul x m → y").Bytes(N, 3), []string{`MatMul "m"`, "batch"}},
		{"all pairs of the batch", onnxtest.New(13, N, 1).Node("Transpose x → t").Node("Sub x t → d").Ints("a", 1).Node("ReduceSum d a → y").Bytes(N, 1), []string{`Sub "d"`, "batch by itself"}},
		{"a sliced batch", onnxtest.New(13, N, 3).Ints("o", 1).Ints("e", 2).Ints("a", 0).Node("Slice x o e a → y").Bytes(N, 3), []string{`Slice "y"`, "slices the batch"}},
		{"an output without batch", onnxtest.New(13, N, 3).Floats("w", []int64{2}, 1).Node("Neg w → y").Bytes(2), []string{`output "y"`, "batch"}},
		{"training mode", onnxtest.New(14, N, 1).Floats("s", []int64{1}, 1).Node("BatchNormalization x s s s s → y", "training_mode", 1).Bytes(N, 1), []string{"BatchNormalization", "eval()"}},
		{"a dropout's mask", onnxtest.New(13, N, 2).Node("Dropout x → a mask").Node("Where mask a x → y").Bytes(N, 2), []string{"Dropout", "mask"}},
		{"a variance too short", onnxtest.New(13, N, 2).Floats("s", []int64{2}, 1).Floats("v", []int64{1}, 1).Node("BatchNormalization x s s s v → y").Bytes(N, 2), []string{"BatchNormalization", `"v"`}},
		{"an integer weight", onnxtest.New(13, N, 1, 2, 2).Tensor(onnxtest.IntTensor("w", []int64{1, 1, 1, 1}, 1)).Node("Conv x w → y").Bytes(N, 1, 2, 2), []string{`Conv "y"`, "not float32"}},

		{"pads beyond integers", window("Conv", "pads", []int64{1 << 60, 1 << 60, 1 << 60, 1 << 60}), []string{`Conv "y"`, "pads"}},
		{"negative pads", window("Conv", "pads", []int64{-1, 0, 0, 0}), []string{`Conv "y"`, "pads"}},
		{"strides of 0", window("Conv", "strides", []int64{0, 1}), []string{`Conv "y"`, "strides"}},
		{"dilations beyond integers", window("Conv", "dilations", []int64{1 << 62, 1}), []string{`Conv "y"`, "dilations"}},
		{"groups beyond integers", window("Conv", "group", 1<<62), []string{`Conv "y"`, "groups"}},
		{"a wide kernel", window("Conv", "kernel_shape", []int64{1 << 60, 2}), []string{`Conv "y"`, "kernel_shape"}},
		{"transposed strides", window("ConvTranspose", "strides", []int64{1 << 40, 1}), []string{`ConvTranspose "y"`, "strides"}},
		{"a transposed giant", window("ConvTranspose", "strides", []int64{1 << 20, 1 << 20}), []string{`ConvTranspose "y"`, "values an item"}},
		{"too much output_padding", window("ConvTranspose", "dilations", []int64{3, 3}, "output_padding", []int64{2, 1}), []string{`ConvTranspose "y"`, "output_padding"}},
		{"a pool without kernel", pool(), []string{`AveragePool "y"`, "kernel_shape"}},
		{"a pool of pads", pool("kernel_shape", []int64{2, 2}, "pads", []int64{2, 0, 0, 0}), []string{`AveragePool "y"`, "pads"}},
		{"a giant pool", pool("kernel_shape", []int64{1 << 20, 1 << 20}, "pads", []int64{1<<20 - 1, 1<<20 - 1, 1<<20 - 1, 1<<20 - 1}), []string{`AveragePool "y"`, "kernel"}},
		{"a pool that counts beyond its pads", pool("kernel_shape", []int64{3, 3}, "strides", []int64{2, 2}, "ceil_mode", 1, "count_include_pad", 1), []string{`AveragePool "y"`, "ceil_mode"}},
		{"a giant Pad", onnxtest.New(13, N, 2).Ints("p", 0, 1<<62, 0, 1<<62).Node("Pad x p → y").Bytes(N, 2), []string{`Pad "y"`, "out of range"}},
		{"a Pad of the batch", onnxtest.New(13, N, 2).Ints("p", 1, 0, -1, 0).Node("Pad x p → y").Bytes(N, 2), []string{`Pad "y"`, "pads the batch"}},
		{"a giant Resize", onnxtest.New(13, N, 1, 2, 2).Floats("s", []int64{4}, 1, 1, 1000, 1e30).Node("Resize x _ s → y").Bytes(N, 1, 2, 2), []string{`Resize "y"`, "scale"}},
		{"giant sizes", onnxtest.New(13, 1, 1, 2, 2).Ints("s", 1, 1, 1<<62, 1<<62).Node("Resize x _ _ s → y").Bytes(1, 1, 2, 2), []string{`Resize "y"`}},
		{"a giant Expand", onnxtest.New(13, N, 1).Ints("s", 1, 1<<62).Node("Expand x s → y").Bytes(N, 1), []string{`Expand "y"`, "impossible shape"}},
		{"giants in a row", onnxtest.New(13, N, 1, 1).Ints("s", 1, 1<<30, 1<<30).Node("Expand x s → y").Bytes(N, 1), []string{`Expand "y"`, "values an item"}},
		{"a giant ConstantOfShape", onnxtest.New(13, N, 1).Ints("s", 1<<20, 1<<20, 1<<40).Node("ConstantOfShape s → c").Node("Add x c → y").Bytes(N, 1), []string{"ConstantOfShape", "fills a tensor"}},
		{"a giant Reshape", onnxtest.New(13, N, 1).Ints("s", -1, 1<<62, 1<<62).Node("Reshape x s → y").Bytes(N, 1), []string{`Reshape "y"`}},
		{"axes named twice", onnxtest.New(13, N, 1).Ints("a", 3, 3).Node("Unsqueeze x a → y").Bytes(N, 1), []string{`Unsqueeze "y"`, "twice"}},
		{"an axis outside", onnxtest.New(13, N, 1).Node("Softmax x → y", "axis", 7).Bytes(N, 1), []string{`Softmax "y"`, "axis 7"}},
		{"a step of 0", onnxtest.New(13, N, 3).Ints("o", 0).Ints("e", 3).Ints("a", 1).Ints("st", 0).Node("Slice x o e a st → y").Bytes(N, 3), []string{`Slice "y"`, "step"}},
		{"the smallest step", onnxtest.New(13, N, 3).Ints("o", 2).Ints("e", math.MinInt64).Ints("a", 1).Ints("st", math.MinInt64).Node("Slice x o e a st → y").Bytes(N, 3), []string{`Slice "y"`, "step"}},
		{"steps beyond integers", onnxtest.New(13, N, 2).Tensor(onnxtest.IntTensor("a", nil, -5)).Tensor(onnxtest.IntTensor("b", nil, -10)).Tensor(onnxtest.IntTensor("c", nil, math.MinInt64)).
			Node("Range a b c → t").Node("Reshape x t → y").Bytes(N, 2), []string{`Range "t"`, "counts from -5 to -10 in steps of -9223372036854775808"}},
		{"a number that would pass for the batch", onnxtest.New(13, N, 2).Ints("t", -1<<62, 2).Node("Reshape x t → y").Bytes(N, 2), []string{`"t"`, "-4611686018427387904"}},
		{"an attribute that would pass for the batch", onnxtest.New(11, N, 2).Node("Squeeze x → y", "axes", []int64{1<<20 - 1<<62}).Bytes(N, 2), []string{`"axes"`, "-4611686018426339328"}},
		{"a product that would pass for the batch", onnxtest.New(13, N, 2).Ints("a", 1<<31, 1).Ints("b", -1<<31, 2).Node("Mul a b → t").Node("Reshape x t → y").Bytes(N, 2), []string{`Reshape "y"`, "must be constant"}},
		{"a truth value as a factor", onnxtest.New(13, N, 2).Tensor(&pb.TensorProto{Name: proto.String("b"), DataType: proto.Int32(9), Dims: []int64{2}, Int32Data: []int32{1, 0}}).
			Node("Mul x b → y").Bytes(N, 2), []string{`Mul "y"`, `"x" and "b" hold values of different types`}},
		{"integer slopes", onnxtest.New(13, N, 2).Ints("s", 2).Node("PRelu x s → y").Bytes(N, 2), []string{`PRelu "y"`, "different types"}},
		{"an integer among summands", onnxtest.New(13, N, 2).Ints("s", 2).Node("Sum x x s → y").Bytes(N, 2), []string{`Sum "y"`, "different types"}},
		{"a Resize of before version 11 up and down", onnxtest.New(10, N, 1, 4, 4).Floats("s", []int64{4}, 1, 1, 1.5, 0.7).Node("Resize x s → y").Bytes(N, 1, 6, 2), []string{`Resize "y"`, "before 11"}},
		{"many parts", onnxtest.New(18, N, 1<<20).Node("Split x → y", "axis", 1, "num_outputs", 1<<20).Bytes(N, 1), []string{"Split", "num_outputs"}},
		{"a giant block", onnxtest.New(13, N, 4, 1, 1).Node("DepthToSpace x → y", "blocksize", 1<<32).Bytes(N, 1), []string{"DepthToSpace", "blocksize"}},
		{"a giant top", onnxtest.New(13, N, 4).Ints("k", 1<<40).Node("TopK x k → y i").Bytes(N, 4), []string{"TopK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := simplify.Open(c.data, nil, nil)
			if err == nil {
				t.Fatal("is accepted")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not name %q", err, w)
				}
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q has several lines", err)
			}
		})
	}
}

// A vector joined with itself again and again would hold 2^64 values.
func TestFoldingIsBounded(t *testing.T) {
	f := onnxtest.New(13, N, 2).Ints("v0", 1, 2, 3, 4)
	for i := range 62 {
		f.Node(fmt.Sprintf("Concat v%d v%d → v%d", i, i, i+1), "axis", 0)
	}
	_, err := simplify.Open(f.Node("Reshape x v62 → y").Bytes(N, 2), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "shape arithmetic") {
		t.Error(err)
	}
	f = onnxtest.New(13, N, 2).Ints("s", 1<<23)
	for i := range 1000 {
		f.Node(fmt.Sprintf("ConstantOfShape s → c%d", i))
		f.Graph.Output = append(f.Graph.Output, onnxtest.Value(fmt.Sprint("c", i), 1, 1<<23))
	}
	_, err = simplify.Open(f.Node("Neg x → y").Bytes(N, 2), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "fills a tensor") {
		t.Error(err)
	}
}

// A chain of 100 000 operators, in the worst order, is read in little time.
func TestDeepChain(t *testing.T) {
	const n = 100_000
	f := onnxtest.New(13, N, 2).Node(fmt.Sprintf("Neg t%d → y", n))
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
	data := onnxtest.New(13, N, 2, 2, 2).Floats("w", []int64{1, 2, 3, 3}, 1).Node("Conv x w → y", "pads", []int64{1, 1, 1, 1}).Bytes(N, 1, 2, 2)
	g, err := simplify.Open(data, []float32{0.5, 0.25}, []float32{0.25, 0.5})
	if err != nil {
		t.Fatal(err)
	}
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
	image := onnxtest.New(13, N, 3, 2, 2).Node("Neg x → y").Bytes(N, 3, 2, 2)
	state := onnxtest.New(13, N, 3).Node("Neg x → y").Bytes(N, 3)
	for _, c := range []struct {
		data      []byte
		mean, std []float32
		want      string
	}{
		{image, []float32{1, 2}, nil, "mean has 2 values, the image 3 channels"},
		{image, nil, []float32{1, 2, 3, 4}, "std has 4 values, the image 3 channels"},
		{image, nil, []float32{0}, "std 0 is not above 0"},
		{image, nil, []float32{float32(math.NaN())}, "std NaN is not above 0"},
		{image, []float32{float32(math.NaN())}, nil, "NaN"},
		{state, []float32{1}, nil, "[N 3]"},
	} {
		if _, err := simplify.Open(c.data, c.mean, c.std); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := simplify.Open(state, nil, nil); err != nil {
		t.Error(err)
	}
}
