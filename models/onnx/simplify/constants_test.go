package simplify_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// onConstants begins a file whose constants w = [-1.5 0 2], i = [2 -1 0], m = [[1 2] [3 4]] make k; y = x + k, of three
// values.
func onConstants(opset int64) File {
	return file(opset, N, 3).
		Tensor(onnxtest.FloatTensor("w", []int64{3}, -1.5, 0, 2)).Ints("i", 2, -1, 0).
		Tensor(onnxtest.FloatTensor("m", []int64{2, 2}, 1, 2, 3, 4))
}

func branch(f File, output string) *pb.GraphProto {
	f.Graph.Input = nil
	f.Graph.Output = []*pb.ValueInfoProto{onnxtest.Value(output, 1, 3)}
	return f.Graph
}

// The runtime computes nodes that do not depend on the input as it does in the file, whatever the operator.
func TestConstantsAreComputed(t *testing.T) {
	three := func(op string) string { return op + " w → k" }
	float := func(nodes, of string) string { return nodes + "; Cast " + of + " → k to=1" }
	then, otherwise := branch(file(18).Node("Exp w → a"), "a"), branch(file(18).Node("Neg w → b"), "b")
	for name, f := range map[string]File{
		"Abs": onConstants(18).Node(three("Abs")), "Sign": onConstants(18).Node(three("Sign")),
		"Neg": onConstants(18).Node(three("Neg")), "Exp": onConstants(18).Node(three("Exp")),
		"Sinh": onConstants(18).Node(three("Sinh")), "Round": onConstants(18).Node(three("Round")),
		"Hardmax": onConstants(18).Node("Hardmax w → k"), "Softmax": onConstants(18).Node(three("Softmax")),
		"Pow":      onConstants(18).Node("two=2.0; Pow w two → k"),
		"Max":      onConstants(18).Node("one=1.0; Max w one → k"),
		"Clip":     onConstants(18).Node("one=1; zero=0; Clip i zero one → a").Node(float("Identity a → b", "b")),
		"integers": onConstants(18).Node(float("three=3; Mod i three → a; Mul a a → b; Neg b → c; Abs c → d", "d")),
		"CumSum":   onConstants(18).Node("zero=0; CumSum w zero → k"),
		"Expand":   onConstants(18).Node("v[1]=2.5; s=3,; Expand v s → k"),
		"Tile":     onConstants(18).Node("v[1]=2.5; s=3,; Tile v s → k"),
		"Size":     onConstants(18).Node(float("Size m → a", "a")),
		"Shape":    onConstants(18).Node(float("Shape w → a", "a")),
		"NonZero": onConstants(18).Node("NonZero w → a; r=1,").
			Node("ReduceSum a r → b keepdims=0").Node(float("Identity b → c", "c")),
		"Unique": onConstants(18).Node("Unique w → k sorted=1"),
		"Where":  onConstants(18).Node("m0=7.0; Less w m0 → a; Where a w m0 → k"),
		"IsNaN":  onConstants(18).Node(float("IsNaN w → a", "a")),
		"ArgMax": onConstants(18).Node(float("ArgMax w → a axis=0", "a")),
		"TopK":   onConstants(18).Node("n=3,; TopK w n → k a"),
		"OneHot": onConstants(18).Node("one=1,; n=3; v=0,1").
			Node("OneHot one n v → a").Node(float("Identity a → b", "b")),
		"EyeLike": onConstants(18).Node("EyeLike m → a; Flatten a → b axis=0; z=0,; n=3,").
			Node("Slice b z n z1 → c; z1=1,; r=3,; Reshape c r → k"),
		"Trilu":     onConstants(18).Node("Trilu m → a upper=0; r=4,; Reshape a r → b; z=0,; n=3,; Slice b z n → k"),
		"MatMul":    onConstants(18).Node("MatMul m m → a; ReduceMax a → k keepdims=0"),
		"Gemm":      onConstants(18).Node("Gemm m m → a; ReduceMin a → k keepdims=0"),
		"Einsum":    onConstants(18).Node("Einsum m m → k equation=ij,ji->"),
		"Det":       onConstants(18).Node("Det m → k"),
		"Resize":    onConstants(18).Node("v[1,1,1]=2.5; s=1,1,3; Resize v _ _ s → a; r=3,; Reshape a r → k"),
		"ScatterND": onConstants(18).Node("p=1,; u[1]=9.0; q=1,1; Reshape p q → at; ScatterND w at u → k"),
		"Scatter":   onConstants(18).Node("p=1,; u[1]=9.0; ScatterElements w p u → k axis=0"),
		"Range":     onConstants(18).Node("a=5; b=-1; c=-2; Range a b c → d").Node(float("Identity d → e", "e")),
		"ReduceL2":  onConstants(18).Node("ReduceL2 m → k keepdims=0"),
		"Erf in 9":  onConstants(9).Node("Erf w → k"),
		"LSTM": onConstants(18).Node("X[2,1,1]=0.5; W[1,12,1]=0.25; R[1,12,3]=0.1; LSTM X W R → _ h → hidden_size=3").
			Node("r=3,; Reshape h r → k"),
		"double": onConstants(18).Node("Cast w → a to=11; Exp a → b; Log b → c; Cast c → k to=1"),
		"float16": onConstants(18).Node("Cast w → a to=10; t=0.1; CastLike t a → b").
			Node("Mul a b → c; Cast c → k to=1"),
		"int32": onConstants(18).Node("Cast i → a to=6; Abs a → b; Cast b → k to=1"),
		"uint8": onConstants(18).Node("Abs i → z; Cast z → a to=2; Add a a → b; Cast b → k to=1"),
		"bool":  onConstants(18).Node("Cast i → a to=9; Not a → b; Cast b → k to=1"),
		"BatchNormalization": onConstants(18).Node("v=1.0; q=1,3,1; Reshape w q → a; s[3]=1.0").
			Node("BatchNormalization a s s s s → b bm bv training_mode=1; r=3,; Reshape b r → k"),
		"If": onConstants(18).Tensor(onnxtest.BoolTensor("c", true)).
			Node("If c → k", "then_branch", then, "else_branch", otherwise),
		"Loop": onConstants(18).Tensor(onnxtest.BoolTensor("c", true)).Node("n=4").
			Node("Loop n c w → k", "body", loop("Add v w → v2")),
		"division by a product": onConstants(18).Node("two=2; three=3; Mul two three → six; Div i six → a").
			Node("Cast a → k to=1"),
	} {
		t.Run(name, func(t *testing.T) {
			data := f.Node("Add x k → y").Bytes(N, 3)
			g := onnxtest.Open(t, data)
			if ops := onnxtest.Operators(g); ops != "Add" {
				t.Errorf("opened as %s", ops)
			}
			x := vec{0.5, -1, 3}
			got := onnxtest.Run(t, g, x)
			if want := asItLies(t, data, x); !slices.Equal(got, want) {
				t.Errorf("%v, the file gives %v", got, want)
			}
		})
	}
}

func asItLies(t *testing.T, data []byte, x vec) vec {
	t.Helper()
	return onnx.Each(must.Get(original(t, data).Run(x))(t), func(v float64) float32 { return float32(v) })
}

// Sizes of the input that do not involve the batch are computed likewise; those that do stay open.
func TestSizesAreComputed(t *testing.T) {
	same := file(17, N, 1, 5, 5).Node("two=2; three=3; zero=0; one=1,; z=0,0").
		Node("Shape x → s; Gather s two → h; Mod h two → r; Sub three r → need; Clip need zero → pad").
		Node("Reshape pad one → p").
		Node("Concat z p p z p p → pads axis=0; Pad x pads → b").
		Node("Shape b → t; Gather t three → g; Cast g → f to=1; Sqrt f → v").
		Node("Mul b v → y")
	data := same.Bytes(N, 1, 9, 9)
	x := make(vec, 25)
	for i := range x {
		x[i] = float32(i)
	}
	g := onnxtest.Open(t, data)
	if got, want := onnxtest.Run(t, g, x), asItLies(t, data, x); !slices.Equal(got, want) {
		t.Errorf("%v, the file gives %v", got, want)
	}
}

// A branch that a constant, or the input's shape, decides is part of the network; a draw is no constant.
func TestBranches(t *testing.T) {
	then := branch(file(18).Node("a[3]=2.0; Mul x a → b; Exp b → c"), "c")
	otherwise := branch(file(18).Node("Neg x → c"), "c")
	data := file(18, N, 3).Node("Shape x → s; one=1; Gather s one → w; three=3; Equal w three → is").
		Node("If is → d", "then_branch", then, "else_branch", otherwise).Node("Neg d → y").Bytes(N, 3)
	g := onnxtest.Open(t, data)
	if ops := onnxtest.Operators(g); ops != "Mul Exp Neg" {
		t.Errorf("opened as %s", ops)
	}
	x := vec{0.5, -1, 0.25}
	if got, want := onnxtest.Run(t, g, x), asItLies(t, data, x); !slices.Equal(got, want) {
		t.Errorf("%v, the file gives %v", got, want)
	}
	_, err := simplify.Open(file(18, N, 3).Node("m=0,1; ReduceMax x m → a keepdims=0; Cast a → is to=9").
		Node("If is → y", "then_branch", then, "else_branch", otherwise).Bytes(N, 3), simplify.Options{})
	must.Refuse(t, err, "If (operator set 18)")
	_, err = simplify.Open(file(18, N, 3).Node("RandomNormal → a shape=3, seed=1.0; Add x a → y").Bytes(N, 3),
		simplify.Options{})
	must.Refuse(t, err, "RandomNormal (operator set 18)")
}

// A node without end, room or result is an error of one line, and the next file is read as before.
func TestHostileConstants(t *testing.T) {
	within := ort.ConstantsWithin
	defer func() { ort.ConstantsWithin = within }()
	for name, c := range map[string]struct {
		file File
		want string
	}{
		"a division by 0": {onConstants(18).Node("Sub i i → z; Div i z → a; Cast a → k to=1"), ""},
		"a remainder of the least": {onConstants(18).Node("z=-1; Mod l z → a; Cast a → k to=1").
			Tensor(onnxtest.IntTensor("l", []int64{3}, math.MinInt64, 0, 1)), ""},
		"a giant tile": {onConstants(18).Node("n=1000000000,; Tile w n → a; ReduceMax a → k"), `Tile "a"`},
		"no end": {onConstants(18).Tensor(onnxtest.BoolTensor("c", true)).
			Node("Loop _ c w → k", "body", loop("Identity v → v2")), `node Loop "k"`},
		"a weight of another rank": {onConstants(13).Node("q[1,1,2,2]=1.0; ConvTranspose q w → a; ReduceMax a → k"),
			`ConvTranspose "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "no end" {
				ort.ConstantsWithin /= 10
			}
			_, err := simplify.Open(c.file.Node("Add x k → y").Bytes(N, 3), simplify.Options{})
			ort.ConstantsWithin = within
			if c.want != "" || err != nil {
				must.Refuse(t, err, c.want)
			}
			onnxtest.Open(t, onConstants(18).Node("Sinh w → k; Add x k → y").Bytes(N, 3))
		})
	}
}

// loop is the body of a Loop that goes on while c is true: it makes v2 of v.
func loop(nodes string) *pb.GraphProto {
	body := File{ModelProto: &pb.ModelProto{Graph: &pb.GraphProto{Name: proto.String("body")}}}.
		Node(nodes + "; Identity c → c2")
	body.Graph.Input = []*pb.ValueInfoProto{onnxtest.Value("n", 7), onnxtest.Value("c", 9), onnxtest.Value("v", 1, 3)}
	body.Graph.Output = []*pb.ValueInfoProto{onnxtest.Value("c2", 9), onnxtest.Value("v2", 1, 3)}
	return body.Graph
}

// Advice to export with eval() is given where that would help: to a network that normalises every image by its batch.
func TestAdviceOnTraining(t *testing.T) {
	training := "s[1]=1.0; BatchNormalization x s s s s → a m v training_mode=1"
	_, err := simplify.Open(file(14, 1, 1).Node(training+"; Neg a → y").Bytes(1, 1), simplify.Options{})
	must.Refuse(t, err, "eval()")
	_, err = simplify.Open(file(14, N, 1).Node(training+"; BatchNormalization a s s s s → y").Bytes(N, 1),
		simplify.Options{})
	must.Refuse(t, err, "all images of the batch")
	if strings.Contains(err.Error(), "eval()") {
		t.Error(err)
	}
}
