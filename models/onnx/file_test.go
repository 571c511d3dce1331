package onnx_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// file is an ONNX file under construction, with the float input "x"; every part
// may be wrong on purpose. A dimension of -1 is symbolic.
type file struct{ *pb.ModelProto }

func newFile(opset int64, shape ...int64) file {
	f := file{&pb.ModelProto{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(opset)}},
		Graph:       &pb.GraphProto{Name: proto.String("test")},
	}}
	f.Graph.Input = append(f.Graph.Input, value("x", 1, shape...))
	return f
}

func value(name string, elem int32, shape ...int64) *pb.ValueInfoProto {
	s := &pb.TensorShapeProto{}
	for _, d := range shape {
		dim := &pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimValue{DimValue: d}}
		if d == -1 {
			dim.Value = &pb.TensorShapeProto_Dimension_DimParam{DimParam: "batch"}
		}
		s.Dim = append(s.Dim, dim)
	}
	return &pb.ValueInfoProto{Name: proto.String(name), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
		TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(elem), Shape: s},
	}}}
}

// node appends an operator written as "Op in1 in2 → out1 out2"; _ is an absent
// input. Attributes come as name, value pairs.
func (f file) node(what string, attrs ...any) file {
	left, right, ok := strings.Cut(what, "→")
	if !ok {
		panic("no → in " + what)
	}
	names := func(s string) []string {
		out := strings.Fields(s)
		for i := range out {
			if out[i] == "_" {
				out[i] = ""
			}
		}
		return out
	}
	parts := strings.Fields(left)
	n := &pb.NodeProto{OpType: proto.String(parts[0]), Input: names(strings.Join(parts[1:], " ")), Output: names(right)}
	if op, domain, ok := strings.Cut(parts[0], "@"); ok {
		n.OpType, n.Domain = proto.String(op), proto.String(domain)
	}
	for i := 0; i < len(attrs); i += 2 {
		a := &pb.AttributeProto{Name: proto.String(attrs[i].(string))}
		switch v := attrs[i+1].(type) {
		case int:
			a.Type, a.I = pb.AttributeProto_INT.Enum(), proto.Int64(int64(v))
		case float64:
			a.Type, a.F = pb.AttributeProto_FLOAT.Enum(), proto.Float32(float32(v))
		case string:
			a.Type, a.S = pb.AttributeProto_STRING.Enum(), []byte(v)
		case []int64:
			a.Type, a.Ints = pb.AttributeProto_INTS.Enum(), v
		case []float32:
			a.Type, a.Floats = pb.AttributeProto_FLOATS.Enum(), v
		case *pb.TensorProto:
			a.Type, a.T = pb.AttributeProto_TENSOR.Enum(), v
		case *pb.TypeProto:
			a.Type, a.Tp = pb.AttributeProto_TYPE_PROTO.Enum(), v
		case *pb.GraphProto:
			a.Type, a.G = pb.AttributeProto_GRAPH.Enum(), v
		default:
			panic(fmt.Sprintf("attribute of type %T", v))
		}
		n.Attribute = append(n.Attribute, a)
	}
	f.Graph.Node = append(f.Graph.Node, n)
	return f
}

func (f file) tensor(t *pb.TensorProto) file {
	f.Graph.Initializer = append(f.Graph.Initializer, t)
	return f
}

func intTensor(name string, dims []int64, v ...int64) *pb.TensorProto {
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(7), Dims: dims, Int64Data: v}
}

func floatTensor(name string, dims []int64, v ...float32) *pb.TensorProto {
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(1), Dims: dims, FloatData: v}
}

// ints adds an int64 vector, floats a float tensor filled with v repeated.
func (f file) ints(name string, v ...int64) file {
	return f.tensor(intTensor(name, []int64{int64(len(v))}, v...))
}

func (f file) floats(name string, dims []int64, v ...float32) file {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return f.tensor(floatTensor(name, dims, slices.Repeat(v, int(n)/len(v))...))
}

// bytes ends the file; its output is y, of the given shape.
func (f file) bytes(shape ...int64) []byte {
	f.Graph.Output = append(f.Graph.Output, value("y", 1, shape...))
	data, err := proto.Marshal(f.ModelProto)
	if err != nil {
		panic(err)
	}
	return data
}

// operators lists a graph's operators in order.
func operators(g *onnx.Graph) string {
	var ops []string
	for _, n := range g.Nodes {
		ops = append(ops, n.Op)
	}
	return strings.Join(ops, " ")
}

func open(t testing.TB, data []byte) *onnx.Graph {
	t.Helper()
	g, err := onnx.Open(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// runFile evaluates one item on a model's bytes; size is that of the output.
func runFile(t testing.TB, data []byte, x []float32, size int64) []float32 {
	t.Helper()
	pool := ort.NewPool(1, 1)
	defer pool.Close()
	p, err := pool.Compile("test", data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	y := make([]float32, size)
	if err := pool.Run(context.Background(), p, [][]float32{x}, [][]float32{y}); err != nil {
		t.Fatal(err)
	}
	return y
}

func run(t testing.TB, g *onnx.Graph, x []float32) []float32 {
	t.Helper()
	data, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return runFile(t, data, x, g.Outputs[0].Shape.Items())
}

// ramp gives n values from −1 to 1.
func ramp(n int64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(2*i+1)/float32(n) - 1
	}
	return x
}

func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x-y < 1e-6 && y-x < 1e-6 })
}
