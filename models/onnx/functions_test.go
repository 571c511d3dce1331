package onnx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
)

// function adds a model-local function of domain "local"; its nodes are those
// that body adds to an empty file.
func (f file) function(name, inputs, outputs string, attributes []string, body func(file)) *pb.FunctionProto {
	inner := newFile(13, N, 2)
	body(inner)
	for i, n := range inner.Graph.Node {
		n.Name = proto.String(fmt.Sprint("n", i))
	}
	fn := &pb.FunctionProto{
		Name: proto.String(name), Domain: proto.String("local"), Attribute: attributes,
		Input: strings.Fields(inputs), Output: strings.Fields(outputs), Node: inner.Graph.Node, OpsetImport: inner.OpsetImport,
	}
	f.Functions = append(f.Functions, fn)
	return fn
}

// refer makes an attribute of the last node of a function a reference.
func (f file) refer(attribute, to string, kind pb.AttributeProto_AttributeType) {
	n := f.Graph.Node[len(f.Graph.Node)-1]
	n.Attribute = append(n.Attribute, &pb.AttributeProto{Name: proto.String(attribute), RefAttrName: proto.String(to), Type: kind.Enum()})
}

// Calls give what their functions' nodes give, written out: nested ones, with
// attributes of the call, defaults and absent ones, with inputs left out and
// outputs that are inputs, with names that are taken outside.
func TestFunctions(t *testing.T) {
	f := newFile(13, N, 2).floats("b", []int64{1}, 3)
	f.function("Leak", "x b", "y same", []string{"slope"}, func(f file) {
		f.node("LeakyRelu x → m")
		f.refer("alpha", "slope", pb.AttributeProto_FLOAT)
		f.node("Add m b → y").node("Neg x → t") // t and m are names outside too
	}).Output = []string{"y", "x"}
	twice := f.function("Twice", "x b", "z", []string{"s"}, func(f file) {
		f.node("Leak@local x b → u")
		f.refer("slope", "s", pb.AttributeProto_FLOAT)
		f.node("Leak@local u b → v", "slope", 0.5).node("Clip v _ _ → z")
	})
	twice.AttributeProto = []*pb.AttributeProto{{Name: proto.String("s"), Type: pb.AttributeProto_FLOAT.Enum(), F: proto.Float32(0.25)}}
	f.node("Leak@local x b → t m", "slope", 0.125).node("Twice@local t b → u").node("Leak@local u b → m@1").node("Add m@1 m → y")
	f.Graph.Node[1].Name = proto.String("second")

	plain := newFile(13, N, 2).floats("b", []int64{1}, 3)
	leak := func(in, out string, slope float64) {
		plain.node(fmt.Sprintf("LeakyRelu %s → %s_", in, out), "alpha", slope).node(fmt.Sprintf("Add %s_ b → %s", out, out))
	}
	leak("x", "t", 0.125)
	leak("t", "u1", 0.25)
	leak("u1", "u", 0.5)
	leak("u", "w", 0.01)
	plain.node("Add w x → y")

	data := f.bytes(N, 2)
	g, want := open(t, data), open(t, plain.bytes(N, 2))
	for _, x := range [][]float32{{1, -2}, {-30, -7}, {-300, 0}} {
		if a, b := run(t, g, x), run(t, want, x); !slices.Equal(a, b) {
			t.Errorf("%v gives %v, written out %v", x, a, b)
		}
	}
	decoded, err := onnx.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range decoded.Nodes {
		if n.Origin.Index == 1 && (n.Origin.Function != "Twice" || !strings.HasPrefix(n.Name, "second/n")) {
			t.Errorf("%s comes from %+v", n.Label(), n.Origin)
		}
	}
	again, err := decoded.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if a := run(t, open(t, again), []float32{1, -2}); !slices.Equal(a, run(t, want, []float32{1, -2})) {
		t.Error("written and read again it is another network: ", a)
	}
}

// A function written for an older operator set is read as that.
func TestFunctionOpset(t *testing.T) {
	f := newFile(18, N, 2, 2)
	fn := f.function("Old", "x", "y", nil, func(f file) { f.node("ReduceMean x → y", "axes", []int64{2}, "keepdims", 0) })
	fn.OpsetImport[0].Version = proto.Int64(11)
	got := run(t, open(t, f.node("Old@local x → y").bytes(N, 2)), []float32{1, 2, 3, 5})
	if !near(got, []float32{1.5, 4}) {
		t.Error(got)
	}
}

func TestFunctionErrors(t *testing.T) {
	loop := newFile(13, N, 2)
	loop.function("A", "x", "y", nil, func(f file) { f.node("B@local x → y") })
	loop.function("B", "x", "y", nil, func(f file) { f.node("Neg x → n").node("A@local n → y") })
	bomb := newFile(13, N, 2)
	for i := range 40 {
		bomb.function(fmt.Sprint("F", i), "x", "y", nil, func(f file) {
			f.node(fmt.Sprintf("F%d@local x → m", i+1)).node(fmt.Sprintf("F%d@local m → y", i+1))
		})
	}
	bomb.function("F40", "x", "y", nil, func(f file) { f.node("Neg x → y") })
	deep := newFile(13, N, 2)
	for i := range 100 {
		deep.function(fmt.Sprint("F", i), "x", "y", nil, func(f file) { f.node(fmt.Sprintf("F%d@local x → y", i+1)) })
	}
	deep.function("F100", "x", "y", nil, func(f file) { f.node("Neg x → y") })
	long := newFile(13, N, 2)
	name := strings.Repeat("n", 1<<16)
	long.function("F0", "x", "y", nil, func(f file) {
		f.node("Neg x → " + name + "0")
		for i := range 2000 {
			f.node(fmt.Sprintf("Neg %s%d → %s%d", name, i, name, i+1))
		}
		f.node("Neg " + name + "2000 → y")
	})
	twice := newFile(13, N, 2)
	for range 2 {
		twice.function("F0", "x", "y", nil, func(f file) { f.node("Neg x → y") })
	}
	absent := newFile(13, N, 2)
	absent.function("F0", "x", "y", nil, func(f file) {
		f.node("LeakyRelu x → y")
		f.refer("alpha", "gone", pb.AttributeProto_FLOAT)
	})
	one := newFile(13, N, 2)
	one.function("F0", "x", "y", nil, func(f file) { f.node("Neg x → y") })
	repeated := newFile(13, N, 2)
	repeated.function("F0", "x x", "y", nil, func(f file) { f.node("Neg x → y") })
	unwritten := newFile(13, N, 2)
	unwritten.function("F0", "x", "y", nil, func(f file) { f.node("Neg x → z") })
	for _, c := range []struct {
		name string
		f    file
		call string
		want string
	}{
		{"a function that calls itself", loop, "A@local x → y", "calls itself"},
		{"2^40 nodes", bomb, "F0@local x → y", "expand to more than 262144 nodes"},
		{"too deep", deep, "F0@local x → y", "more than 64 deep"},
		{"long names", long, "F0@local x → y", "expand to more than"},
		{"defined twice", twice, "F0@local x → y", "defined twice"},
		{"an attribute of nothing", absent, "F0@local x → y", `no attribute "gone"`},
		{"too many inputs", one, "F0@local x x → y", "takes 1 inputs"},
		{"too many outputs", one, "F0@local x → y z", "gives 1 outputs"},
		{"an input named twice", repeated, "F0@local x → y", "twice"},
		{"an output that nothing writes", unwritten, "F0@local x → y", `output "y" is written by nothing`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := file{proto.CloneOf(c.f.ModelProto)}
			data := f.node(c.call).bytes(N, 2)
			before := allocated()
			_, err := onnx.Open(data, nil, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
				t.Errorf("%v, want %q", err, c.want)
			}
			if used := allocated() - before; used > 1<<30 {
				t.Errorf("took %d MiB", used>>20)
			}
		})
	}
}
