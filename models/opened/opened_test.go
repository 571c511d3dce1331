package opened_test

import (
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// image holds an image's dimensions, without the batch.
var image = []int64{3, 4, 4}

// Files exported with a fixed batch, which use it in every way that their operators allow, answer each image of a batch
// as they do alone.
func TestBatch(t *testing.T) {
	testinput.Runtime(t)
	const flat = "Flatten x → f; "
	for _, c := range []struct {
		name  string
		batch int64
		nodes string
		out   []int64 // without the batch
	}{
		{"scattered constants", 1, flat + "ScatterElements f at low → y axis=1", []int64{48}},
		{"scattered constants of a batch of 2", 2, flat + "ScatterElements f at2 low2 → y axis=1", []int64{48}},
		{"added constants", 1, flat + "ScatterElements f at low → y axis=1 reduction=add", []int64{48}},
		{"scattered values", 1, flat + "a=0,; b=2,; c=1,; Slice f a b c → u; ScatterElements f at u → y axis=1",
			[]int64{48}},
		{"scattered at computed places", 1, flat + "k=2,; TopK f k → v i; ScatterElements f i low → y axis=1",
			[]int64{48}},
		{"scattered into a constant", 1, flat + "k=2,; TopK f k → v i; z[1,48]=0.5; ScatterElements z i v → y axis=1",
			[]int64{48}},
		{"scattered into a constant of 2", 2, flat + "k=2,; TopK f k → v i; z[2,48]=0.5; " +
			"ScatterElements z i v → y axis=1",
			[]int64{48}},
		{"rows of one image scattered", 1, "r=3,16; s=1,48; Reshape x r → t; ScatterElements t rows ones → q axis=1; " +
			"Reshape q s → y", []int64{48}},
		{"gathered at constants", 1, flat + "GatherElements f at → g axis=1; w[48,2]=0.25; MatMul f w → h; Add g h → y",
			[]int64{2}},
		{"gathered at constants alone", 1, flat + "GatherElements f at → y axis=1", []int64{2}},
		{"gathered from a constant", 1, flat + "k=2,; TopK f k → v i; GatherElements table i → y axis=1", []int64{2}},
		{"scattered along the batch", 1, flat + "ScatterElements f zero low → y axis=0", []int64{48}},
		{"picked from the batch", 1, "i=0; s=1,48; Gather x i → g axis=0; Reshape g s → y", []int64{48}},
		{"picked by index", 1, "GatherND x nd → g; z=0,; Unsqueeze g z → y", []int64{2}},
		{"put by index", 1, "ScatterND x nd nine → y", image},
		{"indices of a pool", 1, "MaxPool x → p i kernel_shape=2,2 strides=2,2; Cast i → y to=1", []int64{3, 2, 2}},
		{"indices of a pool of an open batch", -1, "MaxPool x → p i kernel_shape=2,2 strides=2,2; Cast i → y to=1",
			[]int64{3, 2, 2}},
		{"unpooled to a larger size", 1, "MaxPool x → p i kernel_shape=2,2 strides=2,2; s=1,3,6,6; " +
			"MaxUnpool p i s → y kernel_shape=2,2 strides=2,2", []int64{3, 6, 6}},
		{"unpooled at constants", 1, "MaxPool x → p kernel_shape=2,2 strides=2,2; " +
			"MaxUnpool p places → y kernel_shape=2,2 strides=2,2", []int64{3, 4, 4}},
		{"integers joined", 1, flat + "k=2,; TopK f k → v i; Concat i at → j axis=1; Cast j → y to=1", []int64{4}},
		{"a token joined to tokens in front", 1, "r=1,3,16; Reshape x r → t; Transpose t → u perm=2,0,1; " +
			"c[1,1,3]=0.5; " +
			"Concat c u → v axis=0; Transpose v → y perm=1,0,2", []int64{17, 3}},
		{"joined along the batch", 1, flat + "s=1,96; Concat f f → q axis=0; Reshape q s → y", []int64{96}},
		{"tiled along the batch", 1, flat + "r=2,1; s=1,96; Tile f r → q; Reshape q s → y", []int64{96}},
		{"expanded along the batch", 1, flat + "r=2,48; s=1,96; Expand f r → q; Reshape q s → y", []int64{96}},
		{"expanded in front", 1, flat + "r=3,1,48; s=1,144; Expand f r → q; Reshape q s → y", []int64{144}},
		{"sums along the batch", 1, flat + "a=0; CumSum f a → y", []int64{48}},
		{"a Softmax along the batch", 1, "Softmax x → y axis=0", image},
		{"flat from the start", 1, "Flatten x → y axis=0", []int64{48}},
		{"no batch any more", 1, "z=0,; GlobalAveragePool x → g; Squeeze g → v; Softmax v → w axis=0; " +
			"Unsqueeze w z → y",
			[]int64{3}},
		{"rows compared with each other", 1, "r=3,16; s=1,9; Reshape x r → q; Transpose q → t; MatMul q t → m; " +
			"Reshape m s → y", []int64{9}},
		{"a bias of each row", 1, "r=3,16; s=1,6; w[16,2]=0.25; Reshape x r → q; Gemm q w bias → m; Reshape m s → y",
			[]int64{6}},
		{"transposed factors", 1, flat + "s=1,96; w[1,2]=0.25; Gemm f w → m transA=1; Reshape m s → y", []int64{96}},
		{"a bias that is the image", 1, flat + "a[2,4]=0.5; w[4,48]=0.25; s=1,96; Gemm a w f → m; Reshape m s → y",
			[]int64{96}},
		{"means of everything", 1, "ReduceMean x → m keepdims=1; Sub x m → y", image},
		{"sums over the batch", 1, "a=0,; s=1,48; ReduceSum x a → m keepdims=0; Reshape m s → y", []int64{48}},
		{"the largest of the batch", 1, flat + "ArgMax f → a axis=0; Cast a → c to=1; Add c f → y", []int64{48}},
		{"padded along the batch", 1, flat + "p=1,0,0,0; s=1,96; Pad f p → q; Reshape q s → y", []int64{96}},
		{"sliced along the batch", 1, flat + "a=-1,; b=9,; z=0,; Slice f a b z → y", []int64{48}},
		{"split along the batch", 1, "Split x → y axis=0", image},
		{"an outer product", 1, flat + "Transpose f → t; s=1,2304; Mul f t → q; Reshape q s → y", []int64{2304}},
		{"constants of a batch of 2", 2, flat + "c[2,48]=0.5; d[2,1]=0.25; Add f c → g; Mul g d → y", []int64{48}},
		{"an equation", 1, flat + "s=1,48; o[1]=0.5; Einsum f o → m equation=bi,b->i; Reshape m s → y", []int64{48}},
		{"resized rows", 1, "r=3,4,4; s=1,3,8,4; Reshape x r → t; u=1,3,4,4; Reshape t u → v; Resize v _ _ s → y",
			[]int64{3, 8, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &onnx.File{Data: file(c.batch, c.nodes).Bytes(append([]int64{c.batch}, c.out...)...)}
			g := must.Get(opened.Graph(f, simplify.Options{}, nil))(t)
			original := must.Get(ort.OpenOriginal("file", f, ""))(t)
			defer original.Close()
			session := must.Get(ort.OpenGraph(g))(t)
			defer session.Close()
			const n = 5
			items := 48
			x := make([]float32, n*items)
			for i := range x {
				x[i] = float32((i*7919)%997) / 997
			}
			out := must.Get(session.Run([]ort.Tensor{{Shape: append([]int64{n}, image...), Data: x}}))(t)[0].Data
			for k := range n {
				y := must.Get(original.Run(slices.Repeat(x[k*items:(k+1)*items], int(max(1, c.batch)))))(t)
				y = y[:len(y)/int(max(1, c.batch))]
				if err := ort.Agree(y, out[k*len(out)/n:(k+1)*len(out)/n]); err != nil {
					t.Errorf("image %d: %v", k, err)
				}
			}
		})
	}
}

// file makes a file with constants that the probes read.
func file(batch int64, nodes string) onnxtest.File {
	return onnxtest.New(17, append([]int64{batch}, image...)...).
		Tensor(onnxtest.IntTensor("at", []int64{1, 2}, 3, 7)).
		Tensor(onnxtest.IntTensor("at2", []int64{2, 2}, 3, 7, 3, 7)).
		Tensor(onnxtest.IntTensor("zero", []int64{1, 2}, 0, 0)).
		Tensor(onnxtest.IntTensor("rows", []int64{3, 1}, 1, 2, 0)).
		Tensor(onnxtest.IntTensor("nd", []int64{2, 4}, 0, 1, 0, 1, 0, 2, 1, 3)).
		Tensor(onnxtest.IntTensor("places", []int64{1, 3, 2, 2}, 1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45)).
		Floats("low", []int64{1, 2}, -9, -8).Floats("low2", []int64{2, 2}, -9, -8).
		Floats("ones", []int64{3, 1}, 1, 2, 3).Floats("nine", []int64{2}, 9, 8).
		Floats("table", []int64{1, 48}, 1, 2, 3).Floats("bias", []int64{3, 2}, 1, 2, 3, 4, 5, 6).Node(nodes)
}

// A file whose answer depends on the place in its batch is refused, with a line that says why.
func TestPlaces(t *testing.T) {
	testinput.Runtime(t)
	for nodes, want := range map[string]string{
		"Flatten x → f; ScatterElements f at low → y axis=1":                        "don't fit",
		"Flatten x → f; d[2,48]=0.5; m=0,; ReduceSum f m → h; Sub f h → y":          "reduces the batch",
		"Flatten x → f; a=1,; b=2,; z=0,; Slice f a b z → g; Concat g g → y axis=0": "slices the batch",
	} {
		f := &onnx.File{Data: file(2, nodes).Bytes(2, 48)}
		_, err := opened.Graph(f, simplify.Options{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", nodes, err)
		}
	}
}

// A file whose end has no gradient, as a detector's with NonMaxSuppression, is taken up to an inner tensor. The file
// itself answers there, too.
func TestInnerTensor(t *testing.T) {
	testinput.Runtime(t)
	f := &onnx.File{Data: file(1, "Relu x → r; s=1,12,4; Reshape r s → boxes; Sigmoid boxes → sure; t=1,1,48; "+
		"Reshape sure t → scores; u=1,48,1; n[48,4]=0.5; w=1,48,4; Reshape n w → all; "+
		"NonMaxSuppression all scores → y").Bytes(1, 3)}
	const name = "sure"
	g := must.Get(opened.Graph(f, simplify.Options{Output: name}, nil))(t)
	original := must.Get(ort.OpenOriginal("file", f, name))(t)
	defer original.Close()
	session := must.Get(ort.OpenGraph(g))(t)
	defer session.Close()
	x := make([]float32, 2*48)
	for i := range x {
		x[i] = float32((i*7919)%997)/499 - 1
	}
	out := must.Get(session.Run([]ort.Tensor{{Shape: append([]int64{2}, image...), Data: x}}))(t)[0]
	if !slices.Equal(out.Shape, onnx.Shape{2, 12, 4}) {
		t.Errorf("it gives %v", out.Shape)
	}
	for k := range 2 {
		y := must.Get(original.Run(x[48*k : 48*(k+1)]))(t)
		if err := ort.Agree(y, out.Data[48*k:48*(k+1)]); err != nil {
			t.Errorf("image %d: %v", k, err)
		}
	}
	_, err := opened.Graph(f, simplify.Options{Output: "sured"}, nil)
	must.Refuse(t, err, `has no output "sured"; its outputs are y`)
	_, err = ort.OpenOriginal("file", f, "sured")
	must.Refuse(t, err, `it has 1 outputs, and none is called "sured"`)
}
