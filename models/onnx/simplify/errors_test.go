package simplify_test

import (
	"fmt"
	"math"
	"slices"
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
	window := func(op string, attrs ...any) File {
		return file(13, N, 1, 4, 4).Floats("w", []int64{1, 1, 2, 2}, 1).Node(op+" x w → y", attrs...)
	}
	pool := func(attrs ...any) File {
		return file(13, N, 1, 4, 4).Node("AveragePool x → y", attrs...)
	}
	two, integer := file(13, N, 2).Node("Add x z → y"), file(13, N, 2).Node("Neg x → y")
	shapeless := file(13, N, 2).Node("Neg x → y")
	shapeless.Graph.Input[0].GetType().GetTensorType().Shape = nil
	two.Graph.Input = append(two.Graph.Input, onnxtest.Value("z", 1, N, 2))
	integer.Graph.Input[0] = onnxtest.Value("x", 7, N, 2)
	for _, c := range []struct {
		name string
		file File
		want string
	}{
		{"unsupported operators", file(13, N, 2).
			Node("LSTM x → a; NonMaxSuppression a → b; Swish@com.example b → c; LSTM c → y"),
			`LSTM (operator set 13) at node 0 "a", node 3 "y" … NonMaxSuppression (operator set 13) at node 1 "b" … ` +
				"com.example.Swish"},
		{"an old operator set", file(6, N, 2).Node("Neg x → y"), "operator set 6 … 7"},
		{"a name of a page", file(13, N, 2).Node("Neg x → " + strings.Repeat("n", 2000) + "; Neg x → y"),
			"a name has 2000 bytes"},
		{"40 dimensions", file(13, N, 2).
			Tensor(onnxtest.FloatTensor("w", slices.Repeat([]int64{1}, 40), 1)).Node("Mul x w → y"), "40 dimensions"},
		{"an operator set to come", file(27, N, 2).Node("Neg x → y"), "operator set 27 … 26 … export"},
		{"two inputs", two, `2 inputs, but a classifier has one: "x", "z"`},
		{"an integer input", integer, `input "x" … float32`},
		{"an open image size", file(13, N, 3, -1, -1).Node("Neg x → y"), `"x" leaves dimension 2 of [N 3 N N] open`},
		{"no shape", shapeless, `input "x" has no shape, not even how many dimensions … export`},
		{"a single number", file(13).Node("Neg x → y"), `input "x" … a single number`},
		{"a giant input", file(13, N, big, big).Node("Neg x → y"), `input "x" … shape`},
		{"a subgraph", file(13, N, 2).Node("If x → y", "then_branch", file(13, N).Graph),
			`If (operator set 13) at node 0 "y" … subgraph`},
		{"an operator with a subgraph", file(13, N, 2).Node("Neg x → y", "body", file(13, N).Graph),
			`Neg (operator set 13) at node 0 "y" … subgraph`},
		{"attributes that are not read", file(15, N, 2).Node("Optional → a", "type", &pb.TypeProto{}).
			Node("OptionalGetElement a → b; Add x b → y"),
			`Optional (operator set 15) at node 0 "a" … "type" can't be written`},
		{"integer operators", file(13, N, 2).Node("NonZero x → a; QLinearWhere@com.microsoft a → y"),
			`NonZero … com.microsoft.QLinearWhere (a domain that the model doesn't import) at node 1 "y" … QDQ`},

		{"a cycle", file(13, N, 2).Node("Add x b → a; Neg a → b; Neg b → y"),
			`Add "a" … "b" … nothing before it writes`},
		{"a missing tensor", file(13, N, 2).Node("Add x gone → y"), `Add "y" … "gone"`},
		{"a tensor written twice", file(13, N, 2).Node("Neg x → y; Exp x → y"), `"y" is written twice … Exp`},
		{"an initializer twice", file(13, N, 2).Node("a=1,; a=2,; Neg x → y"), `"a" is defined twice`},
		{"an initializer over a node", file(13, N, 2).Node("y[2]=1.0; Neg x → y"), `"y" is written twice`},
		{"no output", file(13, N, 2).Node("Neg x → z"), `output "y"`},
		{"a node without output", file(13, N, 2).Node("Neg x → _; Neg x → y"), "no output"},
		{"a node without input", file(13, N, 2).Node("Relu → y"), `Relu "y" … no input 0`},
		{"a NaN weight", file(13, N, 2).Floats("w", []int64{2}, float32(math.NaN())).Node("Mul x w → y"), `"w" … NaN`},
		{"a weight too short", file(13, N, 2).Tensor(onnxtest.FloatTensor("w", []int64{3}, 1)).Node("Mul x w → y"),
			`"w" … 3 values … holds 1`},
		{"a giant weight", file(13, N, 2).Tensor(onnxtest.FloatTensor("w", []int64{big, big}, 1)).Node("Mul x w → y"),
			`"w" … not possible`},
		{"weights elsewhere", file(13, N, 2).Tensor(onnxtest.External("w", []int64{2}, "")).Node("Mul x w → y"),
			`"w" … another file`},

		{"a reshape that mixes the batch", file(13, 2, 3, 4).Node("t=6,4; Reshape x t → y"),
			`output "y" … [3N 4] … batch in front`},
		{"a reshape that infers over the batch", file(13, N, 3, 4).Node("t=-1,4; Reshape x t → y"),
			`output "y" … [3N 4] … batch in front`},
		{"a reshape that moves the batch", file(13, N, 3).Node("Transpose x → a; t=-1,3; Reshape a t → y"),
			`Reshape "y" … mixes the batch`},
		{"an Expand of a fixed batch", file(13, 2, 3).Node("t=3,2,3; u=6,3; Expand x t → z; Reshape z u → y"),
			`Reshape "y" … exported as 2`},
		{"a constant that differs among the items", file(13, 2, 3).Floats("c", []int64{2, 3}, 1, 2, 3, 4, 5, 6).
			Node("Add x c → y"), `Add "y" … exported as 2`},
		{"sizes that fix the batch", file(13, N, 1, 2, 2).Node("s=2,1,4,4; Resize x _ _ s → y"),
			`Resize "y" … fix the batch`},
		{"a reduced batch", file(13, N, 3).Node("a=0,; ReduceSum x a → m; Sub x m → y"),
			`ReduceSum "m" … reduces the batch`},
		{"everything reduced", file(13, N, 3).Node("ReduceMean x → m; Sub x m → y"),
			`ReduceMean "m" … reduces the batch`},
		{"a softmax over the batch", file(13, N, 3).Node("Softmax x → y axis=0"), `Softmax "y" … along the batch`},
		{"a product over the batch", file(13, N, 3).Node("Transpose x → t; MatMul t x → m; MatMul x m → y"),
			`MatMul "m" … batch`},
		{"all pairs of the batch", file(13, N, 1).Node("Transpose x → t; Sub x t → d; a=1,; ReduceSum d a → y"),
			`Sub "d" … batch by itself`},
		{"a sliced batch", file(13, N, 3).Node("o=1,; e=2,; a=0,; Slice x o e a → y"), `Slice "y" … slices the batch`},
		{"an output without batch", file(13, N, 3).Node("w[2]=1.0; Neg w → y"), "its output is … a constant"},
		{"training mode", file(14, N, 1).Node("s[1]=1.0; BatchNormalization x s s s s → y training_mode=1"),
			"BatchNormalization … eval()"},
		{"a dropout's mask", file(13, N, 2).Node("Dropout x → a mask; Where mask a x → y"), "Dropout … mask"},
		{"a variance too short", file(13, N, 2).Node("s[2]=1.0; v[1]=1.0; BatchNormalization x s s s v → y"),
			`BatchNormalization … "v"`},
		{"an integer weight",
			file(13, N, 1, 2, 2).Tensor(onnxtest.IntTensor("w", []int64{1, 1, 1, 1}, 1)).Node("Conv x w → y"),
			`Conv "y" … not float32`},

		{"pads beyond integers", window("Conv", "pads", []int64{1 << 60, 1 << 60, 1 << 60, 1 << 60}),
			`Conv "y" … pads`},
		{"negative pads", window("Conv", "pads", []int64{-1, 0, 0, 0}), `Conv "y" … pads`},
		{"strides of 0", window("Conv", "strides", []int64{0, 1}), `Conv "y" … strides`},
		{"dilations beyond integers", window("Conv", "dilations", []int64{1 << 62, 1}), `Conv "y" … dilations`},
		{"groups beyond integers", window("Conv", "group", 1<<62), `Conv "y" … groups`},
		{"a wide kernel", window("Conv", "kernel_shape", []int64{1 << 60, 2}), `Conv "y" … kernel_shape`},
		{"transposed strides", window("ConvTranspose", "strides", []int64{1 << 40, 1}), `ConvTranspose "y" … strides`},
		{"a transposed giant", window("ConvTranspose", "strides", []int64{1 << 20, 1 << 20}),
			`ConvTranspose "y" … values an item`},
		{"too much output_padding",
			window("ConvTranspose", "dilations", []int64{3, 3}, "output_padding", []int64{2, 1}),
			`ConvTranspose "y" … output_padding`},
		{"a pool without kernel", pool(), `AveragePool "y" … kernel_shape`},
		{"a pool of pads", pool("kernel_shape", []int64{2, 2}, "pads", []int64{2, 0, 0, 0}), `AveragePool "y" … pads`},
		{"a giant pool",
			pool("kernel_shape", []int64{1 << 20, 1 << 20}, "pads",
				[]int64{1<<20 - 1, 1<<20 - 1, 1<<20 - 1, 1<<20 - 1}),
			`AveragePool "y" … kernel`},
		{"a pool that counts beyond its pads",
			pool("kernel_shape", []int64{3, 3}, "strides", []int64{2, 2}, "ceil_mode", 1, "count_include_pad", 1),
			`AveragePool "y" … ceil_mode`},
		{"a giant Pad", file(13, N, 2).Ints("p", 0, 1<<62, 0, 1<<62).Node("Pad x p → y"), `Pad "y" … out of range`},
		{"a Pad of the batch", file(13, N, 2).Node("p=1,0,-1,0; Pad x p → y"), `Pad "y" … pads the batch`},
		{"a giant Resize", file(13, N, 1, 2, 2).Floats("s", []int64{4}, 1, 1, 1000, 1e30).Node("Resize x _ s → y"),
			`Resize "y" … scale`},
		{"giant sizes", file(13, 1, 1, 2, 2).Ints("s", 1, 1, 1<<62, 1<<62).Node("Resize x _ _ s → y"), `Resize "y"`},
		{"a giant Expand", file(13, N, 1).Ints("s", 1, 1<<62).Node("Expand x s → y"), `Expand "y" … impossible shape`},
		{"giants in a row", file(13, N, 1, 1).Ints("s", 1, 1<<30, 1<<30).Node("Expand x s → y"),
			`Expand "y" … values an item`},
		{"a giant ConstantOfShape",
			file(13, N, 1).Ints("s", 1<<20, 1<<20, 1<<40).Node("ConstantOfShape s → c; Add x c → y"),
			"ConstantOfShape … runtime does not compute it … overflow"},
		{"a giant Reshape", file(13, N, 1).Ints("s", -1, 1<<62, 1<<62).Node("Reshape x s → y"), `Reshape "y"`},
		{"axes named twice", file(13, N, 1).Node("a=3,3; Unsqueeze x a → y"), `Unsqueeze "y" … twice`},
		{"an axis outside", file(13, N, 1).Node("Softmax x → y axis=7"), `Softmax "y" … axis 7`},
		{"a step of 0", file(13, N, 3).Node("o=0,; e=3,; a=1,; st=0,; Slice x o e a st → y"), `Slice "y" … step`},
		{"the smallest step", file(13, N, 3).Ints("o", 2).Ints("e", math.MinInt64).Ints("a", 1).
			Ints("st", math.MinInt64).Node("Slice x o e a st → y"), `Slice "y" … step`},
		{"steps beyond integers", file(13, N, 2).Int("a", -5).Int("b", -10).
			Tensor(onnxtest.IntTensor("c", nil, math.MinInt64)).Node("Range a b c → t; Reshape x t → y"),
			`Reshape "y" … target [-5]`},
		{"too long a Range", file(13, N, 2).Node("a=0; b=1000000000; c=1; Range a b c → t; Reshape x t → y"),
			`Range "t" … takes more memory or time`},
		{"a Range in steps of 0", file(13, N, 2).Node("a=0; b=1; c=0; Range a b c → t; Reshape x t → y"),
			`Range "t" … can not be zero`},
		{"a number that would pass for the batch", file(13, N, 2).Ints("t", -1<<62, 2).Node("Reshape x t → y"),
			`"t" … -4611686018427387904`},
		{"an attribute that would pass for the batch",
			file(11, N, 2).Node("Squeeze x → y", "axes", []int64{1<<20 - 1<<62}), `"axes" … -4611686018426339328`},
		{"a product that would pass for the batch",
			file(13, N, 2).Ints("a", 1<<31, 1).Ints("b", -1<<31, 2).Node("Mul a b → t; Reshape x t → y"),
			`Reshape "y" … must be constant`},
		{"a truth value as a factor",
			file(13, N, 2).Tensor(quantized("b", 9, []int64{2}, 1, 0)).Node("Mul x b → y"),
			`Mul "y" … "x" and "b" hold values of different types`},
		{"integer slopes", file(13, N, 2).Node("s=2,; PRelu x s → y"), `PRelu "y" … different types`},
		{"an integer among summands", file(13, N, 2).Node("s=2,; Sum x x s → y"), `Sum "y" … different types`},
		{"a Resize of before version 11 up and down",
			file(10, N, 1, 4, 4).Floats("s", []int64{4}, 1, 1, 1.5, 0.7).Node("Resize x s → y"),
			`Resize "y" … before 11`},
		{"many parts", file(18, N, 1<<20).Node("Split x → y", "axis", 1, "num_outputs", 1<<20), "Split … num_outputs"},
		{"a giant block", file(13, N, 4, 1, 1).Node("DepthToSpace x → y", "blocksize", 1<<32),
			"DepthToSpace … blocksize"},
		{"a giant top", file(13, N, 4).Ints("k", 1<<40).Node("TopK x k → y i"), "TopK"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := simplify.Open(c.file.Bytes(N, 2), simplify.Options{})
			must.Refuse(t, err, strings.Split(c.want, " … ")...)
		})
	}
	for data, want := range map[string]string{"": "no graph", "import torch\n": "not an ONNX model"} {
		_, err := simplify.Open([]byte(data), simplify.Options{})
		must.Refuse(t, err, want)
	}
}

// A message names some of many nodes.
func TestManyUnsupported(t *testing.T) {
	f := file(13, N, 2)
	for i := range 60 {
		f.Node(fmt.Sprintf("LSTM x → a%d; GRU x → b%d", i, i))
		f.Graph.Output = append(f.Graph.Output, onnxtest.Value(fmt.Sprint("a", i), 1, N, 2),
			onnxtest.Value(fmt.Sprint("b", i), 1, N, 2))
	}
	_, err := simplify.Open(f.Node("Neg x → y").Bytes(N, 2), simplify.Options{})
	must.Refuse(t, err, `LSTM (operator set 13) at node 0 "a0", node 2 "a1", node 4 "a2"; `+
		`GRU (operator set 13) at node 1 "b0", node 3 "b1"; and 115 nodes more, which selfheal inspect lists`)
}
