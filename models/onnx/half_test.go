package onnx_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// raw makes a tensor of any type, with its data as in files.
func raw(kind int32, name string, dims []int64, data []byte) *pb.TensorProto {
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(kind), Dims: dims, RawData: data}
}

// bits returns numbers as bytes of a file; float16 is given by its bits.
func bits[T uint16 | float32 | float64](v ...T) []byte {
	data, _ := binary.Append(nil, binary.LittleEndian, v)
	return data
}

// A network in another width becomes its float32 copy, with a notice: input, output, weights in both encodings,
// Constants and Casts.
func TestOtherFloats(t *testing.T) {
	const f16, f64, bf16 = 10, 11, 16
	ints := func(kind int32, v ...int32) *pb.TensorProto {
		return &pb.TensorProto{Name: proto.String("b"), DataType: proto.Int32(kind), Dims: []int64{2}, Int32Data: v}
	}
	doubles := &pb.TensorProto{Name: proto.String("b"), DataType: proto.Int32(f64), Dims: []int64{2},
		DoubleData: []float64{0.1, -1}}
	for _, c := range []struct {
		name string
		kind int32
		w, b *pb.TensorProto
		wf   []float32
		bf   []float32
	}{
		{"float16", f16, raw(f16, "w", []int64{2}, bits[uint16](0x3c00, 0xc100)), ints(f16, 0x3555, 0x0001),
			[]float32{1, -2.5}, []float32{0.33325195, 5.9604645e-08}},
		{"bfloat16", bf16, raw(bf16, "w", []int64{2}, bits[uint16](0x3f80, 0xc020)),
			ints(bf16, 0x3eab, 0x0001), []float32{1, -2.5}, []float32{0.33398438, math.Float32frombits(1 << 16)}},
		{"float64", f64, raw(f64, "w", []int64{2}, bits[float64](0.3, 1e-320)), doubles, []float32{0.3, 0},
			[]float32{0.1, -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := onnxtest.New(13, N, 2)
			f.Graph.Input[0].Type.GetTensorType().ElemType = proto.Int32(c.kind)
			w := proto.CloneOf(c.w)
			w.Name = nil
			f.Tensor(c.b).Node("Constant → w", "value", w).Node("Mul x w → m; Cast m → h", "to", int(c.kind)).
				Node("Add h b → a")
			f.Node("Cast a → y to=1")
			g := onnxtest.Open(t, f.Bytes(N, 2))
			if got := onnxtest.Operators(g); got != "Mul Add Identity" && got != "Mul Add" && got != "Mul Add Cast" {
				t.Error(got)
			}
			if want := []string{"its " + c.name + " values are computed in float32"}; !slices.Equal(g.Notices, want) {
				t.Errorf("notices %q, want %q", g.Notices, want)
			}
			if g.Inputs[0].DType != onnx.Float || g.Outputs[0].DType != onnx.Float {
				t.Error("ports are not float32")
			}
			x := []float32{1.5, 3}
			got := onnxtest.Run(t, g, x)
			for i, v := range got {
				if want := x[i]*c.wf[i] + c.bf[i]; v != want {
					t.Errorf("y[%d] = %g, want %g", i, v, want)
				}
			}
			if c := g.Clone(); !slices.Equal(c.Notices, g.Notices) {
				t.Error("the clone has lost the notice")
			}
		})
	}
	plain := onnxtest.Open(t, onnxtest.New(13, N, 2).Node("Neg x → y").Bytes(N, 2))
	if len(plain.Notices) > 0 {
		t.Error(plain.Notices)
	}
	for want, tensor := range map[string]*pb.TensorProto{
		"value 1 is NaN":                    raw(10, "w", []int64{2}, bits[uint16](0, 0x7e00)),
		"value 0 is 1e+300, beyond float32": raw(11, "w", []int64{1}, bits[float64](1e300)),
		"value 0 is 3.402824e+38, beyond":   raw(11, "w", []int64{1}, bits[float64](3.402824e38)),
		"needs 4 bytes, the file holds 3":   raw(10, "w", []int64{2}, []byte{1, 2, 3}),
		"needs 16 bytes, the file holds 8":  raw(11, "w", []int64{2}, bits[float64](1)),
		"needs 2 values, the file holds 1": {Name: proto.String("w"), DataType: proto.Int32(10), Dims: []int64{2},
			Int32Data: []int32{1}},
		"not the bits of a float16": {Name: proto.String("w"), DataType: proto.Int32(10), Dims: []int64{1},
			Int32Data: []int32{1 << 16}},
		"element type COMPLEX64 is not":        raw(14, "w", []int64{1}, make([]byte, 8)),
		"needs 1 values, the file holds 0":     {Name: proto.String("w"), DataType: proto.Int32(11), Dims: []int64{1}},
		"element type UINT64 is not supported": raw(13, "w", []int64{1}, make([]byte, 8)),
	} {
		data := onnxtest.New(13, N, 2).Tensor(tensor).Node("Mul x w → y").Bytes(N, 2)
		_, err := simplify.Open(data, simplify.Options{})
		must.Refuse(t, err, want, `initializer "w"`)
	}
}
