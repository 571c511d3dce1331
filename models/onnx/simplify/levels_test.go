package simplify_test

import (
	"math/rand/v2"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// levelled is a file whose input is uint8.
func levelled(shape ...int64) onnxtest.File {
	f := file(13, shape...)
	f.Graph.Input[0] = onnxtest.Value("x", int32(onnx.Uint8), shape...)
	return f
}

// A network of levels, opened for images in [0,1], gives what its file gives of the levels.
func TestLevels(t *testing.T) {
	const rest = "; w[2,3,2,2]=0.125; Conv f w → c; Flatten c → y"
	first, last := []int64{N, 3, 8, 8}, []int64{N, 8, 8, 3}
	for _, c := range []struct {
		shape            []int64
		nodes, operators string
	}{
		{first, "Cast x → f to=1" + rest, "Mul Conv Flatten"},
		{first, "Cast x → g to=1; s=255.0; Div g s → f" + rest, "Conv Flatten"},
		{first, "Cast x → g to=1; s[1]=0.003921569; Mul g s → f" + rest, "Conv Flatten"},
		{first, "Cast x → i to=6; Cast i → l to=7; Cast l → f to=1" + rest, "Mul Conv Flatten"},
		{first, "Cast x → g to=1; s=255.0; Div g s → h; m=0.5; Sub h m → f" + rest, "Sub Conv Flatten"},
		{first, "Cast x → g to=1; s=255.0; Div g s → h; Add h g → f" + rest, "Mul Div Add Conv Flatten"},
		{last, "Transpose x → p perm=0,3,1,2; Cast p → g to=1; s=255.0; Div g s → f" + rest, "Conv Flatten"},
		{last, "Cast x → g to=1; s=255.0; Div g s → h; Transpose h → f perm=0,3,1,2" + rest,
			"Mul Transpose Div Transpose Conv Flatten"},
		{first, "s=0.003921569; DequantizeLinear x s → f" + rest, "Conv Flatten"},
		{first, "s=0.02; DequantizeLinear x s → f" + rest, "Mul Mul Conv Flatten"},
	} {
		data := levelled(c.shape...).Node(c.nodes).Bytes(N, 98)
		g := onnxtest.Open(t, data)
		if got := onnxtest.Operators(g); got != c.operators || !g.Levels || len(g.Notices) == 0 {
			t.Errorf("%s: operators %s, want %s; %v", c.nodes, got, c.operators, g.Notices)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		image, raw := make([]float32, 192), make([]float32, 192)
		for i := range image { // i is of the file
			raw[i] = float32(rng.IntN(256))
			at := i
			if c.shape[3] == 3 {
				at = i%3*64 + i/3
			}
			image[at] = raw[i] / 255
		}
		if err := ort.Agree(must.Get(original(t, data).Run(raw))(t), onnxtest.Run(t, g, image)); err != nil {
			t.Errorf("%s: %v", c.nodes, err)
		}
	}
}

// Operators that compute on integers are refused, and so is a second normalisation.
func TestLevelsErrors(t *testing.T) {
	good := levelled(N, 3, 8, 8).Node("Cast x → y to=1").Bytes(N, 3, 8, 8)
	for _, c := range []struct {
		data []byte
		o    simplify.Options
		want string
	}{
		{levelled(N, 3, 8, 8).Node("Add x x → a; Cast a → y to=1").Bytes(N, 3, 8, 8), simplify.Options{},
			`cast the input "x" to float32 before anything is computed: node Add "a" takes it as uint8`},
		{levelled(N, 3, 8, 8).Node("Cast x → i to=6; s=255,; Div i s → a; Cast a → y to=1").Bytes(N, 3, 8, 8),
			simplify.Options{}, `cast the input "x" to float32`},
		{levelled(N, 3, 8, 8).Node("Cast x → i to=3; Cast i → y to=1").Bytes(N, 3, 8, 8), simplify.Options{},
			"does not hold all levels"},
		{good, simplify.Options{Mean: []float32{0.5}}, "its input is uint8"},
		{good, simplify.Options{Scale: 2}, "its input is uint8"},
	} {
		_, err := simplify.Open(c.data, c.o)
		must.Refuse(t, err, c.want)
	}
	must.Get(simplify.Open(good, simplify.Options{Scale: 255}))(t)
	err := simplify.Prepare(must.Get(onnx.Decode(good))(t), simplify.Options{Literal: true})
	must.Refuse(t, err, `input "x" is not float32`)
}
