package simplify_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// A Resize by a scale that is no whole number has the size that ONNX Runtime gives
// it, and samples as the file does, in every form that the operator has had.
func TestResizeByFractions(t *testing.T) {
	const longest = 64
	forms := []struct {
		opset int64
		what  string
		attrs []any
		least float32 // scale
	}{
		{9, "Upsample d%d s → y%d", nil, 1},
		{10, "Resize d%d s → y%d", nil, 0},
		{13, "Resize d%d _ s → y%d", []any{"coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor"}, 0},
		{13, "Resize d%d _ s → y%d", []any{"coordinate_transformation_mode", "half_pixel"}, 0},
	}
	for _, scale := range []float32{0.3, 0.6, 0.7, 1.1, 1.4, 2.3} {
		for _, form := range forms {
			if scale < form.least {
				continue
			}
			f := file(form.opset, N, 1, longest).Floats("s", []int64{3}, 1, 1, scale)
			for d := range longest + 1 {
				if scale*float32(d) < 1 {
					continue
				}
				cut := fmt.Sprintf("Slice x → d%d", d)
				attrs := []any{"axes", []int64{2}, "starts", []int64{0}, "ends", []int64{int64(d)}}
				if form.opset >= 10 {
					f.Ints(fmt.Sprint("e", d), int64(d))
					cut, attrs = fmt.Sprintf("Slice x zero e%d two → d%d", d, d), nil
				}
				f.Node(cut, attrs...).Node(fmt.Sprintf(form.what, d, d), form.attrs...)
				f.Graph.Output = append(f.Graph.Output, &pb.ValueInfoProto{Name: proto.String(fmt.Sprint("y", d)),
					Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
						TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(1)}}}})
			}
			if form.opset >= 10 {
				f.Ints("zero", 0).Ints("two", 2)
			}
			data := must.Get(proto.Marshal(f.ModelProto))(t)
			g := onnxtest.Open(t, data)
			written := must.Get(g.Encode())(t)
			results := func(data []byte) []ort.Tensor {
				s := must.Get(ort.Open("resize", data))(t)
				defer s.Close()
				y := must.Get(s.Run([]ort.Tensor{{Shape: onnx.Shape{1, 1, longest}, Data: onnxtest.Ramp(longest)}}))(t)
				return y
			}
			want, got := results(data), results(written)
			for i, o := range g.Outputs {
				if !slices.Equal(o.Shape[1:], want[i].Shape[1:]) || !slices.Equal(got[i].Data, want[i].Data) {
					t.Errorf("operator set %d, %v times %v: shape %v and %v, the file gives %v and %v", form.opset,
						o.Name, scale, o.Shape, got[i].Data, want[i].Shape, want[i].Data)
				}
			}
		}
	}
}
