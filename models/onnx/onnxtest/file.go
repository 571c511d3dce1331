// Package onnxtest writes ONNX files for tests, valid and faulty ones, and runs them. [New] begins a [File], whose
// methods add to it until [File.Bytes]; [FillSkeleton] draws the weights of a skeleton; [RunFile] evaluates an item.
package onnxtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// File is an ONNX file under construction, with the float input "x"; tests may make every part wrong on purpose. A
// dimension of -1 is symbolic.
type File struct{ *pb.ModelProto }

// New begins a file for an operator set.
func New(opset int64, shape ...int64) File {
	f := File{&pb.ModelProto{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(opset)}},
		Graph:       &pb.GraphProto{Name: proto.String("test")},
	}}
	f.Graph.Input = append(f.Graph.Input, Value("x", 1, shape...))
	return f
}

// Value makes an input or an output of a file.
func Value(name string, elem int32, shape ...int64) *pb.ValueInfoProto {
	return pb.Value(name, elem, "batch", shape...)
}

// Node appends operators and constants, written as "name=value; Op in1 in2 → out1 out2 name=value; Op …"; _ is an
// absent input, Op@domain an operator of another domain. A value is an integer, a float (with a point), integers (with
// a comma, also after a single one) or a word. More attributes of the last operator follow as name, value pairs.
func (f File) Node(what string, attrs ...any) File {
	all := strings.Split(what, "; ")
	for i, one := range all {
		left, right, ok := strings.Cut(one, "→")
		if !ok {
			f.constant(one)
			continue
		}
		op, inputs, _ := strings.Cut(left, " ")
		op, domain, _ := strings.Cut(op, "@")
		n := &pb.NodeProto{OpType: proto.String(op), Input: strings.Fields(inputs)}
		if domain != "" {
			n.Domain = proto.String(domain)
		}
		var pairs []any
		for _, field := range strings.Fields(right) {
			if name, value, ok := strings.Cut(field, "="); ok {
				pairs = append(pairs, name, parsed(value))
			} else {
				n.Output = append(n.Output, field)
			}
		}
		for _, names := range [][]string{n.Input, n.Output} {
			for i := range names {
				if names[i] == "_" {
					names[i] = ""
				}
			}
		}
		if i == len(all)-1 {
			pairs = append(pairs, attrs...)
		}
		for i := 0; i < len(pairs); i += 2 {
			a := pb.Attribute(pairs[i].(string), pairs[i+1])
			if a == nil {
				panic(fmt.Sprintf("attribute of type %T", pairs[i+1]))
			}
			n.Attribute = append(n.Attribute, a)
		}
		f.Graph.Node = append(f.Graph.Node, n)
	}
	return f
}

// constant adds "name=value", an integer, integers or a float, or "name[2,3]=value", a tensor filled with one float.
func (f File) constant(text string) {
	name, value, _ := strings.Cut(text, "=")
	name, shape, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	switch v := parsed(value).(type) {
	case int:
		f.Int(name, int64(v))
	case []int64:
		f.Ints(name, v...)
	case float64:
		dims, _ := parsed(shape + ",").([]int64)
		f.Floats(name, dims, float32(v))
	default:
		panic("no operator and no constant: " + text)
	}
}

func parsed(value string) any {
	if i, err := strconv.Atoi(value); err == nil {
		return i
	}
	if v, err := strconv.ParseFloat(value, 64); err == nil {
		return v
	}
	list := []int64{}
	for v := range strings.SplitSeq(strings.TrimSuffix(value, ","), ",") {
		i, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return value
		}
		list = append(list, i)
	}
	return list
}

func (f File) Tensor(t *pb.TensorProto) File {
	f.Graph.Initializer = append(f.Graph.Initializer, t)
	return f
}

func IntTensor(name string, dims []int64, v ...int64) *pb.TensorProto {
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(7), Dims: dims, Int64Data: v}
}

// BoolTensor makes a scalar.
func BoolTensor(name string, v bool) *pb.TensorProto {
	t := &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(9), Int32Data: []int32{0}}
	if v {
		t.Int32Data[0] = 1
	}
	return t
}

func FloatTensor(name string, dims []int64, v ...float32) *pb.TensorProto {
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(1), Dims: dims, FloatData: v}
}

// Int adds an int64 scalar.
func (f File) Int(name string, v int64) File { return f.Tensor(IntTensor(name, nil, v)) }

// Ints adds an int64 vector, Floats a float tensor filled with v repeated.
func (f File) Ints(name string, v ...int64) File {
	return f.Tensor(IntTensor(name, []int64{int64(len(v))}, v...))
}

func (f File) Floats(name string, dims []int64, v ...float32) File {
	n := int(onnx.Shape(dims).Items())
	return f.Tensor(FloatTensor(name, dims, slices.Repeat(v, n/len(v))...))
}

// Bytes returns the finished file; its output is y, of the given shape.
func (f File) Bytes(shape ...int64) []byte {
	f.Graph.Output = append(f.Graph.Output, Value("y", 1, shape...))
	data, err := proto.Marshal(f.ModelProto)
	if err != nil {
		panic(err)
	}
	return data
}

// Operators lists a graph's operators in order.
func Operators(g *onnx.Graph) string {
	return strings.Join(onnx.Each(g.Nodes, func(n *onnx.Node) string { return n.Op }), " ")
}

func Open(t testing.TB, data []byte) *onnx.Graph {
	t.Helper()
	return must.Get(simplify.Open(data, simplify.Options{}))(t)
}

// RunFile evaluates one item on a model's bytes; size is the number of values in the output.
func RunFile(t testing.TB, data []byte, x []float32, size int64, opts ...ort.CompileOption) []float32 {
	t.Helper()
	pool := ort.NewPool(1, 1)
	defer pool.Close()
	p := must.Get(pool.Compile("test", data, opts...))(t)
	y := make([]float32, size)
	must.Do(t, pool.Run(context.Background(), p, [][]float32{x}, [][]float32{y}))
	return y
}

func Run(t testing.TB, g *onnx.Graph, x []float32) []float32 {
	t.Helper()
	return RunFile(t, must.Get(g.Encode())(t), x, g.Outputs[0].Shape.Items())
}

// Ramp returns n values from −1 to 1.
func Ramp(n int64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(2*i+1)/float32(n) - 1
	}
	return x
}

func Near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x-y < 1e-6 && y-x < 1e-6 })
}

// Function adds a model-local function of domain "local"; body adds its nodes to an empty file.
func (f File) Function(name, inputs, outputs string, attributes []string, body func(File)) *pb.FunctionProto {
	inner := New(13, -1, 2)
	body(inner)
	for i, n := range inner.Graph.Node {
		n.Name = proto.String(fmt.Sprint("n", i))
	}
	fn := &pb.FunctionProto{
		Name: proto.String(name), Domain: proto.String("local"), Attribute: attributes,
		Input: strings.Fields(inputs), Output: strings.Fields(outputs), Node: inner.Graph.Node,
		OpsetImport: inner.OpsetImport,
	}
	f.Functions = append(f.Functions, fn)
	return fn
}

// Refer makes an attribute of the last node of a function a reference.
func (f File) Refer(attribute, to string, kind pb.AttributeProto_AttributeType) {
	n := f.Graph.Node[len(f.Graph.Node)-1]
	n.Attribute = append(n.Attribute, &pb.AttributeProto{Name: proto.String(attribute), RefAttrName: proto.String(to),
		Type: kind.Enum()})
}

// External makes a float32 tensor whose data lies in another file; where is "key=value key=value".
func External(name string, dims []int64, where string) *pb.TensorProto {
	t := &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(1), Dims: dims,
		DataLocation: pb.TensorProto_EXTERNAL.Enum()}
	for _, pair := range strings.Fields(where) {
		key, value, _ := strings.Cut(pair, "=")
		t.ExternalData = append(t.ExternalData, &pb.StringStringEntryProto{Key: &key, Value: &value})
	}
	return t
}
