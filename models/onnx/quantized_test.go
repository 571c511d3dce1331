package onnx_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/ort"
)

// quantizedTensor holds integers of one of QuantizeLinear's types.
func quantizedTensor(name string, kind int32, dims []int64, v ...int32) *pb.TensorProto {
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(kind), Dims: dims, Int32Data: v}
}

// asWritten runs a file on ONNX Runtime operator by operator, nothing fused.
func asWritten(t *testing.T, data []byte, x []float32, size int64) []float32 {
	t.Helper()
	pool := ort.NewPool(1, 1)
	defer pool.Close()
	p, err := pool.Compile("test", data, nil, nil, ort.Unoptimized())
	if err != nil {
		t.Fatal(err)
	}
	y := make([]float32, size)
	if err := pool.Run(context.Background(), p, [][]float32{x}, [][]float32{y}); err != nil {
		t.Fatal(err)
	}
	return y
}

// A QDQ network gives what the file's own operators give, bit for bit, with all
// of the runtime's optimisations: over values inside and beyond the range,
// ties included, with zero points of either sign, per axis, with operators
// between the two, with weights and biases folded.
func TestQuantized(t *testing.T) {
	const i8, u8, i16, i32 = 3, 2, 5, 6
	image := func() file { return newFile(13, N, 2, 4, 4).floats("s", nil, 0.0625) }
	for _, c := range []struct {
		name      string
		data      []byte
		size      int64
		operators string
	}{
		{"signed", image().tensor(quantizedTensor("z", i8, nil, 3)).
			node("QuantizeLinear x s z → q").node("DequantizeLinear q s z → y").bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul"},
		{"without zero point", image().node("QuantizeLinear x s → q").node("DequantizeLinear q s → y").bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul"},
		{"other scale and zero point back", image().tensor(quantizedTensor("z", u8, nil, 100)).tensor(quantizedTensor("z2", u8, nil, 7)).floats("s2", nil, 0.3).
			node("QuantizeLinear x s z → q").node("DequantizeLinear q s2 z2 → y").bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Sub Mul"},
		{"a scale of 1", image().floats("one", nil, 1).tensor(quantizedTensor("z", u8, nil, 128)).
			node("QuantizeLinear x one z → q").node("DequantizeLinear q one z → y").bytes(N, 2, 4, 4), 32,
			"QuantizeLinear DequantizeLinear Mul"},
		{"per axis", newFile(13, N, 2, 4, 4).floats("s", []int64{2}, 0.0625, 0.3).tensor(quantizedTensor("z", i8, []int64{2}, 3, -100)).
			node("QuantizeLinear x s z → q").node("DequantizeLinear q s z → y").bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul"},
		{"operators between", image().tensor(quantizedTensor("z", u8, nil, 100)).ints("t", 0, -1).
			node("QuantizeLinear x s z → q").node("MaxPool q → p", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}).node("Reshape p t → r").
			node("DequantizeLinear r s z → y").bytes(N, 8), 8,
			"Div QuantizeLinear DequantizeLinear MaxPool Reshape Sub Mul"},
		{"two after one another", image().tensor(quantizedTensor("z", i8, nil, -5)).floats("s2", nil, 0.3).
			node("QuantizeLinear x s z → q").node("DequantizeLinear q s z → a").node("QuantizeLinear a s2 z → r").node("DequantizeLinear r s2 z → y").bytes(N, 2, 4, 4), 32,
			"Div QuantizeLinear DequantizeLinear Mul Div QuantizeLinear DequantizeLinear Mul"},
		{"a residual join", image().tensor(quantizedTensor("z", i8, nil, 2)).floats("s2", nil, 0.11).
			node("QuantizeLinear x s z → q").node("DequantizeLinear q s z → a").node("Relu a → r").node("QuantizeLinear r s2 z → q2").node("DequantizeLinear q2 s2 z → b").
			node("Add a b → c").node("QuantizeLinear c s2 z → q3").node("DequantizeLinear q3 s2 z → y").bytes(N, 2, 4, 4), 32, ""},
		{"weights and bias", image().tensor(quantizedTensor("z", i8, nil, 1)).
			tensor(quantizedTensor("w", i8, []int64{3, 2, 1, 1}, -128, 127, 5, 6, 0, 99)).floats("ws", []int64{3}, 0.01, 0.02, 0.5).tensor(quantizedTensor("wz", i8, []int64{3}, 0, 3, -1)).
			tensor(quantizedTensor("b", i32, []int64{3}, 1000, -70000, 5)).floats("bs", []int64{3}, 0.001, 0.002, 0.003).
			node("QuantizeLinear x s z → q").node("DequantizeLinear q s z → a").
			node("DequantizeLinear w ws wz → wf", "axis", 0).node("DequantizeLinear b bs → bf", "axis", 0).
			node("Conv a wf bf → c").node("QuantizeLinear c s z → qc").node("DequantizeLinear qc s z → y").bytes(N, 3, 4, 4), 48,
			"Div QuantizeLinear DequantizeLinear Mul Conv Div QuantizeLinear DequantizeLinear Mul"},
		{"weights kept as floats", image().tensor(quantizedTensor("z", i8, nil, 1)).floats("w", []int64{2}, 0.03125, -99).
			node("QuantizeLinear w s z → qw").node("DequantizeLinear qw s z → wf").node("Reshape wf t → wr").ints("t", 2, 1, 1).node("Mul x wr → y").bytes(N, 2, 4, 4), 32,
			""},
		{"16 bits", newFile(21, N, 2, 4, 4).floats("s", nil, 0.0001).tensor(quantizedTensor("z", i16, nil, -300)).
			node("QuantizeLinear x s z → q").node("DequantizeLinear q s z → y").bytes(N, 2, 4, 4), 32, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := open(t, c.data)
			if got := operators(g); c.operators != "" && got != c.operators {
				t.Error(got)
			}
			if !slices.Contains(g.Notices, onnx.NoticeQuantized) {
				t.Error("no notice: ", g.Notices)
			}
			for scale := range 3 {
				x := ramp(32) // multiples of 1/32, whose halves of 1/16 are ties
				for i := range x {
					x[i] = float32(math.Floor(float64(x[i]*32))/32) * []float32{1, 7, 40}[scale]
				}
				got, want := run(t, g, x), asWritten(t, c.data, x, c.size)
				if !slices.Equal(got, want) {
					t.Errorf("times %v:\n%v, as written\n%v", []int{1, 7, 40}[scale], got, want)
				}
			}
		})
	}
}

func TestQuantizedErrors(t *testing.T) {
	const u8, i32, f8 = 2, 6, 17
	image := func() file { return newFile(13, N, 2).floats("s", nil, 0.0625) }
	for _, c := range []struct {
		want string
		f    file
	}{
		{"must be constant", image().node("Exp x → e").node("QuantizeLinear x e → q").node("DequantizeLinear q s → y")},
		{"must be constant", image().node("QuantizeLinear x _ → q").node("DequantizeLinear q s → y")},
		{"scale -1 is not above 0", image().floats("m", nil, -1).node("QuantizeLinear x m → q").node("DequantizeLinear q s → y")},
		{"scale 0 is not above 0", image().floats("m", nil, 0).node("QuantizeLinear x s → q").node("DequantizeLinear q m → y")},
		{"scale +Inf is not", image().floats("m", nil, float32(math.Inf(1))).node("QuantizeLinear x m → q").node("DequantizeLinear q s → y")},
		{"3 scales for axis 1 of [N 2]", image().floats("m", []int64{3}, 1).node("QuantizeLinear x m → q").node("DequantizeLinear q s → y")},
		{"2 scales for axis 0 of [N 2]", image().floats("m", []int64{2}, 1).node("QuantizeLinear x m → q", "axis", 0).node("DequantizeLinear q s → y")},
		{"axis 9 is outside", image().floats("m", []int64{2}, 1).node("QuantizeLinear x m → q", "axis", 9).node("DequantizeLinear q s → y")},
		{"0 scales", image().floats("m", []int64{0}, 1).node("QuantizeLinear x m → q").node("DequantizeLinear q s → y")},
		{"1 scales and 2 zero points", image().tensor(quantizedTensor("z", u8, []int64{2}, 1, 2)).node("QuantizeLinear x s z → q").node("DequantizeLinear q s → y")},
		{"element type 6", image().tensor(quantizedTensor("z", i32, nil, 1)).node("QuantizeLinear x s z → q").node("DequantizeLinear q s → y")},
		{"zero point 300", image().tensor(quantizedTensor("z", u8, nil, 300)).node("QuantizeLinear x s z → q").node("DequantizeLinear q s → y")},
		{"quantises in blocks", image().node("QuantizeLinear x s → q", "block_size", 2).node("DequantizeLinear q s → y")},
		{"element type FLOAT8E4M3FN", image().tensor(quantizedTensor("z", f8, nil, 0)).node("QuantizeLinear x s z → q").node("DequantizeLinear q s → y")},
		{"export it in QDQ form", image().node("Cast x → q", "to", 6).node("DequantizeLinear q s → y")},
		{"data is of ONNX element type 7", image().ints("w", 1, 2).tensor(quantizedTensor("z", u8, nil, 0)).node("DequantizeLinear w s z → f").node("Add x f → y")},
		{"DynamicQuantizeLinear (operator set 13) at node 0", image().node("DynamicQuantizeLinear x → q s2 z2").node("DequantizeLinear q s2 z2 → y")},
	} {
		_, err := onnx.Open(c.f.bytes(N, 2), nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
