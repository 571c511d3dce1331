package simplify_test

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// The element types of quantised tensors.
const u8, i8, i32 = 2, 3, 6

// integers begins a file whose x is quantised to q by the scale s and the zero point z, with weights w of the scale ws
// and the zero point wz, and an output scale r of the zero point rz.
func integers(kind int32, shape ...int64) File {
	f := file(13, append([]int64{N}, shape...)...)
	f.OpsetImport = append(f.OpsetImport, &pb.OperatorSetIdProto{Domain: proto.String("com.microsoft"),
		Version: proto.Int64(1)})
	return f.Floats("s", nil, 0.031).Tensor(quantized("z", kind, nil, 3)).Floats("r", nil, 0.043).
		Tensor(quantized("rz", kind, nil, 7)).Floats("ws", nil, 0.02).Tensor(quantized("wz", kind, nil, 1)).
		Node("QuantizeLinear x s z → q")
}

// weights are numbers that repeat after 97, spread over the type.
func weights(name string, kind int32, dims ...int64) *pb.TensorProto {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	v := make([]int32, n)
	for i := range v {
		if v[i] = int32(37*i%97) - 48; kind == u8 {
			v[i] += 100
		}
	}
	return quantized(name, kind, dims, v...)
}

// integerCase is a network of an operator on quantised values.
type integerCase struct {
	name   string
	f      File
	nodes  string
	out    []int64
	step   float64 // of the output; 0: the rounding of float32
	within float64 // of the largest value, where a dynamic scale is left out
}

func (c integerCase) bytes() []byte { return c.f.Node(c.nodes).Bytes(c.out...) }

func integerCases() []integerCase {
	channels := func(f File) File {
		return f.Floats("cs", []int64{3}, 0.01, 0.02, 0.03).Tensor(quantized("cz", i8, []int64{3}, 0, 0, 0)).
			Tensor(quantized("b", i32, []int64{3}, 500, -700, 40))
	}
	const back, microsoft = "; DequantizeLinear y8 r rz → y", "@com.microsoft"
	return []integerCase{
		{"QLinearConv of int8, per channel", channels(integers(i8, 2, 4, 4)).Tensor(weights("w", i8, 3, 2, 3, 3)),
			"QLinearConv q s z w cs cz r rz b → y8 pads=1,1,1,1" + back, []int64{N, 3, 4, 4}, 0.043, 0},
		{"QLinearConv of uint8", integers(u8, 2, 4, 4).Tensor(weights("w", u8, 3, 2, 3, 3)),
			"QLinearConv q s z w ws wz r rz → y8 strides=2,2" + back, []int64{N, 3, 1, 1}, 0.043, 0},
		{"QLinearConv, channels last", channels(integers(i8, 4, 4, 2)).Tensor(weights("w", i8, 3, 2, 3, 3)),
			"QLinearConv" + microsoft + " q s z w cs cz r rz b → y8 pads=1,1,1,1 channels_last=1" + back,
			[]int64{N, 4, 4, 3}, 0.043, 0},
		{"QLinearMatMul", integers(i8, 6).Tensor(weights("w", i8, 6, 5)),
			"QLinearMatMul q s z w ws wz r rz → y8" + back, []int64{N, 5}, 0.043, 0},
		{"QLinearMatMul, per column", channels(integers(u8, 6)).Tensor(weights("w", i8, 6, 3)),
			"QLinearMatMul q s z w cs cz r rz → y8" + back, []int64{N, 3}, 0.043, 0},
		{"QGemm", channels(integers(i8, 6)).Tensor(weights("w", i8, 3, 6)),
			"QGemm" + microsoft + " q s z w cs cz b r rz → y8 transB=1 alpha=0.5" + back, []int64{N, 3}, 0.043, 0},
		{"QGemm, floats", channels(integers(u8, 6)).Tensor(weights("w", i8, 6, 3)),
			"QGemm" + microsoft + " q s z w cs cz b → y", []int64{N, 3}, 0, 0},
		{"QLinearAdd", integers(i8, 2, 4, 4).Tensor(weights("w", i8, 2, 1, 1)),
			"QLinearAdd" + microsoft + " q s z w ws wz r rz → y8" + back, []int64{N, 2, 4, 4}, 0.043, 0},
		{"QLinearMul", integers(u8, 2, 4, 4),
			"QLinearMul" + microsoft + " q s z q s z r rz → y8" + back, []int64{N, 2, 4, 4}, 0.043, 0},
		{"QLinearAveragePool", integers(u8, 2, 4, 4),
			"QLinearAveragePool" + microsoft + " q s z r rz → y8 kernel_shape=2,2 strides=2,2" + back,
			[]int64{N, 2, 2, 2}, 0.043, 0},
		{"QLinearGlobalAveragePool", integers(i8, 4, 4, 2),
			"QLinearGlobalAveragePool" + microsoft + " q s z r rz → y8 channels_last=1" + back, []int64{N, 1, 1, 2},
			0.043, 0},
		{"QLinearConcat", integers(i8, 2, 4, 4).Floats("s2", nil, 0.05),
			"Neg x → n; QuantizeLinear n s2 rz → q2; QLinearConcat" + microsoft + " r rz q s z q2 s2 rz → y8 axis=1" +
				back, []int64{N, 4, 4, 4}, 0.043, 0},
		{"QLinearLeakyRelu", integers(i8, 2, 4, 4),
			"QLinearLeakyRelu" + microsoft + " q s z r rz → y8 alpha=0.1" + back, []int64{N, 2, 4, 4}, 0.043, 0},
		{"QLinearSigmoid", integers(u8, 2, 4, 4).Floats("r1", nil, 1./256).Tensor(quantized("z0", u8, nil, 0)),
			"QLinearSigmoid" + microsoft + " q s z r1 z0 → y8; DequantizeLinear y8 r1 z0 → y", []int64{N, 2, 4, 4},
			1. / 256, 0},
		{"QLinearSoftmax", integers(u8, 6).Floats("r1", nil, 1./256).Tensor(quantized("z0", u8, nil, 0)),
			"QLinearSoftmax" + microsoft + " q s z r1 z0 → y8 opset=13 axis=-1; DequantizeLinear y8 r1 z0 → y",
			[]int64{N, 6}, 1. / 256, 0},
		{"integers between", integers(u8, 2, 4, 4).Tensor(weights("w", u8, 3, 2, 1, 1)),
			"MaxPool q → p kernel_shape=2,2 strides=2,2; QLinearConv p s z w ws wz r rz → y8" + back,
			[]int64{N, 3, 2, 2}, 0.043, 0},
		{"both operators of the other domain", integers(i8, 6), "DequantizeLinear" + microsoft + " q s z → f; " +
			"QuantizeLinear" + microsoft + " f r rz → y8" + back, []int64{N, 6}, 0.043, 0},
		{"ConvInteger, dynamic", integers(u8, 2, 4, 4).Tensor(weights("w", u8, 3, 2, 3, 3)),
			"DynamicQuantizeLinear x → d ds dz; ConvInteger d w dz wz → c; Cast c → f to=1; Mul ds ws → m; Mul f m → y",
			[]int64{N, 3, 2, 2}, 0, 0.01},
		{"MatMulInteger, dynamic", channels(integers(u8, 6)).Tensor(weights("w", i8, 6, 3)),
			"DynamicQuantizeLinear x → d ds dz; MatMulInteger d w dz cz → c; Cast c → f to=1; Mul ds cs → m; " +
				"Mul f m → y",
			[]int64{N, 3}, 0, 0.02},
		{"MatMulInteger, static", integers(i8, 6).Tensor(weights("w", i8, 6, 3)),
			"MatMulInteger q w z wz → c; Cast c → y to=1", []int64{N, 3}, 0, 0},
		{"DynamicQuantizeMatMul", integers(u8, 6).Tensor(weights("w", i8, 6, 3)).Tensor(quantized("w0", i8, nil, 2)).
			Floats("bias", []int64{3}, 0.5), "DynamicQuantizeMatMul" + microsoft + " x w ws w0 bias → y",
			[]int64{N, 3}, 0, 0.01},
		{"MatMulIntegerToFloat", channels(integers(u8, 6)).Tensor(weights("w", i8, 6, 3)).
			Floats("bias", []int64{3}, 0.5), "MatMulIntegerToFloat" + microsoft + " q w s cs z cz bias → y",
			[]int64{N, 3}, 0, 0},
		{"MatMulNBits", integers(u8, 32).Tensor(weights("w", u8, 3, 2, 8)).Floats("bs", []int64{6}, 0.05, 0.1).
			Tensor(quantized("bz", u8, []int64{3}, 0x72, 0x88, 0x31)),
			"MatMulNBits" + microsoft + " x w bs bz → y N=3 K=32 bits=4 block_size=16", []int64{N, 3}, 0, 0},
	}
}

// Every operator on quantised values that is opened gives what the file gives: the same step of the output's scale, but
// for a few values next to a tie, which the runtime's kernels round otherwise. Values left as floats agree to
// rounding, and after a DynamicQuantizeLinear to the rounding that the opened form leaves out.
func TestIntegerOperators(t *testing.T) {
	for _, c := range integerCases() {
		t.Run(c.name, func(t *testing.T) {
			data := c.bytes()
			g := onnxtest.Open(t, data)
			if !g.IsCopy() || len(g.Notices) == 0 {
				t.Errorf("a copy %v, notices %q", g.IsCopy(), g.Notices)
			}
			dynamic := c.within > 0
			if slices.Contains(g.Notices, simplify.NoticeDynamic) != dynamic {
				t.Errorf("notices %q", g.Notices)
			}
			size := g.Outputs[0].Shape.Items()
			for _, scale := range []float32{0.3, 1, 4} {
				x := onnxtest.Ramp(g.Inputs[0].Shape.Items())
				for i := range x {
					x[i] = scale * x[(7*i)%len(x)]
				}
				got, want := onnxtest.Run(t, g, x), onnxtest.RunFile(t, data, x, size, ort.Unoptimized())
				most := 0.0
				for _, v := range want {
					most = max(most, math.Abs(float64(v)))
				}
				apart := 0
				for i := range want {
					d, allowed := math.Abs(float64(got[i]-want[i])), 1e-6*most+c.within*most
					if d > allowed {
						apart++
					}
					if d > 1.001*c.step+allowed {
						t.Fatalf("times %v, value %d: %v, the file gives %v", scale, i, got[i], want[i])
					}
				}
				if apart > max(1, len(want)/10) {
					t.Errorf("times %v: %d of %d values are a step apart", scale, apart, len(want))
				}
				if most == 0 {
					t.Errorf("times %v: the file gives zeros alone", scale)
				}
			}
		})
	}
}

func TestIntegerErrors(t *testing.T) {
	base := func() File { return integers(u8, 6).Tensor(weights("w", i8, 6, 3)) }
	for _, c := range []struct{ want, nodes string }{
		{"must be constant", "Abs x → a; QLinearMatMul q a z w ws wz r rz → y8; DequantizeLinear y8 r rz → y"},
		{"has channels last, and its input has the shape [N 6]",
			"QLinearGlobalAveragePool@com.microsoft q s z r rz → y8 channels_last=1; DequantizeLinear y8 r rz → y"},
		{"several axes as one",
			"QLinearSoftmax@com.microsoft q s z r rz → y8 opset=11 axis=0; DequantizeLinear y8 r rz → y"},
		{"weights of 3 bits", "MatMulNBits@com.microsoft x w s → y N=3 K=6 bits=3 block_size=16"},
		{"no constants of N rows", "MatMulNBits@com.microsoft x x s → y N=3 K=6 bits=4 block_size=16"},
		{"lacks N, K or block_size", "MatMulNBits@com.microsoft x w s → y bits=4"},
		{"has 1 outputs", "DynamicQuantizeLinear x → d; Cast d → y to=1"},
	} {
		_, err := simplify.Open(base().Node(c.nodes).Bytes(N, 3), simplify.Options{})
		must.Refuse(t, err, c.want)
	}
}
