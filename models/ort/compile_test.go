package ort

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	pb "selfheal/models/onnx/onnxpb"
)

func TestPortsFromModel(t *testing.T) {
	p := newPool(t, 1, 2)
	conv := compile(t, p, "conv")
	if in := conv.Inputs(); len(in) != 1 || in[0].Name != "x" || in[0].Size != 768 || len(in[0].Shape) != 3 {
		t.Errorf("inputs %v", in)
	}
	var sizes, ranks []int
	for _, port := range conv.Outputs() {
		sizes, ranks = append(sizes, port.Size), append(ranks, len(port.Shape))
	}
	if !slices.Equal(sizes, []int{10, 16, 1}) || !slices.Equal(ranks, []int{1, 1, 0}) {
		t.Errorf("outputs %v", conv.Outputs())
	}
	if p.Workers() != 1 || p.Batch() != 2 {
		t.Errorf("%d workers, batch %d", p.Workers(), p.Batch())
	}
}

func TestCompileErrors(t *testing.T) {
	p := newPool(t, 1, 2)
	// The model with a change to its graph, or to the type of its first input.
	changed := func(change func(g *pb.GraphProto, in *pb.TypeProto_Tensor)) []byte {
		m := &pb.ModelProto{}
		must.Do(t, proto.Unmarshal(readModel(t, "add"), m))
		change(m.Graph, m.Graph.Input[0].Type.GetTensorType())
		return must.Get(proto.Marshal(m))(t)
	}
	size := func(d *pb.TensorShapeProto_Dimension, n int64) {
		d.Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: n}
	}
	for name, c := range map[string]struct {
		model []byte
		want  string
	}{
		"fixed batch": {
			changed(func(_ *pb.GraphProto, in *pb.TypeProto_Tensor) { size(in.Shape.Dim[0], 1) }),
			`"a" has no symbolic batch dimension`,
		},
		"no shape": {
			changed(func(_ *pb.GraphProto, in *pb.TypeProto_Tensor) { in.Shape = nil }),
			`"a" has no symbolic batch dimension`,
		},
		"open item": {
			changed(func(_ *pb.GraphProto, in *pb.TypeProto_Tensor) { in.Shape.Dim[1].Value = nil }),
			`"a" has an item whose shape is not known`,
		},
		"negative": {
			changed(func(_ *pb.GraphProto, in *pb.TypeProto_Tensor) { size(in.Shape.Dim[1], -1) }),
			`"a" has an item whose shape is not known`,
		},
		"integer": {
			changed(func(_ *pb.GraphProto, in *pb.TypeProto_Tensor) { *in.ElemType = 7 }),
			`"a" is not float32 (ONNX element type 7)`,
		},
		"no input":   {changed(func(g *pb.GraphProto, _ *pb.TypeProto_Tensor) { g.Input = nil }), "needs an input"},
		"no output":  {changed(func(g *pb.GraphProto, _ *pb.TypeProto_Tensor) { g.Output = nil }), "not an ONNX model"},
		"unknown op": {changed(func(g *pb.GraphProto, _ *pb.TypeProto_Tensor) { *g.Node[0].OpType = "Odd" }), "Odd"},
		"garbage":    {[]byte("no model at all"), "not an ONNX model"},
		"cut":        {readModel(t, "conv")[:4000], "not an ONNX model"},
		"empty":      {nil, "not an ONNX model"},
	} {
		_, err := p.Compile("m", c.model)
		if says(t, err, c.want); err != nil && !strings.HasPrefix(err.Error(), "compile m: ") {
			t.Errorf("%s: %v does not name the model", name, err)
		}
	}
	_, err := p.Compile("m", readModel(t, "add"), Centred(make([]float32, 3)))
	says(t, err, `a mean of 3 values for input "a", which has 4`)
}
