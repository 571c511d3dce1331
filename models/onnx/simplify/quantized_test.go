package simplify_test

import (
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// A QDQ network gives what the file's own operators give, bit for bit, with all of the runtime's optimisations: over
// values inside and beyond the range, ties included, with zero points of either sign, per axis, with operators between
// the two, with weights and biases folded.
func TestQuantized(t *testing.T) {
	const i16 = 5
	image := func() File { return file(13, N, 2, 4, 4).Floats("s", nil, 0.0625) }
	for _, c := range []struct {
		name      string
		data      []byte
		size      int64
		operators string
	}{
		{"signed", image().Tensor(quantized("z", i8, nil, 3)).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s z → y").Bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul"},
		{"without zero point", image().Node("QuantizeLinear x s → q; DequantizeLinear q s → y").Bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul"},
		{"other scale and zero point back", image().Tensor(quantized("z", u8, nil, 100)).
			Tensor(quantized("z2", u8, nil, 7)).
			Node("s2=0.3; QuantizeLinear x s z → q; DequantizeLinear q s2 z2 → y").Bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Sub Mul"},
		{"a scale of 1", image().Floats("one", nil, 1).Tensor(quantized("z", u8, nil, 128)).
			Node("QuantizeLinear x one z → q; DequantizeLinear q one z → y").Bytes(N, 2, 4, 4), 32,
			"QuantizeLinear DequantizeLinear Mul"},
		{"per axis", file(13, N, 2, 4, 4).Floats("s", []int64{2}, 0.0625, 0.3).
			Tensor(quantized("z", i8, []int64{2}, 3, -100)).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s z → y").Bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul"},
		{"operators between", image().Tensor(quantized("z", u8, nil, 100)).
			Node("t=0,-1; QuantizeLinear x s z → q; MaxPool q → p kernel_shape=2,2 strides=2,2; Reshape p t → r").
			Node("DequantizeLinear r s z → y").Bytes(N, 8), 8,
			"Div QuantizeLinear DequantizeLinear MaxPool Reshape Sub Mul"},
		{"two after one another", image().Tensor(quantized("z", i8, nil, -5)).
			Node("s2=0.3; QuantizeLinear x s z → q; DequantizeLinear q s z → a; QuantizeLinear a s2 z → r").
			Node("DequantizeLinear r s2 z → y").Bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul Div QuantizeLinear DequantizeLinear Mul"},
		{"a residual join", image().Tensor(quantized("z", i8, nil, 2)).
			Node("s2=0.11; QuantizeLinear x s z → q; DequantizeLinear q s z → a; Relu a → r").
			Node("QuantizeLinear r s2 z → q2; DequantizeLinear q2 s2 z → b; Add a b → c").
			Node("QuantizeLinear c s2 z → q3; DequantizeLinear q3 s2 z → y").Bytes(N, 2, 4, 4), 32, ""},
		{"weights and bias", image().Tensor(quantized("z", i8, nil, 1)).
			Tensor(quantized("w", i8, []int64{3, 2, 1, 1}, -128, 127, 5, 6, 0, 99)).
			Floats("ws", []int64{3}, 0.01, 0.02, 0.5).Tensor(quantized("wz", i8, []int64{3}, 0, 3, -1)).
			Tensor(quantized("b", i32, []int64{3}, 1000, -70000, 5)).
			Floats("bs", []int64{3}, 0.001, 0.002, 0.003).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s z → a; DequantizeLinear w ws wz → wf axis=0").
			Node("DequantizeLinear b bs → bf axis=0; Conv a wf bf → c; QuantizeLinear c s z → qc").
			Node("DequantizeLinear qc s z → y").Bytes(N, 3, 4, 4), 48,
			"Div QuantizeLinear DequantizeLinear Mul Conv Div QuantizeLinear DequantizeLinear Mul"},
		{"weights kept as floats", image().Tensor(quantized("z", i8, nil, 1)).
			Floats("w", []int64{2}, 0.03125, -99).
			Node("QuantizeLinear w s z → qw; DequantizeLinear qw s z → wf; Reshape wf t → wr").
			Node("t=2,1,1; Mul x wr → y").Bytes(N, 2, 4, 4), 32, ""},
		{"16 bits", file(21, N, 2, 4, 4).Floats("s", nil, 0.0001).Tensor(quantized("z", i16, nil, -300)).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s z → y").Bytes(N, 2, 4, 4), 32, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := onnxtest.Open(t, c.data)
			if got := onnxtest.Operators(g); c.operators != "" && got != c.operators {
				t.Error(got)
			}
			if !slices.Contains(g.Notices, simplify.NoticeQuantized) {
				t.Error("no notice: ", g.Notices)
			}
			for scale := range 3 {
				x := onnxtest.Ramp(32) // multiples of 1/32, whose halves of 1/16 are ties
				for i := range x {
					x[i] = float32(math.Floor(float64(x[i]*32))/32) * []float32{1, 7, 40}[scale]
				}
				got, want := onnxtest.Run(t, g, x), onnxtest.RunFile(t, c.data, x, c.size, ort.Unoptimized())
				if !slices.Equal(got, want) {
					t.Errorf("times %v:\n%v, as written\n%v", []int{1, 7, 40}[scale], got, want)
				}
			}
		})
	}
}

// ONNX Runtime's answers are far from those of the file's operators where it quantises what the file keeps as floats,
// or rounds once for twice: nothing can be proven of the file by them.
func TestRegrouped(t *testing.T) {
	of := func(x string, weights ...int64) File {
		return file(17, N, 1, 1, 1).Floats("s", nil, 1).Tensor(quantized("z", i8, nil, 0)).Floats("r", nil, 0.01).
			Tensor(quantized("w", i8, weights, 1)).Floats("ws", nil, 0.25).Floats("b", []int64{1}, 0.1).
			Tensor(quantized("ib", i32, []int64{1}, 4)).Node("flat=0,1; image=0,1,1,1; Reshape x flat → v; " +
			"QuantizeLinear " + x + " s z → q; DequantizeLinear q s z → d; DequantizeLinear w ws z → f")
	}
	base, matrix := func() File { return of("x", 1, 1, 1, 1) }, func() File { return of("v", 1, 1) }
	end := "QuantizeLinear c r z → e; DequantizeLinear e r z → g; Reshape g image → y"
	for name, c := range map[string]struct {
		f       File
		far     bool // the file's answers
		inexact bool
	}{
		"float bias":   {base().Node("Conv d f b → c").Node(end), true, true},
		"integer bias": {base().Node("DequantizeLinear ib ws → fb; Conv d f fb → c").Node(end), false, false},
		"no bias":      {base().Node("Conv d f → c").Node(end), false, false},
		"a bias of another scale": {base().
			Node("DequantizeLinear ib s → fb; Conv d f fb → c").Node(end), false, true},
		"a float bias past a Reshape": {base().
			Node("Reshape d image → t; Conv t f b → c").Node(end), true, true},
		"Gemm by a half": {matrix().
			Node("DequantizeLinear ib ws → fb; Gemm d f fb → c alpha=0.5").Node(end), true, true},
		"a Gemm's bias of another scale": {matrix().
			Node("DequantizeLinear ib s → fb; Gemm d f fb → c").Node(end), true, true},
		"a Gemm's bias by a zero point": {matrix().Tensor(quantized("bz", i32, nil, 100)).
			Node("DequantizeLinear ib ws bz → fb; Gemm d f fb → c").Node(end), true, true},
		"a float bias behind a MatMul": {matrix().Node("MatMul d f → m; Add m b → c").Node(end), true, true},
		"an integer bias behind a MatMul": {matrix().Node("DequantizeLinear ib ws → fb; MatMul d f → m; Add m fb → c").
			Node(end), false, false},
		"a bias of another scale behind a MatMul": {matrix().Node("DequantizeLinear ib s → fb; MatMul d f → m").
			Node("Add m fb → c").Node(end), true, true},
		"rounded twice": {base().Node("QuantizeLinear d r2 z → q2; DequantizeLinear q2 r2 z → y; r2=0.03"), true, true},
		"rounded twice, past a Transpose": {base().Node("Transpose d → t perm=0,2,1,3; QuantizeLinear t r2 z → q2").
			Node("DequantizeLinear q2 r2 z → y; r2=0.03"), false, true}, // it might be
		"rounded alike": {base().Node("QuantizeLinear d s2 z → q2; DequantizeLinear q2 s2 z → y; s2=1.0"),
			false, false},
	} {
		t.Run(name, func(t *testing.T) {
			data := c.f.Bytes(N, 1, 1, 1)
			g := onnxtest.Open(t, data)
			if g.Inexact != c.inexact || !g.Rounds {
				t.Errorf("inexact %v, rounds %v", g.Inexact, g.Rounds)
			}
			file, apart := original(t, data), 0.0
			for _, x := range []float32{-0.83, -0.53, -0.23, 0.07, 0.37, 0.67} {
				y, file := onnxtest.Run(t, g, []float32{x})[0], must.Get(file.Run([]float32{x}))(t)[0]
				apart = max(apart, math.Abs(float64(y)-file))
			}
			if (apart > 0.05) != c.far {
				t.Errorf("the file's answers are %g apart from its operators'", apart)
			}
		})
	}
}

func TestQuantizedErrors(t *testing.T) {
	const f8 = 17
	image := func() File { return file(13, N, 2).Floats("s", nil, 0.0625) }
	for _, c := range []struct {
		want string
		f    File
	}{
		{"must be constant", image().Node("Exp x → e; QuantizeLinear x e → q; DequantizeLinear q s → y")},
		{"must be constant", image().Node("QuantizeLinear x _ → q; DequantizeLinear q s → y")},
		{"scale -1 is not above 0", image().Node("m=-1.0; QuantizeLinear x m → q; DequantizeLinear q s → y")},
		{"scale 0 is not above 0", image().Node("m=0.0; QuantizeLinear x s → q; DequantizeLinear q m → y")},
		{"scale +Inf is not",
			image().Floats("m", nil, float32(math.Inf(1))).Node("QuantizeLinear x m → q; DequantizeLinear q s → y")},
		{"3 scales for axis 1 of [N 2]", image().Node("m[3]=1.0; QuantizeLinear x m → q; DequantizeLinear q s → y")},
		{"2 scales for axis 0 of [N 2]", image().Node("m[2]=1.0; QuantizeLinear x m → q axis=0").
			Node("DequantizeLinear q s → y")},
		{"axis 9 is outside", image().Node("m[2]=1.0; QuantizeLinear x m → q axis=9; DequantizeLinear q s → y")},
		{"0 scales", image().Node("m[0]=1.0; QuantizeLinear x m → q; DequantizeLinear q s → y")},
		{"1 scales and 2 zero points", image().Tensor(quantized("z", u8, []int64{2}, 1, 2)).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s → y")},
		{"element type 6", image().Tensor(quantized("z", i32, nil, 1)).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s → y")},
		{"zero point 300", image().Tensor(quantized("z", u8, nil, 300)).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s → y")},
		{"quantises in blocks", image().Node("QuantizeLinear x s → q block_size=2; DequantizeLinear q s → y")},
		{"element type FLOAT8E4M3FN", image().Tensor(quantized("z", f8, nil, 0)).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s → y")},
		{"export it in QDQ form", image().Node("Cast x → q to=6; DequantizeLinear q s → y")},
		{"data is of ONNX element type 7", image().Ints("w", 1, 2).Tensor(quantized("z", u8, nil, 0)).
			Node("DequantizeLinear w s z → f; Add x f → y")},
	} {
		_, err := simplify.Open(c.f.Bytes(N, 2), simplify.Options{})
		must.Refuse(t, err, c.want)
	}
}
