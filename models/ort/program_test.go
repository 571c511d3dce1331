package ort

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	pb "selfheal/models/onnx/onnxpb"
)

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
	input := func(change func(in *pb.TypeProto_Tensor)) []byte {
		return changed(func(_ *pb.GraphProto, in *pb.TypeProto_Tensor) { change(in) })
	}
	const fixed, open = `"a" has no symbolic batch dimension`, `"a" has an item whose shape is not known`
	for _, c := range map[string]struct {
		model []byte
		want  string
	}{
		"fixed batch": {input(func(in *pb.TypeProto_Tensor) { size(in.Shape.Dim[0], 1) }), fixed},
		"no shape":    {input(func(in *pb.TypeProto_Tensor) { in.Shape = nil }), fixed},
		"open item":   {input(func(in *pb.TypeProto_Tensor) { in.Shape.Dim[1].Value = nil }), open},
		"negative":    {input(func(in *pb.TypeProto_Tensor) { size(in.Shape.Dim[1], -1) }), `"a": dimension 1 is -1`},
		"integer": {input(func(in *pb.TypeProto_Tensor) { *in.ElemType = 7 }),
			`"a" is not float32 (ONNX element type 7)`},
		"no input":   {changed(func(g *pb.GraphProto, _ *pb.TypeProto_Tensor) { g.Input = nil }), "needs an input"},
		"no output":  {changed(func(g *pb.GraphProto, _ *pb.TypeProto_Tensor) { g.Output = nil }), "not an ONNX model"},
		"unknown op": {changed(func(g *pb.GraphProto, _ *pb.TypeProto_Tensor) { *g.Node[0].OpType = "Odd" }), "Odd"},
		"garbage":    {[]byte("no model at all"), "not an ONNX model"},
		"cut":        {readModel(t, "conv")[:4000], "not an ONNX model"},
		"empty":      {nil, "not an ONNX model"},
	} {
		_, err := p.Compile("m", c.model)
		must.Refuse(t, err, "compile m: ", c.want)
	}
	_, err := p.Compile("m", readModel(t, "add"), Centred(make([]float32, 3)))
	must.Refuse(t, err, `a mean of 3 values for input "a", which has 4`)
}

// A session takes whole tensors, with another number of items at each call, and does not change them.
func TestSession(t *testing.T) {
	s := must.Get(Open("add", readModel(t, "add")))(t)
	defer s.Close()
	if !slices.Equal(s.Inputs(), []string{"a", "b"}) || !slices.Contains(s.Outputs(), "sum") {
		t.Fatalf("inputs %v, outputs %v", s.Inputs(), s.Outputs())
	}
	for _, items := range []int64{1, 3} {
		a, b := make([]float32, 4*items), make([]float32, 4*items)
		for i := range a {
			a[i], b[i] = float32(i), float32(10*i)
		}
		out := must.Get(s.Run([]Tensor{{[]int64{items, 4}, a}, {[]int64{items, 4}, b}}))(t)
		sum := out[slices.Index(s.Outputs(), "sum")]
		if !slices.Equal(sum.Shape, []int64{items, 4}) {
			t.Errorf("shape %v", sum.Shape)
		}
		for i, v := range sum.Data {
			if v != float32(11*i) || a[i] != float32(i) {
				t.Fatalf("value %d is %v of %v and %v", i, v, a[i], b[i])
			}
		}
	}
}

func TestSessionErrors(t *testing.T) {
	_, err := Open("broken", []byte("not a model"))
	must.Refuse(t, err, "open broken")
	s := must.Get(Open("add", readModel(t, "add")))(t)
	four := Tensor{[]int64{1, 4}, []float32{1, 2, 3, 4}}
	for _, c := range []struct {
		in   []Tensor
		want string
	}{
		{[]Tensor{four}, "1 inputs are given"},
		{[]Tensor{four, {[]int64{2, 4}, four.Data}}, `"b" has 4 values for the shape [2 4]`},
		{[]Tensor{four, {nil, []float32{1}}}, `"b" has 1 values`},
		{[]Tensor{four, {[]int64{0, 4}, nil}}, `"b" has 0 values`},
		{[]Tensor{four, {[]int64{4, 1, 1}, four.Data}}, "run add"},
	} {
		_, err := s.Run(c.in)
		must.Refuse(t, err, c.want)
	}
	s.Close()
	s.Close()
	_, err = s.Run([]Tensor{four, four})
	must.Refuse(t, err, "closed")
}
