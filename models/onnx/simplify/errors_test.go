package simplify_test

import (
	"math"
	"strings"
	"testing"

	"selfheal/internal/must"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// Errors name what the user needs, on one line.
func TestOpenErrors(t *testing.T) {
	big := int64(1) << 40
	window := func(op string, attrs ...any) onnxtest.File {
		return onnxtest.New(13, N, 1, 4, 4).Floats("w", []int64{1, 1, 2, 2}, 1).Node(op+" x w → y", attrs...)
	}
	pool := func(attrs ...any) onnxtest.File {
		return onnxtest.New(13, N, 1, 4, 4).Node("AveragePool x → y", attrs...)
	}
	for _, c := range []struct {
		name string
		file onnxtest.File
		want []string
	}{
		{"unsupported operators", onnxtest.New(13, N, 2).
			Node("LSTM x → a; NonMaxSuppression a → b; Swish@com.example b → c; LSTM c → y"),
			[]string{`LSTM (operator set 13) at node 0 "a", node 3 "y"`,
				`NonMaxSuppression (operator set 13) at node 1 "b"`, "com.example.Swish"}},
		{"an old operator set", onnxtest.New(6, N, 2).Node("Neg x → y"), []string{"operator set 6", "7"}},
		{"two inputs", func() onnxtest.File {
			f := onnxtest.New(13, N, 2).Node("Add x z → y")
			f.Graph.Input = append(f.Graph.Input, onnxtest.Value("z", 1, N, 2))
			return f
		}(), []string{`2 inputs ("x", "z")`}},
		{"an integer input", func() onnxtest.File {
			f := onnxtest.New(13, N, 2).Node("Neg x → y")
			f.Graph.Input[0] = onnxtest.Value("x", 7, N, 2)
			return f
		}(), []string{`input "x"`, "float32"}},
		{"an open image size", onnxtest.New(13, N, 3, -1, -1).Node("Neg x → y"),
			[]string{`input "x"`, "open dimension 2"}},
		{"a vector", onnxtest.New(13, N).Node("Neg x → y"), []string{`input "x"`, "rank 2"}},
		{"a giant input", onnxtest.New(13, N, big, big).Node("Neg x → y"), []string{`input "x"`, "shape"}},
		{"a subgraph", onnxtest.New(13, N, 2).Node("If x → y", "then_branch", onnxtest.New(13, N).Graph),
			[]string{`If (operator set 13) at node 0 "y"`, "subgraph"}},
		{"an operator with a subgraph", onnxtest.New(13, N, 2).Node("Neg x → y", "body", onnxtest.New(13, N).Graph),
			[]string{`Neg (operator set 13) at node 0 "y"`, "subgraph"}},
		{"attributes that are not read", onnxtest.New(15, N, 2).Node("Optional → a", "type", &pb.TypeProto{}).
			Node("OptionalGetElement a → b; Add x b → y"),
			[]string{`Optional (operator set 15) at node 0 "a"`,
				`OptionalGetElement (operator set 15) at node 1 "b"`}},
		{"integer operators", onnxtest.New(13, N, 2).Node("MatMulInteger x x → a; QLinearAdd@com.microsoft a → y"),
			[]string{"MatMulInteger", `com.microsoft.QLinearAdd (a domain that the model doesn't import) at node 1 "y"`,
				"QDQ"}},

		{"a cycle", onnxtest.New(13, N, 2).Node("Add x b → a; Neg a → b; Neg b → y"),
			[]string{`Add "a"`, `"b"`, "nothing before it writes"}},
		{"a missing tensor", onnxtest.New(13, N, 2).Node("Add x gone → y"), []string{`Add "y"`, `"gone"`}},
		{"a tensor written twice", onnxtest.New(13, N, 2).Node("Neg x → y; Exp x → y"),
			[]string{`"y" is written twice`, "Exp"}},
		{"an initializer twice", onnxtest.New(13, N, 2).Ints("a", 1).Ints("a", 2).Node("Neg x → y"),
			[]string{`"a" is defined twice`}},
		{"an initializer over a node", onnxtest.New(13, N, 2).Floats("y", []int64{2}, 1).Node("Neg x → y"),
			[]string{`"y" is written twice`}},
		{"no output", onnxtest.New(13, N, 2).Node("Neg x → z"), []string{`output "y"`}},
		{"a node without output", onnxtest.New(13, N, 2).Node("Neg x → _; Neg x → y"), []string{"no output"}},
		{"a node without input", onnxtest.New(13, N, 2).Node("Relu → y"), []string{`Relu "y"`, "no input 0"}},
		{"a NaN weight", onnxtest.New(13, N, 2).Floats("w", []int64{2}, float32(math.NaN())).Node("Mul x w → y"),
			[]string{`"w"`, "NaN"}},
		{"a weight too short", onnxtest.New(13, N, 2).Tensor(onnxtest.FloatTensor("w", []int64{3}, 1)).
			Node("Mul x w → y"),
			[]string{`"w"`, "3 values", "holds 1"}},
		{"a giant weight", onnxtest.New(13, N, 2).Tensor(onnxtest.FloatTensor("w", []int64{big, big}, 1)).
			Node("Mul x w → y"),
			[]string{`"w"`, "not possible"}},
		{"weights elsewhere", func() onnxtest.File {
			f := onnxtest.New(13, N, 2).Floats("w", []int64{2}, 1).Node("Mul x w → y")
			f.Graph.Initializer[0].DataLocation = pb.TensorProto_EXTERNAL.Enum()
			return f
		}(), []string{`"w"`, "another file"}},

		{"a reshape that mixes the batch", onnxtest.New(13, 2, 3, 4).Ints("t", 6, 4).Node("Reshape x t → y"),
			[]string{`output "y"`, "[3N 4]", "batch in front"}},
		{"a reshape that infers over the batch", onnxtest.New(13, N, 3, 4).Ints("t", -1, 4).Node("Reshape x t → y"),
			[]string{`output "y"`, "[3N 4]", "batch in front"}},
		{"a reshape that moves the batch", onnxtest.New(13, N, 3).Node("Transpose x → a").Ints("t", -1, 3).
			Node("Reshape a t → y"),
			[]string{`Reshape "y"`, "mixes the batch"}},
		{"an Expand of a fixed batch", onnxtest.New(13, 2, 3).Ints("t", 2, 3).Node("Expand x t → y"),
			[]string{`Expand "y"`, "exported as 2"}},
		{"a constant of the batch's size", onnxtest.New(13, 2, 3).Floats("c", []int64{2, 3}, 1).Node("Add x c → y"),
			[]string{`Add "y"`, "exported as 2"}},
		{"sizes that fix the batch", onnxtest.New(13, N, 1, 2, 2).Ints("s", 2, 1, 4, 4).Node("Resize x _ _ s → y"),
			[]string{`Resize "y"`, "fix the batch"}},
		{"a reduced batch", onnxtest.New(13, N, 3).Ints("a", 0).Node("ReduceSum x a → m; Sub x m → y"),
			[]string{`ReduceSum "m"`, "reduces the batch"}},
		{"everything reduced", onnxtest.New(13, N, 3).Node("ReduceMean x → m; Sub x m → y"),
			[]string{`ReduceMean "m"`, "reduces the batch"}},
		{"a softmax over the batch", onnxtest.New(13, N, 3).Node("Softmax x → y axis=0"),
			[]string{`Softmax "y"`, "along the batch"}},
		{"a product over the batch", onnxtest.New(13, N, 3).
			Node("Transpose x → t; MatMul t x → m; MatMul x m → y"),
			[]string{`MatMul "m"`, "batch"}},
		{"all pairs of the batch", onnxtest.New(13, N, 1).Node("Transpose x → t; Sub x t → d").Ints("a", 1).
			Node("ReduceSum d a → y"),
			[]string{`Sub "d"`, "batch by itself"}},
		{"a sliced batch", onnxtest.New(13, N, 3).Ints("o", 1).Ints("e", 2).Ints("a", 0).Node("Slice x o e a → y"),
			[]string{`Slice "y"`, "slices the batch"}},
		{"an output without batch", onnxtest.New(13, N, 3).Floats("w", []int64{2}, 1).Node("Neg w → y"),
			[]string{`output "y"`, "batch"}},
		{"training mode", onnxtest.New(14, N, 1).Floats("s", []int64{1}, 1).
			Node("BatchNormalization x s s s s → y training_mode=1"),
			[]string{"BatchNormalization", "eval()"}},
		{"a dropout's mask", onnxtest.New(13, N, 2).Node("Dropout x → a mask; Where mask a x → y"),
			[]string{"Dropout", "mask"}},
		{"a variance too short", onnxtest.New(13, N, 2).Floats("s", []int64{2}, 1).Floats("v", []int64{1}, 1).
			Node("BatchNormalization x s s s v → y"),
			[]string{"BatchNormalization", `"v"`}},
		{"an integer weight", onnxtest.New(13, N, 1, 2, 2).Tensor(onnxtest.IntTensor("w", []int64{1, 1, 1, 1}, 1)).
			Node("Conv x w → y"),
			[]string{`Conv "y"`, "not float32"}},

		{"pads beyond integers", window("Conv", "pads", []int64{1 << 60, 1 << 60, 1 << 60, 1 << 60}),
			[]string{`Conv "y"`, "pads"}},
		{"negative pads", window("Conv", "pads", []int64{-1, 0, 0, 0}), []string{`Conv "y"`, "pads"}},
		{"strides of 0", window("Conv", "strides", []int64{0, 1}), []string{`Conv "y"`, "strides"}},
		{"dilations beyond integers", window("Conv", "dilations", []int64{1 << 62, 1}),
			[]string{`Conv "y"`, "dilations"}},
		{"groups beyond integers", window("Conv", "group", 1<<62), []string{`Conv "y"`, "groups"}},
		{"a wide kernel", window("Conv", "kernel_shape", []int64{1 << 60, 2}), []string{`Conv "y"`, "kernel_shape"}},
		{"transposed strides", window("ConvTranspose", "strides", []int64{1 << 40, 1}),
			[]string{`ConvTranspose "y"`, "strides"}},
		{"a transposed giant", window("ConvTranspose", "strides", []int64{1 << 20, 1 << 20}),
			[]string{`ConvTranspose "y"`, "values an item"}},
		{"too much output_padding",
			window("ConvTranspose", "dilations", []int64{3, 3}, "output_padding", []int64{2, 1}),
			[]string{`ConvTranspose "y"`, "output_padding"}},
		{"a pool without kernel", pool(), []string{`AveragePool "y"`, "kernel_shape"}},
		{"a pool of pads", pool("kernel_shape", []int64{2, 2}, "pads", []int64{2, 0, 0, 0}),
			[]string{`AveragePool "y"`, "pads"}},
		{"a giant pool",
			pool("kernel_shape", []int64{1 << 20, 1 << 20}, "pads",
				[]int64{1<<20 - 1, 1<<20 - 1, 1<<20 - 1, 1<<20 - 1}),
			[]string{`AveragePool "y"`, "kernel"}},
		{"a pool that counts beyond its pads",
			pool("kernel_shape", []int64{3, 3}, "strides", []int64{2, 2}, "ceil_mode", 1, "count_include_pad", 1),
			[]string{`AveragePool "y"`, "ceil_mode"}},
		{"a giant Pad", onnxtest.New(13, N, 2).Ints("p", 0, 1<<62, 0, 1<<62).Node("Pad x p → y"),
			[]string{`Pad "y"`, "out of range"}},
		{"a Pad of the batch", onnxtest.New(13, N, 2).Ints("p", 1, 0, -1, 0).Node("Pad x p → y"),
			[]string{`Pad "y"`, "pads the batch"}},
		{"a giant Resize", onnxtest.New(13, N, 1, 2, 2).Floats("s", []int64{4}, 1, 1, 1000, 1e30).
			Node("Resize x _ s → y"),
			[]string{`Resize "y"`, "scale"}},
		{"giant sizes", onnxtest.New(13, 1, 1, 2, 2).Ints("s", 1, 1, 1<<62, 1<<62).Node("Resize x _ _ s → y"),
			[]string{`Resize "y"`}},
		{"a giant Expand", onnxtest.New(13, N, 1).Ints("s", 1, 1<<62).Node("Expand x s → y"),
			[]string{`Expand "y"`, "impossible shape"}},
		{"giants in a row", onnxtest.New(13, N, 1, 1).Ints("s", 1, 1<<30, 1<<30).Node("Expand x s → y"),
			[]string{`Expand "y"`, "values an item"}},
		{"a giant ConstantOfShape", onnxtest.New(13, N, 1).Ints("s", 1<<20, 1<<20, 1<<40).
			Node("ConstantOfShape s → c; Add x c → y"),
			[]string{"ConstantOfShape", "fills a tensor"}},
		{"a giant Reshape", onnxtest.New(13, N, 1).Ints("s", -1, 1<<62, 1<<62).Node("Reshape x s → y"),
			[]string{`Reshape "y"`}},
		{"axes named twice", onnxtest.New(13, N, 1).Ints("a", 3, 3).Node("Unsqueeze x a → y"),
			[]string{`Unsqueeze "y"`, "twice"}},
		{"an axis outside", onnxtest.New(13, N, 1).Node("Softmax x → y axis=7"), []string{`Softmax "y"`, "axis 7"}},
		{"a step of 0", onnxtest.New(13, N, 3).Ints("o", 0).Ints("e", 3).Ints("a", 1).Ints("st", 0).
			Node("Slice x o e a st → y"),
			[]string{`Slice "y"`, "step"}},
		{"the smallest step", onnxtest.New(13, N, 3).Ints("o", 2).Ints("e", math.MinInt64).Ints("a", 1).
			Ints("st", math.MinInt64).Node("Slice x o e a st → y"),
			[]string{`Slice "y"`, "step"}},
		{"steps beyond integers", onnxtest.New(13, N, 2).Int("a", -5).Int("b", -10).
			Tensor(onnxtest.IntTensor("c", nil, math.MinInt64)).Node("Range a b c → t; Reshape x t → y"),
			[]string{`Range "t"`, "counts from -5 to -10 in steps of -9223372036854775808"}},
		{"a number that would pass for the batch", onnxtest.New(13, N, 2).Ints("t", -1<<62, 2).
			Node("Reshape x t → y"),
			[]string{`"t"`, "-4611686018427387904"}},
		{"an attribute that would pass for the batch", onnxtest.New(11, N, 2).
			Node("Squeeze x → y", "axes", []int64{1<<20 - 1<<62}),
			[]string{`"axes"`, "-4611686018426339328"}},
		{"a product that would pass for the batch", onnxtest.New(13, N, 2).Ints("a", 1<<31, 1).Ints("b", -1<<31, 2).
			Node("Mul a b → t; Reshape x t → y"),
			[]string{`Reshape "y"`, "must be constant"}},
		{"a truth value as a factor", onnxtest.New(13, N, 2).
			Tensor(onnxtest.Quantized("b", 9, []int64{2}, 1, 0)).
			Node("Mul x b → y"),
			[]string{`Mul "y"`, `"x" and "b" hold values of different types`}},
		{"integer slopes", onnxtest.New(13, N, 2).Ints("s", 2).Node("PRelu x s → y"),
			[]string{`PRelu "y"`, "different types"}},
		{"an integer among summands", onnxtest.New(13, N, 2).Ints("s", 2).Node("Sum x x s → y"),
			[]string{`Sum "y"`, "different types"}},
		{"a Resize of before version 11 up and down", onnxtest.New(10, N, 1, 4, 4).
			Floats("s", []int64{4}, 1, 1, 1.5, 0.7).Node("Resize x s → y"),
			[]string{`Resize "y"`, "before 11"}},
		{"many parts", onnxtest.New(18, N, 1<<20).Node("Split x → y", "axis", 1, "num_outputs", 1<<20),
			[]string{"Split", "num_outputs"}},
		{"a giant block", onnxtest.New(13, N, 4, 1, 1).Node("DepthToSpace x → y", "blocksize", 1<<32),
			[]string{"DepthToSpace", "blocksize"}},
		{"a giant top", onnxtest.New(13, N, 4).Ints("k", 1<<40).Node("TopK x k → y i"), []string{"TopK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := simplify.Open(c.file.Bytes(N, 2), nil, nil)
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
	for data, want := range map[string]string{"": "no graph", "import torch\n": "not an ONNX model"} {
		_, err := simplify.Open([]byte(data), nil, nil)
		must.Refuse(t, err, want)
	}
}
