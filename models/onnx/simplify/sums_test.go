package simplify_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// asFile gives what an opened network and its file make of inputs of one value.
func asFile(t *testing.T, data []byte, x float32) (opened []float32, file []float64) {
	t.Helper()
	o := original(t, data)
	in := slices.Repeat([]float32{x}, o.Inputs())
	return onnxtest.Run(t, onnxtest.Open(t, data), in), must.Get(o.Run(in))(t)
}

// The opened form of a file whose sums leave int32 answers as the file does, where they do and where they do not.
func TestSumsLeaveInt32(t *testing.T) {
	for _, c := range onnxtest.Overflowing() {
		t.Run(c.Name, func(t *testing.T) {
			if g := onnxtest.Open(t, c.Data); !strings.Contains(onnxtest.Operators(g), "Floor") || g.Inexact {
				t.Errorf("%s, inexact %v", onnxtest.Operators(g), g.Inexact)
			}
			for _, x := range []float32{0, 0.5, 0.95, 1} {
				opened, file := asFile(t, c.Data, x)
				most := 1000.
				for _, v := range file {
					most = max(most, math.Abs(v))
				}
				for k, v := range file {
					if math.Abs(float64(opened[k])-v) > 0.011*most { // a step of a hundred
						t.Errorf("grey %g: %v, the file gives %v", x, opened, file)
						break
					}
				}
				if best := slices.Index(file, slices.Max(file)); (best == c.Label) != (x < 1) {
					t.Errorf("grey %g: the file's class is %d", x, best)
				}
			}
		})
	}
}

// Sums that cannot leave int32, and those that ONNX Runtime adds up as floats, stay as they are.
func TestSumsStayAsTheyAre(t *testing.T) {
	const i16 = 5
	base := func(data, weights int32) File {
		return file(21, N, 64, 1, 1).Floats("s", nil, 1./255).Tensor(quantized("z", data, nil, 0)).
			Floats("ws", nil, 0.01).Tensor(quantized("wz", weights, nil, 0)).Floats("bs", nil, float32(1./255)*0.01).
			Tensor(quantized("w", weights, []int64{2, 64, 1, 1}, slices.Repeat([]int32{127}, 128)...)).
			Tensor(quantized("b", i32, []int64{2}, math.MaxInt32-1000, 7)).
			Tensor(quantized("small", i32, []int64{2}, math.MaxInt32-64*127*255, 7)).Floats("r", nil, 400).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s z → a; DequantizeLinear w ws wz → f").
			Node("DequantizeLinear b bs → bf; DequantizeLinear small bs → sf")
	}
	const end = "; QuantizeLinear c r z → e; DequantizeLinear e r z → y"
	for name, f := range map[string]File{
		"within int32":    base(u8, i8).Node("Conv a f sf → c" + end),
		"16 bits":         base(i16, i8).Node("Conv a f bf → c" + end),
		"not quantised":   base(u8, i8).Node("Conv a f bf → y"),
		"quantised later": base(u8, i8).Node("Conv a f bf → t; LeakyRelu t → c" + end),
		"read by others, too": base(u8, i8).Node("Conv a f bf → c; QuantizeLinear c r z → e").
			Node("DequantizeLinear e r z → d; Add c d → y"),
		"ConvTranspose": file(21, N, 2, 1, 1).Floats("s", nil, 1./255).Tensor(quantized("z", u8, nil, 0)).
			Tensor(quantized("w", i8, []int64{2, 2, 1, 1}, 127, 127, 127, 127)).
			Tensor(quantized("b", i32, []int64{2}, math.MaxInt32-1000, 7)).Floats("r", nil, 400).
			Floats("ws", nil, 0.01).Floats("bs", nil, float32(1./255)*0.01).
			Node("QuantizeLinear x s z → q; DequantizeLinear q s z → a; DequantizeLinear w ws → f").
			Node("DequantizeLinear b bs → bf; ConvTranspose a f bf → c" + end),
	} {
		t.Run(name, func(t *testing.T) {
			data := f.Bytes(N, 2, 1, 1)
			g := onnxtest.Open(t, data)
			if strings.Contains(onnxtest.Operators(g), "Floor") || g.Inexact {
				t.Errorf("%s, inexact %v", onnxtest.Operators(g), g.Inexact)
			}
			opened, file := asFile(t, data, 1)
			if math.Abs(float64(opened[0])-file[0]) > 1e-5*math.Abs(file[0]) {
				t.Errorf("%v, the file gives %v", opened, file)
			}
		})
	}
}

// The opened form computes int32 behind a MatMulInteger as the file does, past int32's ends too.
func TestIntegersBehindProducts(t *testing.T) {
	base := func() File {
		f := integers(u8, 6)
		f.OpsetImport[0].Version = proto.Int64(14) // the first whose Relu takes integers
		return f.Tensor(weights("w", u8, 6, 3)).Tensor(quantized("far", i32, []int64{3}, math.MaxInt32-9000,
			math.MinInt32+9000, 70)).Tensor(quantized("k", i32, nil, 3)).
			Node("MatMulInteger q w z z → i")
	}
	for _, nodes := range []string{
		"Add i far → j", "Add far i → j", "Sub i far → j", "Sub far i → j", "Mul i k → j", "Add i far → a; Mul a k → j",
		"Max i k → j", "Min i far → j", "Relu i → p; Sub p far → j", "Add i i → d; Add d far → j",
		"Add i far → a; Reshape a s3 → b; Sub b far → j; s3=0,3",
	} {
		t.Run(nodes, func(t *testing.T) {
			data := base().Node(nodes+"; Cast j → y to=1").Bytes(N, 3)
			for _, x := range []float32{-4, 0.3, 1, 5} {
				opened, file := asFile(t, data, x)
				for k, v := range file {
					if math.Abs(float64(opened[k])-v) > 2048+1e-6*math.Abs(v) {
						t.Errorf("of %g: %v, the file gives %v", x, opened, file)
						break
					}
				}
			}
		})
	}
	for nodes, want := range map[string]string{
		"DynamicQuantizeLinear x → d ds dz; MatMulInteger d w dz z → e; Add e k → j": "no sum of int32 by known steps",
		"Add i s → j":                  "no sum of int32 by known steps",
		"Mul i far → a; Mul a far → j": "in int32, where they leave it again and again",
	} {
		_, err := simplify.Open(base().Node(nodes+"; Cast j → y to=1").Bytes(N, 3), simplify.Options{})
		must.Refuse(t, err, want)
	}
}
