package onnx_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// Calls give what their functions' nodes give, written out: nested ones, with
// attributes of the call, defaults and absent ones, with inputs left out and
// outputs that are inputs, with names that are taken outside.
func TestFunctions(t *testing.T) {
	f := onnxtest.New(13, N, 2).Floats("b", []int64{1}, 3)
	f.Function("Leak", "x b", "y same", []string{"slope"}, func(f onnxtest.File) {
		f.Node("LeakyRelu x → m")
		f.Refer("alpha", "slope", pb.AttributeProto_FLOAT)
		f.Node("Add m b → y; Neg x → t") // t and m are names outside too
	}).Output = []string{"y", "x"}
	twice := f.Function("Twice", "x b", "z", []string{"s"}, func(f onnxtest.File) {
		f.Node("Leak@local x b → u")
		f.Refer("slope", "s", pb.AttributeProto_FLOAT)
		f.Node("Leak@local u b → v slope=0.5; Clip v _ _ → z")
	})
	twice.AttributeProto = []*pb.AttributeProto{{Name: proto.String("s"), Type: pb.AttributeProto_FLOAT.Enum(),
		F: proto.Float32(0.25)}}
	f.Node("Leak@local x b → t m slope=0.125; Twice@local t b → u; Leak@local u b → m@1; Add m@1 m → y")
	f.Graph.Node[1].Name = proto.String("second")

	plain := onnxtest.New(13, N, 2).Floats("b", []int64{1}, 3)
	leak := func(in, out string, slope float64) {
		plain.Node(fmt.Sprintf("LeakyRelu %s → %s_", in, out), "alpha", slope).
			Node(fmt.Sprintf("Add %s_ b → %s", out, out))
	}
	leak("x", "t", 0.125)
	leak("t", "u1", 0.25)
	leak("u1", "u", 0.5)
	leak("u", "w", 0.01)
	plain.Node("Add w x → y")

	data := f.Bytes(N, 2)
	g, want := onnxtest.Open(t, data), onnxtest.Open(t, plain.Bytes(N, 2))
	for _, x := range [][]float32{{1, -2}, {-30, -7}, {-300, 0}} {
		if a, b := onnxtest.Run(t, g, x), onnxtest.Run(t, want, x); !slices.Equal(a, b) {
			t.Errorf("%v gives %v, written out %v", x, a, b)
		}
	}
	decoded := must.Get(onnx.Decode(data))(t)
	for _, n := range decoded.Nodes {
		if n.Origin.Index == 1 && (n.Origin.Function != "Twice" || !strings.HasPrefix(n.Name, "second/n")) {
			t.Errorf("%s comes from %+v", n, n.Origin)
		}
	}
	again := must.Get(decoded.Encode())(t)
	if a := onnxtest.Run(t, onnxtest.Open(t, again), []float32{1, -2}); !slices.Equal(a,
		onnxtest.Run(t, want, []float32{1, -2})) {
		t.Error("written and read again it is another network: ", a)
	}
}

// A function written for an older operator set is read as that.
func TestFunctionOpset(t *testing.T) {
	f := onnxtest.New(18, N, 2, 2)
	fn := f.Function("Old", "x", "y", nil, func(f onnxtest.File) { f.Node("ReduceMean x → y axes=2, keepdims=0") })
	fn.OpsetImport[0].Version = proto.Int64(11)
	got := onnxtest.Run(t, onnxtest.Open(t, f.Node("Old@local x → y").Bytes(N, 2)), []float32{1, 2, 3, 5})
	if !onnxtest.Near(got, []float32{1.5, 4}) {
		t.Error(got)
	}
}

func TestFunctionErrors(t *testing.T) {
	loop := onnxtest.New(13, N, 2)
	loop.Function("A", "x", "y", nil, func(f onnxtest.File) { f.Node("B@local x → y") })
	loop.Function("B", "x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → n; A@local n → y") })
	bomb := onnxtest.New(13, N, 2)
	for i := range 40 {
		bomb.Function(fmt.Sprint("F", i), "x", "y", nil, func(f onnxtest.File) {
			f.Node(fmt.Sprintf("F%d@local x → m", i+1)).Node(fmt.Sprintf("F%d@local m → y", i+1))
		})
	}
	bomb.Function("F40", "x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → y") })
	deep := onnxtest.New(13, N, 2)
	for i := range 100 {
		deep.Function(fmt.Sprint("F", i), "x", "y", nil,
			func(f onnxtest.File) { f.Node(fmt.Sprintf("F%d@local x → y", i+1)) })
	}
	deep.Function("F100", "x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → y") })
	long := onnxtest.New(13, N, 2)
	name := strings.Repeat("n", 1<<16)
	long.Function("F0", "x", "y", nil, func(f onnxtest.File) {
		f.Node("Neg x → " + name + "0")
		for i := range 2000 {
			f.Node(fmt.Sprintf("Neg %s%d → %s%d", name, i, name, i+1))
		}
		f.Node("Neg " + name + "2000 → y")
	})
	twice := onnxtest.New(13, N, 2)
	for range 2 {
		twice.Function("F0", "x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → y") })
	}
	absent := onnxtest.New(13, N, 2)
	absent.Function("F0", "x", "y", nil, func(f onnxtest.File) {
		f.Node("LeakyRelu x → y")
		f.Refer("alpha", "gone", pb.AttributeProto_FLOAT)
	})
	one := onnxtest.New(13, N, 2)
	one.Function("F0", "x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → y") })
	repeated := onnxtest.New(13, N, 2)
	repeated.Function("F0", "x x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → y") })
	unwritten := onnxtest.New(13, N, 2)
	unwritten.Function("F0", "x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → z") })
	for _, c := range []struct {
		name string
		f    onnxtest.File
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
			f := onnxtest.File{ModelProto: proto.CloneOf(c.f.ModelProto)}
			data := f.Node(c.call).Bytes(N, 2)
			before := onnxtest.Allocated()
			_, err := simplify.Open(data, nil, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
				len(err.Error()) > 1000 {
				t.Errorf("%v, want %q", err, c.want)
			}
			if used := onnxtest.Allocated() - before; used > 1<<30 {
				t.Errorf("took %d MiB", used>>20)
			}
		})
	}
}
