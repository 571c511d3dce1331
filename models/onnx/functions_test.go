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

// A call gives the same result as the function's nodes written out: nested calls, attributes of the call, defaults and
// absent ones, inputs left out, outputs that are inputs, and names that are taken outside.
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

// A function written for an older operator set is read in that set.
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
	// A file with functions of x and y, by their names.
	with := func(bodies ...[2]string) onnxtest.File {
		f := onnxtest.New(13, N, 2)
		for _, b := range bodies {
			f.Function(b[0], "x", "y", nil, func(f onnxtest.File) { f.Node(b[1]) })
		}
		return f
	}
	negated := [2]string{"F0", "Neg x → y"}
	bombs, depths := [][2]string{{"F40", "Neg x → y"}}, [][2]string{{"F100", "Neg x → y"}}
	for i := range 40 {
		bombs = append(bombs, [2]string{fmt.Sprint("F", i), fmt.Sprintf("F%d@local x → m; F%[1]d@local m → y", i+1)})
	}
	for i := range 100 {
		depths = append(depths, [2]string{fmt.Sprint("F", i), fmt.Sprintf("F%d@local x → y", i+1)})
	}
	long, absent, repeated := onnxtest.New(13, N, 2), onnxtest.New(13, N, 2), onnxtest.New(13, N, 2)
	long.Function("F0", "x", "y", nil, func(f onnxtest.File) {
		name := strings.Repeat("n", 1<<16)
		f.Node("Neg x → " + name + "0; Neg " + name + "2000 → y")
		for i := range 2000 {
			f.Node(fmt.Sprintf("Neg %s%d → %[1]s%d", name, i, i+1))
		}
	})
	absent.Function("F0", "x", "y", nil, func(f onnxtest.File) {
		f.Node("LeakyRelu x → y")
		f.Refer("alpha", "gone", pb.AttributeProto_FLOAT)
	})
	repeated.Function("F0", "x x", "y", nil, func(f onnxtest.File) { f.Node("Neg x → y") })
	for _, c := range []struct {
		name string
		f    onnxtest.File
		call string
		want string
	}{
		{"a function that calls itself", with([2]string{"F0", "F1@local x → y"}, [2]string{"F1", "F0@local x → y"}),
			"F0@local x → y", "calls itself"},
		{"2^40 nodes", with(bombs...), "F0@local x → y", "expand to more than 262144 nodes"},
		{"too deep", with(depths...), "F0@local x → y", "more than 64 deep"},
		{"long names", long, "F0@local x → y", "expand to more than"},
		{"defined twice", with(negated, negated), "F0@local x → y", "defined twice"},
		{"an attribute of nothing", absent, "F0@local x → y", `no attribute "gone"`},
		{"too many inputs", with(negated), "F0@local x x → y", "takes 1 inputs"},
		{"too many outputs", with(negated), "F0@local x → y z", "gives 1 outputs"},
		{"an input named twice", repeated, "F0@local x → y", "twice"},
		{"an output that nothing writes", with([2]string{"F0", "Neg x → z"}), "F0@local x → y",
			`output "y" is written by nothing`},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := c.f.Node(c.call).Bytes(N, 2)
			before := must.Allocated()
			_, err := simplify.Open(data, simplify.Options{})
			if must.Refuse(t, err, c.want); len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if used := must.Allocated() - before; used > 1<<30 {
				t.Errorf("took %d MiB", used>>20)
			}
		})
	}
}
