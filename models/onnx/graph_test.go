package onnx_test

import (
	"bytes"
	"fmt"
	"reflect"
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

// Everything that a graph holds comes back from its file, and the same graph gives the same bytes.
func TestEncodeDecode(t *testing.T) {
	g := onnx.NewGraph("all")
	g.Meta["author"], g.Meta["a"] = "x", "ü"
	b := &onnx.Builder{G: g}
	x := b.Input("x", onnx.Shape{N, 2, 3})
	y := b.OpWith("Relu", onnx.Attrs{
		"int": int64(-3), "float": float32(1.5), "string": "a\nb", "ints": []int64{1, -2},
		"floats": []float32{0.1, -0.2}, "none": []int64{}, "tensor": onnx.IntTensor(1, 2, 3),
	}, x)
	b.Output("y", b.Op("Add", y, b.Const(onnx.FloatTensor(onnx.Shape{2, 3}, onnxtest.Ramp(6)))))
	must.Do(t, b.Err())
	g.Nodes[0].Name = "first"
	g.Nodes[1].Outputs = append(g.Nodes[1].Outputs, "") // an absent output
	for kind, v := range map[onnx.DType][]int64{
		onnx.Int64: {-1 << 63, 0, 1<<63 - 1}, onnx.Int32: {-1 << 31, 0, 1<<31 - 1}, onnx.Int8: {-128, 0, 127},
		onnx.Uint8: {0, 128, 255}, onnx.Bool: {0, 1, 1},
	} {
		g.AddConst("kind", &onnx.Tensor{DType: kind, Shape: onnx.Shape{3, 1}, Ints: v})
	}
	g.AddConst("scalar", onnx.Scalar(2.5))
	g.AddConst("empty", onnx.FloatTensor(onnx.Shape{0, 4}, []float32{}))
	data := must.Get(g.Encode())(t)
	again := must.Get(onnx.Decode(data))(t)
	second := must.Get(again.Encode())(t)
	if !bytes.Equal(data, second) {
		t.Error("written again, the bytes differ")
	}
	if g.Name != again.Name || g.Opset != again.Opset || !reflect.DeepEqual(g.Meta, again.Meta) ||
		!reflect.DeepEqual(g.Inputs, again.Inputs) || !reflect.DeepEqual(g.Outputs, again.Outputs) {
		t.Errorf("%+v came back as %+v", g, again)
	}
	for name, c := range g.Consts {
		if a := again.Consts[name]; a == nil || fmt.Sprint(*a) != fmt.Sprint(*c) {
			t.Errorf("constant %s: %+v came back as %+v", name, c, a)
		}
	}
	for i, n := range g.Nodes {
		a := again.Nodes[i]
		a.Origin = nil
		if n.Attrs == nil {
			n.Attrs = onnx.Attrs{}
		}
		if !reflect.DeepEqual(a, n) {
			t.Errorf("node %+v came back as %+v", n, a)
		}
	}
}

// Encode writes the same bytes as protobuf, though it copies the weights itself. It renames the first of two nodes with
// one name, which ONNX Runtime would refuse.
func TestEncodeIsProtobuf(t *testing.T) {
	g := onnx.NewGraph("test")
	g.Meta["a"], g.Meta["b"] = "1", "2"
	b := &onnx.Builder{G: g}
	x := b.Input("x", onnx.Shape{N, 2})
	y := b.Op("Add", b.Op("Mul", x, b.Const(onnx.FloatTensor(onnx.Shape{0, 2}[1:], onnxtest.Ramp(2)))),
		b.Const(onnx.FloatTensor(onnx.Shape{}, []float32{1})))
	b.Const(onnx.FloatTensor(onnx.Shape{0}, []float32{}))
	b.Const(onnx.IntTensor())
	b.Output("y", y)
	for _, n := range g.Nodes[:2] {
		n.Name = "same"
	}
	data := must.Get(g.Encode())(t)
	var m pb.ModelProto
	must.Do(t, proto.Unmarshal(data, &m))
	again := must.Get(proto.MarshalOptions{Deterministic: true}.Marshal(&m))(t)
	if !bytes.Equal(data, again) {
		t.Errorf("%d bytes differ from protobuf's %d", len(data), len(again))
	}
	if a, b := m.Graph.Node[0].GetName(), m.Graph.Node[1].GetName(); a != "same" || b != "" {
		t.Errorf("two nodes are called %q and %q", a, b)
	}
	for _, c := range m.Graph.Initializer {
		if c.RawData == nil {
			t.Errorf("initializer %s has no data", c.GetName())
		}
	}
	before := must.Allocated()
	g.AddConst("large", onnx.FloatTensor(onnx.Shape{1 << 22}, make([]float32, 1<<22)))
	if _, err := g.Encode(); err != nil {
		t.Fatal(err)
	}
	if used := must.Allocated() - before; used > 16<<20*5/2 {
		t.Errorf("a weight of 16 MiB, made and encoded, takes %d MiB", used>>20)
	}
}

// Each way of breaking a graph is found, and Encode refuses to write it.
func TestVerify(t *testing.T) {
	for want, breakIt := range map[string]func(g *onnx.Graph){
		"":                          func(*onnx.Graph) {},
		"no input":                  func(g *onnx.Graph) { g.Inputs = nil },
		"no output":                 func(g *onnx.Graph) { g.Outputs = nil },
		`output "z" is written by`:  func(g *onnx.Graph) { g.Outputs[0].Name = "z" },
		`"c" is not a name of its`:  func(g *onnx.Graph) { g.Inputs[0].Name = "c" },
		`input "" is not a name`:    func(g *onnx.Graph) { g.Inputs[0].Name = "" },
		`node "n" names no operat`:  func(g *onnx.Graph) { g.Nodes[0].Op = "" },
		`Mul "n" reads "gone"`:      func(g *onnx.Graph) { g.Nodes[0].Inputs[1] = "gone" },
		`Mul "n" reads "y"`:         func(g *onnx.Graph) { g.Nodes[0].Inputs[0] = "y" },
		`"x" is written twice`:      func(g *onnx.Graph) { g.Nodes[0].Outputs[0] = "x" },
		`Mul "n" has no output`:     func(g *onnx.Graph) { g.Nodes[0].Outputs = nil },
		"an initializer has no nam": func(g *onnx.Graph) { g.Consts[""] = onnx.Scalar(1) },
		`"c": shape [3] needs 3 va`: func(g *onnx.Graph) { g.Consts["c"].Shape = onnx.Shape{3} },
		"negative dimension":        func(g *onnx.Graph) { g.Consts["c"].Shape = onnx.Shape{-2, -1} },
		"nothing before it writes":  func(g *onnx.Graph) { slices.Reverse(g.Nodes) },
	} {
		g := onnx.NewGraph("test")
		g.Inputs = []onnx.Value{{Name: "x", DType: onnx.Float, Shape: onnx.Shape{N, 2}}}
		g.Outputs = []onnx.Value{{Name: "y", DType: onnx.Float, Shape: onnx.Shape{N, 2}}}
		g.Consts["c"] = onnx.FloatTensor(onnx.Shape{2}, []float32{1, 2})
		g.Nodes = []*onnx.Node{
			{Name: "n", Op: "Mul", Inputs: []string{"x", "c"}, Outputs: []string{"a"}},
			{Name: "m", Op: "Neg", Inputs: []string{"a"}, Outputs: []string{"y"}},
		}
		breakIt(g)
		err := g.Verify()
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		must.Refuse(t, err, want)
		if _, err := g.Encode(); err == nil {
			t.Errorf("a graph with %q is written", want)
		}
	}
}

// A pass on a clone leaves the original unchanged.
func TestClone(t *testing.T) {
	g := onnxtest.Open(t, onnxtest.New(13, N, 2).Floats("w", []int64{2}, 3).Node("Mul x w → a; Relu a → y").
		Bytes(N, 2))
	before := must.Get(g.Encode())(t)
	c := g.Clone()
	c.Nodes[0].Inputs[0], c.Nodes[0].Op, c.Inputs[0].Shape[1] = "other", "Add", 7
	c.Nodes[1].Set("alpha", float32(1))
	c.AddConst("new", onnx.Scalar(1))
	c.Meta["k"] = "v"
	after := must.Get(g.Encode())(t)
	if !bytes.Equal(before, after) {
		t.Error("changing the clone changed the graph")
	}
}

// Fresh names are free, however many have been given out.
func TestFresh(t *testing.T) {
	g := onnx.NewGraph("test")
	for range 20_000 {
		g.AddConst("const", onnx.Scalar(0))
	}
	if len(g.Consts) != 20_000 {
		t.Errorf("%d constants", len(g.Consts))
	}
	g = onnx.NewGraph("a file with every power of two, to 1<<62 and beyond")
	g.Consts["x"], g.Consts["x.0"] = onnx.Scalar(0), onnx.Scalar(0)
	for i := range 64 {
		g.Consts[fmt.Sprintf("x.%d", 1<<i)] = onnx.Scalar(0)
	}
	for range 200 {
		g.AddConst("x", onnx.Scalar(0))
	}
	if len(g.Consts) != 266 {
		t.Errorf("%d constants", len(g.Consts))
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                  "is a folder",
		dir + "/absent.onnx": "no such file",
		"graph_test.go":      "not an ONNX model",
	} {
		_, _, err := simplify.Load(path, simplify.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "model "+path+": ") || !strings.Contains(err.Error(), want) ||
			strings.Count(err.Error(), path) != 1 {
			t.Errorf("%v, want model %s: … %s", err, path, want)
		}
	}
}
