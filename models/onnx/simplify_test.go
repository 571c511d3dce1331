package onnx_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
)

// N is the symbolic batch in a file's shapes.
const N = int64(-1)

// What Simplify makes of a file: its operators, its output's shape and, for
// known values, what it computes of ramp(input).
func TestSimplify(t *testing.T) {
	same := func(x []float32) []float32 { return x }
	for _, c := range []struct {
		name  string
		data  []byte
		ops   string
		shape onnx.Shape
		value func(x []float32) []float32
	}{
		{"chains of Identity on an initializer", newFile(13, N, 2).floats("w", []int64{2}, 3).
			node("Identity w → a").node("Identity a → b").node("Mul x b → c").node("Add c a → y").bytes(N, 2),
			"Mul Add", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{3*x[0] + 3, 3*x[1] + 3} }},
		{"Identity between operators", newFile(13, N, 2).node("Relu x → a").node("Identity a → b").node("Neg b → y").bytes(N, 2),
			"Relu Neg", onnx.Shape{N, 2}, nil},
		{"Identity at the output stays", newFile(13, N, 2).node("Relu x → a").node("Identity a → y").bytes(N, 2),
			"Relu Identity", onnx.Shape{N, 2}, nil},
		{"Constant nodes", newFile(13, N, 2).node("Constant → c", "value", floatTensor("", []int64{2}, 1, -1)).
			node("Constant → d", "value_float", 0.5).node("Add x c → a").node("Mul a d → y").bytes(N, 2),
			"Add Mul", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{(x[0] + 1) / 2, (x[1] - 1) / 2} }},
		{"a zero Pad", newFile(13, N, 1, 4, 4).node("Constant → p", "value", intTensor("", []int64{8}, 0, 0, 0, 0, 0, 0, 0, 0)).
			node("Pad x p → a").node("AveragePool a → y", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}).bytes(N, 1, 2, 2),
			"AveragePool", onnx.Shape{N, 1, 2, 2}, nil},
		{"a Pad that pads", newFile(13, N, 1, 4, 4).ints("p", 0, 0, 1, 1, 0, 0, 1, 1).
			node("Pad x p → a").node("AveragePool a → y", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}).bytes(N, 1, 3, 3),
			"Pad AveragePool", onnx.Shape{N, 1, 3, 3}, nil},
		{"view", newFile(13, N, 2, 3).node("Shape x → s").tensor(intTensor("zero", nil, 0)).ints("axes", 0).
			node("Gather s zero → n", "axis", 0).node("Unsqueeze n axes → n1").node("Constant → m", "value", intTensor("", []int64{1}, -1)).
			node("Concat n1 m → t", "axis", 0).node("Reshape x t → y").bytes(N, 6),
			"Reshape", onnx.Shape{N, 6}, same},
		{"view by sizes", newFile(13, N, 4, 3).node("Shape x → s").tensor(intTensor("zero", nil, 0)).tensor(intTensor("one", nil, 1)).ints("axes", 0).ints("two", 2).
			node("Gather s zero → n").node("Gather s one → c").node("Unsqueeze n axes → n1").node("Unsqueeze c axes → c1").node("Div c1 two → h").
			node("Concat n1 two h two axes → t0", "axis", 0).node("Cast t0 → t1", "to", 7).ints("m", -1).
			node("Slice t1 axes two → t2").node("Concat t2 m → t", "axis", 0).node("Reshape x t → y").bytes(N, 2, 6),
			"Reshape", onnx.Shape{N, 2, 6}, same},
		{"flatten over a size of one", newFile(13, N, 3, 1, 1).node("Flatten x → y", "axis", 1).bytes(N, 3), "Flatten", onnx.Shape{N, 3}, same},
		{"Dropout", newFile(13, N, 2).floats("r", nil, 0.5).node("Dropout x r → a mask").node("Neg a → y").bytes(N, 2),
			"Neg", onnx.Shape{N, 2}, nil},
		{"Dropout of old", newFile(7, N, 2).node("Dropout x → a", "ratio", 0.5).node("Neg a → y").bytes(N, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"a Cast that does nothing", newFile(13, N, 2).node("Cast x → a", "to", 1).node("Neg a → y").bytes(N, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"dead nodes", newFile(13, N, 2).node("Exp x → dead").node("Neg x → y").bytes(N, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"nodes out of order", newFile(13, N, 2).node("Neg a → y").node("Relu x → a").bytes(N, 2), "Relu Neg", onnx.Shape{N, 2}, nil},
		{"ConstantOfShape", newFile(13, N, 2, 2).ints("s", 2, 2).node("ConstantOfShape s → c", "value", floatTensor("", []int64{1}, 2)).
			node("Mul x c → y").bytes(N, 2, 2), "Mul", onnx.Shape{N, 2, 2}, func(x []float32) []float32 {
			return []float32{2 * x[0], 2 * x[1], 2 * x[2], 2 * x[3]}
		}},

		{"a fixed batch", newFile(9, 1, 3, 2).ints("t", 1, -1).node("Relu x → a").node("Reshape a t → y").bytes(1, 6),
			"Relu Reshape", onnx.Shape{N, 6}, nil},
		{"a fixed batch of 4", newFile(9, 4, 3, 2).ints("t", 4, 6).node("Reshape x t → y").bytes(4, 6), "Reshape", onnx.Shape{N, 6}, same},
		{"a fixed batch read from the shape", newFile(13, 1, 3, 2).node("Shape x → s").ints("i", 0).ints("m", 6).node("Gather s i → n").
			node("Concat n m → t", "axis", 0).node("Reshape x t → y").bytes(1, 6), "Reshape", onnx.Shape{N, 6}, same},
		{"a batch written as 0", newFile(13, 0, 2).node("Neg x → y").bytes(0, 2), "Neg", onnx.Shape{N, 2}, nil},
		{"sizes with a fixed batch", newFile(11, 2, 1, 2, 2).floats("roi", []int64{0}, 0).floats("none", []int64{0}, 0).ints("s", 2, 1, 4, 6).
			node("Resize x roi none s → y", "mode", "nearest", "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor").bytes(2, 1, 4, 6),
			"Resize", onnx.Shape{N, 1, 4, 6}, nil},
		{"sizes that are no whole factor", newFile(11, 1, 1, 2, 2).ints("s", 1, 1, 3, 2).
			node("Resize x _ _ s → y", "mode", "nearest", "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor").bytes(1, 1, 3, 2),
			"Resize", onnx.Shape{N, 1, 3, 2}, func(x []float32) []float32 { return []float32{x[0], x[1], x[0], x[1], x[2], x[3]} }},

		{"Clip's attributes", newFile(7, N, 4).node("Clip x → y", "min", -0.5, "max", 0.3).bytes(N, 4), "Clip", onnx.Shape{N, 4},
			func(x []float32) []float32 { return []float32{-0.5, x[1], x[2], 0.3} }},
		{"Clip's one attribute", newFile(9, N, 4).node("Clip x → y", "min", 0.0).bytes(N, 4), "Clip", onnx.Shape{N, 4},
			func(x []float32) []float32 { return []float32{0, 0, x[2], x[3]} }},
		{"axes of Squeeze and Unsqueeze", newFile(11, N, 1, 2).node("Squeeze x → a", "axes", []int64{1}).node("Unsqueeze a → y", "axes", []int64{1, 3}).bytes(N, 1, 2, 1),
			"Squeeze Unsqueeze", onnx.Shape{N, 1, 2, 1}, same},
		{"Slice's attributes", newFile(9, N, 4).node("Slice x → y", "axes", []int64{1}, "starts", []int64{1}, "ends", []int64{-1}).bytes(N, 2),
			"Slice", onnx.Shape{N, 2}, func(x []float32) []float32 { return x[1:3] }},
		{"Slice from the front without axes", newFile(9, N, 4).node("Slice x → y", "starts", []int64{0, 2}, "ends", []int64{1 << 40, 9}).bytes(N, 2),
			"Slice", onnx.Shape{N, 2}, func(x []float32) []float32 { return x[2:] }},
		{"Pad's attributes", newFile(9, N, 2).node("Pad x → y", "pads", []int64{0, 1, 0, 0}, "value", 7.0).bytes(N, 3),
			"Pad", onnx.Shape{N, 3}, func(x []float32) []float32 { return []float32{7, x[0], x[1]} }},
		{"TopK's attribute", newFile(9, N, 3).node("TopK x → y i", "k", 2, "axis", -1).bytes(N, 2),
			"TopK", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{x[2], x[1]} }},
		{"Upsample 7", newFile(7, N, 1, 1, 2).node("Upsample x → y", "scales", []float32{1, 1, 2, 2}, "mode", "nearest").bytes(N, 1, 2, 4),
			"Resize", onnx.Shape{N, 1, 2, 4}, func(x []float32) []float32 {
				return []float32{x[0], x[0], x[1], x[1], x[0], x[0], x[1], x[1]}
			}},
		{"Upsample 9", newFile(9, N, 1, 1, 2).floats("s", []int64{4}, 1, 1, 1, 3).node("Upsample x s → y").bytes(N, 1, 1, 6),
			"Resize", onnx.Shape{N, 1, 1, 6}, func(x []float32) []float32 { return []float32{x[0], x[0], x[0], x[1], x[1], x[1]} }},
		{"Resize 10", newFile(10, N, 1, 1, 2).floats("s", []int64{4}, 1, 1, 2, 1).node("Resize x s → y").bytes(N, 1, 2, 2),
			"Resize", onnx.Shape{N, 1, 2, 2}, func(x []float32) []float32 { return []float32{x[0], x[1], x[0], x[1]} }},
		{"ReduceMean's attribute", newFile(11, N, 2, 1, 2).node("ReduceMean x → y", "axes", []int64{2, 3}, "keepdims", 0).bytes(N, 2),
			"GlobalAveragePool Reshape", onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{(x[0] + x[1]) / 2, (x[2] + x[3]) / 2} }},
		{"ReduceSum's attribute", newFile(11, N, 2, 2).node("ReduceSum x → a", "axes", []int64{1}, "keepdims", 1).node("Neg a → y").bytes(N, 1, 2),
			"Transpose Reshape GlobalAveragePool Reshape Mul Neg", onnx.Shape{N, 1, 2}, func(x []float32) []float32 { return []float32{-x[0] - x[2], -x[1] - x[3]} }},
		{"Softmax 11 on the last axis", newFile(11, N, 2).node("Softmax x → y").bytes(N, 2), "Softmax", onnx.Shape{N, 2}, func(x []float32) []float32 {
			a, b := math.Exp(float64(x[0])), math.Exp(float64(x[1]))
			return []float32{float32(a / (a + b)), float32(b / (a + b))}
		}},
		{"BatchNormalization 7", newFile(7, N, 1).floats("s", []int64{1}, 2).floats("b", []int64{1}, 1).floats("m", []int64{1}, 0.5).floats("v", []int64{1}, 0.25).
			node("BatchNormalization x s b m v → y", "epsilon", 0.0, "momentum", 0.9).bytes(N, 1), "BatchNormalization", onnx.Shape{N, 1},
			func(x []float32) []float32 { return []float32{4*(x[0]-0.5) + 1} }},
		{"auto_pad", newFile(11, N, 1, 3, 3).floats("w", []int64{1, 1, 2, 2}, 1).node("Conv x w → y", "auto_pad", "SAME_UPPER").bytes(N, 1, 3, 3),
			"Conv", onnx.Shape{N, 1, 3, 3}, nil},
		{"axes that are reshaped", newFile(18, N, 3, 2).ints("a", 2).ints("one", 1).ints("empty").node("Reshape a empty → s").node("Reshape s one → v").node("ReduceMax x v → m").node("Flatten m → y").bytes(N, 3),
			"ReduceMax Flatten", onnx.Shape{N, 3}, func(x []float32) []float32 { return []float32{x[1], x[3], x[5]} }},
		{"ceil_mode", newFile(12, N, 1, 3, 3).node("MaxPool x → y", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}, "ceil_mode", 1).bytes(N, 1, 2, 2),
			"MaxPool", onnx.Shape{N, 1, 2, 2}, func(x []float32) []float32 { return []float32{x[4], x[5], x[7], x[8]} }},
		{"output_shape", newFile(11, N, 1, 2, 2).floats("w", []int64{1, 1, 2, 2}, 1).node("ConvTranspose x w → y", "strides", []int64{2, 2}, "output_shape", []int64{3, 3}).bytes(N, 1, 3, 3),
			"ConvTranspose", onnx.Shape{N, 1, 3, 3}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := open(t, c.data)
			if got := operators(g); got != c.ops {
				t.Errorf("operators %s, want %s", got, c.ops)
			}
			if !slices.Equal(g.Outputs[0].Shape, c.shape) {
				t.Errorf("output %v, want %v", g.Outputs[0].Shape, c.shape)
			}
			if g.Opset < onnx.Opset {
				t.Errorf("operator set %d", g.Opset)
			}
			x := ramp(g.Inputs[0].Shape.Items())
			got := run(t, g, x)
			if c.value != nil && !near(got, c.value(x)) {
				t.Errorf("gives %v, want %v", got, c.value(x))
			}
			if strings.Contains(string(c.data), "batch") { // the file's own batch is open
				if want := runFile(t, c.data, x, g.Outputs[0].Shape.Items()); !near(got, want) {
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
		return newFile(13, N, 1, 4, 4).floats("w", []int64{1, 1, 2, 2}, 1).node(op+" x w → y", attrs...).bytes(N, 1, 4, 4)
	}
	pool := func(attrs ...any) []byte {
		return newFile(13, N, 1, 4, 4).node("AveragePool x → y", attrs...).bytes(N, 1, 4, 4)
	}
	for _, c := range []struct {
		name string
		data []byte
		want []string
	}{
		{"nothing", nil, []string{"not an ONNX model", "no graph"}},
		{"text", []byte("import torch\n"), []string{"not an ONNX model"}},
		{"unsupported operators", newFile(13, N, 2).node("LSTM x → a").node("NonMaxSuppression a → b").node("Swish@com.example b → c").node("LSTM c → y").bytes(N, 2),
			[]string{`LSTM (operator set 13) at node 0 "a", node 3 "y"; NonMaxSuppression (operator set 13) at node 1 "b"; com.example.Swish`}},
		{"an old operator set", newFile(6, N, 2).node("Neg x → y").bytes(N, 2), []string{"operator set 6", "7"}},
		{"two inputs", func() []byte {
			f := newFile(13, N, 2).node("Add x z → y")
			f.Graph.Input = append(f.Graph.Input, value("z", 1, N, 2))
			return f.bytes(N, 2)
		}(), []string{`2 inputs ("x", "z")`}},
		{"an integer input", func() []byte {
			f := newFile(13, N, 2).node("Neg x → y")
			f.Graph.Input[0] = value("x", 7, N, 2)
			return f.bytes(N, 2)
		}(), []string{`input "x"`, "float32"}},
		{"an open image size", newFile(13, N, 3, -1, -1).node("Neg x → y").bytes(N, 2), []string{`input "x"`, "open dimension 2"}},
		{"a vector", newFile(13, N).node("Neg x → y").bytes(N), []string{`input "x"`, "rank 2"}},
		{"a giant input", newFile(13, N, big, big).node("Neg x → y").bytes(N, 2), []string{`input "x"`, "shape"}},
		{"a subgraph", newFile(13, N, 2).node("If x → y", "then_branch", newFile(13, N).Graph).bytes(N, 2), []string{`If (operator set 13) at node 0 "y"`, "subgraph"}},
		{"an operator with a subgraph", newFile(13, N, 2).node("Neg x → y", "body", newFile(13, N).Graph).bytes(N, 2), []string{`Neg (operator set 13) at node 0 "y"`, "subgraph"}},
		{"attributes that are not read", newFile(15, N, 2).node("Optional → a", "type", &pb.TypeProto{}).node("OptionalGetElement a → b").node("Add x b → y").bytes(N, 2),
			[]string{`Optional (operator set 15) at node 0 "a"; OptionalGetElement (operator set 15) at node 1 "b"`}},
		{"integer operators", newFile(13, N, 2).node("MatMulInteger x x → a").node("QLinearAdd@com.microsoft a → y").bytes(N, 2),
			[]string{"MatMulInteger", `com.microsoft.QLinearAdd (a domain that the model doesn't import) at node 1 "y"`, "QDQ"}},

		{"a cycle", newFile(13, N, 2).node("Add x b → a").node("Neg a → b").node("Neg b → y").bytes(N, 2), []string{`Add "a"`, `"b"`, "nothing before it writes"}},
		{"a missing tensor", newFile(13, N, 2).node("Add x gone → y").bytes(N, 2), []string{`Add "y"`, `"gone"`}},
		{"a tensor written twice", newFile(13, N, 2).node("Neg x → y").node("Exp x → y").bytes(N, 2), []string{`"y" is written twice`, "Exp"}},
		{"an initializer twice", newFile(13, N, 2).ints("a", 1).ints("a", 2).node("Neg x → y").bytes(N, 2), []string{`"a" is defined twice`}},
		{"an initializer over a node", newFile(13, N, 2).floats("y", []int64{2}, 1).node("Neg x → y").bytes(N, 2), []string{`"y" is written twice`}},
		{"no output", newFile(13, N, 2).node("Neg x → z").bytes(N, 2), []string{`output "y"`}},
		{"a node without output", newFile(13, N, 2).node("Neg x → _").node("Neg x → y").bytes(N, 2), []string{"no output"}},
		{"a node without input", newFile(13, N, 2).node("Relu → y").bytes(N, 2), []string{`Relu "y"`, "no input 0"}},
		{"a NaN weight", newFile(13, N, 2).floats("w", []int64{2}, float32(math.NaN())).node("Mul x w → y").bytes(N, 2), []string{`"w"`, "NaN"}},
		{"a weight too short", newFile(13, N, 2).tensor(floatTensor("w", []int64{3}, 1)).node("Mul x w → y").bytes(N, 2), []string{`"w"`, "3 values", "holds 1"}},
		{"a giant weight", newFile(13, N, 2).tensor(floatTensor("w", []int64{big, big}, 1)).node("Mul x w → y").bytes(N, 2), []string{`"w"`, "not possible"}},
		{"weights elsewhere", func() []byte {
			f := newFile(13, N, 2).floats("w", []int64{2}, 1).node("Mul x w → y")
			f.Graph.Initializer[0].DataLocation = pb.TensorProto_EXTERNAL.Enum()
			return f.bytes(N, 2)
		}(), []string{`"w"`, "another file"}},

		{"a reshape that mixes the batch", newFile(13, 2, 3, 4).ints("t", 6, 4).node("Reshape x t → y").bytes(6, 4),
			[]string{`output "y"`, "[3N 4]", "batch in front"}},
		{"a reshape that infers over the batch", newFile(13, N, 3, 4).ints("t", -1, 4).node("Reshape x t → y").bytes(N, 4),
			[]string{`output "y"`, "[3N 4]", "batch in front"}},
		{"a reshape that moves the batch", newFile(13, N, 3).node("Transpose x → a").ints("t", -1, 3).node("Reshape a t → y").bytes(N, 3),
			[]string{`Reshape "y"`, "mixes the batch"}},
		{"an Expand of a fixed batch", newFile(13, 2, 3).ints("t", 2, 3).node("Expand x t → y").bytes(2, 3), []string{`Expand "y"`, "exported as 2"}},
		{"a constant of the batch's size", newFile(13, 2, 3).floats("c", []int64{2, 3}, 1).node("Add x c → y").bytes(2, 3), []string{`Add "y"`, "exported as 2"}},
		{"sizes that fix the batch", newFile(13, N, 1, 2, 2).ints("s", 2, 1, 4, 4).node("Resize x _ _ s → y").bytes(N, 1, 4, 4), []string{`Resize "y"`, "fix the batch"}},
		{"a reduced batch", newFile(13, N, 3).ints("a", 0).node("ReduceSum x a → m").node("Sub x m → y").bytes(N, 3), []string{`ReduceSum "m"`, "reduces the batch"}},
		{"everything reduced", newFile(13, N, 3).node("ReduceMean x → m").node("Sub x m → y").bytes(N, 3), []string{`ReduceMean "m"`, "reduces the batch"}},
		{"a softmax over the batch", newFile(13, N, 3).node("Softmax x → y", "axis", 0).bytes(N, 3), []string{`Softmax "y"`, "along the batch"}},
		{"a product over the batch", newFile(13, N, 3).node("Transpose x → t").node("MatMul t x → m").node("MatMul x m → y").bytes(N, 3), []string{`MatMul "m"`, "batch"}},
		{"all pairs of the batch", newFile(13, N, 1).node("Transpose x → t").node("Sub x t → d").ints("a", 1).node("ReduceSum d a → y").bytes(N, 1), []string{`Sub "d"`, "batch by itself"}},
		{"a sliced batch", newFile(13, N, 3).ints("o", 1).ints("e", 2).ints("a", 0).node("Slice x o e a → y").bytes(N, 3), []string{`Slice "y"`, "slices the batch"}},
		{"an output without batch", newFile(13, N, 3).floats("w", []int64{2}, 1).node("Neg w → y").bytes(2), []string{`output "y"`, "batch"}},
		{"training mode", newFile(14, N, 1).floats("s", []int64{1}, 1).node("BatchNormalization x s s s s → y", "training_mode", 1).bytes(N, 1), []string{"BatchNormalization", "eval()"}},
		{"a dropout's mask", newFile(13, N, 2).node("Dropout x → a mask").node("Where mask a x → y").bytes(N, 2), []string{"Dropout", "mask"}},
		{"a variance too short", newFile(13, N, 2).floats("s", []int64{2}, 1).floats("v", []int64{1}, 1).node("BatchNormalization x s s s v → y").bytes(N, 2), []string{"BatchNormalization", `"v"`}},
		{"an integer weight", newFile(13, N, 1, 2, 2).tensor(intTensor("w", []int64{1, 1, 1, 1}, 1)).node("Conv x w → y").bytes(N, 1, 2, 2), []string{`Conv "y"`, "not float32"}},

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
		{"a giant Pad", newFile(13, N, 2).ints("p", 0, 1<<62, 0, 1<<62).node("Pad x p → y").bytes(N, 2), []string{`Pad "y"`, "out of range"}},
		{"a Pad of the batch", newFile(13, N, 2).ints("p", 1, 0, -1, 0).node("Pad x p → y").bytes(N, 2), []string{`Pad "y"`, "pads the batch"}},
		{"a giant Resize", newFile(13, N, 1, 2, 2).floats("s", []int64{4}, 1, 1, 1000, 1e30).node("Resize x _ s → y").bytes(N, 1, 2, 2), []string{`Resize "y"`, "scale"}},
		{"giant sizes", newFile(13, 1, 1, 2, 2).ints("s", 1, 1, 1<<62, 1<<62).node("Resize x _ _ s → y").bytes(1, 1, 2, 2), []string{`Resize "y"`}},
		{"a giant Expand", newFile(13, N, 1).ints("s", 1, 1<<62).node("Expand x s → y").bytes(N, 1), []string{`Expand "y"`, "impossible shape"}},
		{"giants in a row", newFile(13, N, 1, 1).ints("s", 1, 1<<30, 1<<30).node("Expand x s → y").bytes(N, 1), []string{`Expand "y"`, "values an item"}},
		{"a giant ConstantOfShape", newFile(13, N, 1).ints("s", 1<<20, 1<<20, 1<<40).node("ConstantOfShape s → c").node("Add x c → y").bytes(N, 1), []string{"ConstantOfShape", "fills a tensor"}},
		{"a giant Reshape", newFile(13, N, 1).ints("s", -1, 1<<62, 1<<62).node("Reshape x s → y").bytes(N, 1), []string{`Reshape "y"`}},
		{"axes named twice", newFile(13, N, 1).ints("a", 3, 3).node("Unsqueeze x a → y").bytes(N, 1), []string{`Unsqueeze "y"`, "twice"}},
		{"an axis outside", newFile(13, N, 1).node("Softmax x → y", "axis", 7).bytes(N, 1), []string{`Softmax "y"`, "axis 7"}},
		{"a step of 0", newFile(13, N, 3).ints("o", 0).ints("e", 3).ints("a", 1).ints("st", 0).node("Slice x o e a st → y").bytes(N, 3), []string{`Slice "y"`, "step"}},
		{"the smallest step", newFile(13, N, 3).ints("o", 2).ints("e", math.MinInt64).ints("a", 1).ints("st", math.MinInt64).node("Slice x o e a st → y").bytes(N, 3), []string{`Slice "y"`, "step"}},
		{"steps beyond integers", newFile(13, N, 2).tensor(intTensor("a", nil, -5)).tensor(intTensor("b", nil, -10)).tensor(intTensor("c", nil, math.MinInt64)).
			node("Range a b c → t").node("Reshape x t → y").bytes(N, 2), []string{`Range "t"`, "counts from -5 to -10 in steps of -9223372036854775808"}},
		{"a number that would pass for the batch", newFile(13, N, 2).ints("t", -1<<62, 2).node("Reshape x t → y").bytes(N, 2), []string{`"t"`, "-4611686018427387904"}},
		{"an attribute that would pass for the batch", newFile(11, N, 2).node("Squeeze x → y", "axes", []int64{1<<20 - 1<<62}).bytes(N, 2), []string{`"axes"`, "-4611686018426339328"}},
		{"a product that would pass for the batch", newFile(13, N, 2).ints("a", 1<<31, 1).ints("b", -1<<31, 2).node("Mul a b → t").node("Reshape x t → y").bytes(N, 2), []string{`Reshape "y"`, "must be constant"}},
		{"a truth value as a factor", newFile(13, N, 2).tensor(&pb.TensorProto{Name: proto.String("b"), DataType: proto.Int32(9), Dims: []int64{2}, Int32Data: []int32{1, 0}}).
			node("Mul x b → y").bytes(N, 2), []string{`Mul "y"`, `"x" and "b" hold values of different types`}},
		{"integer slopes", newFile(13, N, 2).ints("s", 2).node("PRelu x s → y").bytes(N, 2), []string{`PRelu "y"`, "different types"}},
		{"an integer among summands", newFile(13, N, 2).ints("s", 2).node("Sum x x s → y").bytes(N, 2), []string{`Sum "y"`, "different types"}},
		{"a Resize of before version 11 up and down", newFile(10, N, 1, 4, 4).floats("s", []int64{4}, 1, 1, 1.5, 0.7).node("Resize x s → y").bytes(N, 1, 6, 2), []string{`Resize "y"`, "before 11"}},
		{"many parts", newFile(18, N, 1<<20).node("Split x → y", "axis", 1, "num_outputs", 1<<20).bytes(N, 1), []string{"Split", "num_outputs"}},
		{"a giant block", newFile(13, N, 4, 1, 1).node("DepthToSpace x → y", "blocksize", 1<<32).bytes(N, 1), []string{"DepthToSpace", "blocksize"}},
		{"a giant top", newFile(13, N, 4).ints("k", 1<<40).node("TopK x k → y i").bytes(N, 4), []string{"TopK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := onnx.Open(c.data, nil, nil)
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
	f := newFile(13, N, 2).ints("v0", 1, 2, 3, 4)
	for i := range 62 {
		f.node(fmt.Sprintf("Concat v%d v%d → v%d", i, i, i+1), "axis", 0)
	}
	_, err := onnx.Open(f.node("Reshape x v62 → y").bytes(N, 2), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "shape arithmetic") {
		t.Error(err)
	}
	f = newFile(13, N, 2).ints("s", 1<<23)
	for i := range 1000 {
		f.node(fmt.Sprintf("ConstantOfShape s → c%d", i))
		f.Graph.Output = append(f.Graph.Output, value(fmt.Sprint("c", i), 1, 1<<23))
	}
	_, err = onnx.Open(f.node("Neg x → y").bytes(N, 2), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "fills a tensor") {
		t.Error(err)
	}
}

// A chain of 100 000 operators, in the worst order, is read in little time.
func TestDeepChain(t *testing.T) {
	const n = 100_000
	f := newFile(13, N, 2).node(fmt.Sprintf("Neg t%d → y", n))
	for i := n; i > 0; i-- {
		f.node(fmt.Sprintf("Identity t%d → t%d", i-1, i))
	}
	g := open(t, f.node("Relu x → t0").bytes(N, 2))
	if operators(g) != "Relu Neg" {
		t.Error(len(g.Nodes), "operators left")
	}
}

// (x − mean)/std comes before a padded Conv, whose border stays 0: folding it
// into the weights would make the border (0 − mean)/std.
func TestPreprocessKeepsTheBorder(t *testing.T) {
	data := newFile(13, N, 2, 2, 2).floats("w", []int64{1, 2, 3, 3}, 1).node("Conv x w → y", "pads", []int64{1, 1, 1, 1}).bytes(N, 1, 2, 2)
	g, err := onnx.Open(data, []float32{0.5, 0.25}, []float32{0.25, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if got := operators(g); got != "Sub Div Conv" {
		t.Error(got)
	}
	x := []float32{1, 0.5, 0.5, 0.5, 0.75, 0.75, 0.75, 0.75}
	// Every window covers the whole 2×2 image: (1−.5)/.25 + 0·3 + 4·(.75−.25)/.5
	if got := run(t, g, x); !near(got, []float32{6, 6, 6, 6}) {
		t.Error(got)
	}
}

func TestPreprocessErrors(t *testing.T) {
	image := newFile(13, N, 3, 2, 2).node("Neg x → y").bytes(N, 3, 2, 2)
	state := newFile(13, N, 3).node("Neg x → y").bytes(N, 3)
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
		if _, err := onnx.Open(c.data, c.mean, c.std); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := onnx.Open(state, nil, nil); err != nil {
		t.Error(err)
	}
}
