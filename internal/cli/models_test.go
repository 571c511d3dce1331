package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/simplify"
)

// modelFile writes an ONNX file with the given nodes on images of 3×32×32; the
// output is y, [N, 10].
func modelFile(t *testing.T, name string, nodes []*pb.NodeProto, initializers ...*pb.TensorProto) string {
	t.Helper()
	port := func(name string, dims ...int64) *pb.ValueInfoProto {
		shape := &pb.TensorShapeProto{Dim: []*pb.TensorShapeProto_Dimension{{Value: &pb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}}}}
		for _, d := range dims {
			shape.Dim = append(shape.Dim, &pb.TensorShapeProto_Dimension{Value: &pb.TensorShapeProto_Dimension_DimValue{DimValue: d}})
		}
		return &pb.ValueInfoProto{Name: proto.String(name), Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{
			TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape},
		}}}
	}
	data, err := proto.Marshal(&pb.ModelProto{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(16)}, {Domain: proto.String("com.acme"), Version: proto.Int64(2)}},
		Graph: &pb.GraphProto{Name: proto.String("test"), Node: nodes, Initializer: initializers,
			Input: []*pb.ValueInfoProto{port("x", 3, 32, 32)}, Output: []*pb.ValueInfoProto{port("y", 10)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func node(op, name, inputs, outputs string, attributes ...*pb.AttributeProto) *pb.NodeProto {
	n := &pb.NodeProto{OpType: proto.String(op), Input: strings.Fields(inputs), Output: strings.Fields(outputs), Attribute: attributes}
	if name != "" {
		n.Name = proto.String(name)
	}
	return n
}

func weight(name string, dims ...int64) *pb.TensorProto {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i%7-3) / 50
	}
	return &pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(1), Dims: dims, FloatData: v}
}

// Every command that takes a model refuses one whose operators it does not know
// with one message, which names each node, and exit code 2.
func TestUnsupportedModel(t *testing.T) {
	testinput.Runtime(t)
	custom := node("Warp", "", "b", "c")
	custom.Domain = proto.String("com.acme")
	branch := &pb.AttributeProto{Name: proto.String("then_branch"), Type: pb.AttributeProto_GRAPH.Enum(), G: &pb.GraphProto{}}
	path := modelFile(t, "grid.onnx", []*pb.NodeProto{
		node("Relu", "first", "x", "a"), node("GridSample", "/a/GridSample", "a x", "b"), custom,
		node("GridSample", "/b/GridSample", "c x", "d"), node("If", "choice", "d", "e", branch),
		node("Flatten", "", "e", "f"), node("MatMul", "", "f w", "y"),
	}, weight("w", 3072, 10))
	names := []string{
		`GridSample (operator set 16) at node 1 "/a/GridSample", node 3 "/b/GridSample"`,
		`com.acme.Warp (version 2 of com.acme) at node 2 "c"`,
		`If (operator set 16) at node 4 "choice"`, "a subgraph",
	}
	config := filepath.Join(filepath.Dir(path), "config.yaml")
	images, err := filepath.Abs("models/zoo/shapes10/test.bin")
	if err != nil {
		t.Fatal(err)
	}
	text := "version: 1\ndefault_suites: [s]\ndatasets:\n  d: {format: cifar10-bin, path: " + images + ", limit: 2}\nmodels:\n  m: {path: grid.onnx}\n" +
		"attacks:\n  a: {kind: autoattack, version: standard, norm: l2, epsilon: 0.5}\nsuites:\n  s: {title: S, dataset: d, models: [m], attacks: [a], mode: oblivious}\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, args := range [][]string{
		{"inspect", path}, {"inspect", "--json", path}, {"inspect", path, "models/zoo/preact_standard.onnx"},
		{"split", path, "--out", out}, {"grad", path, "--out", filepath.Join(out, "g.onnx")}, {"doctor", path},
		{"run", "--config", config, "--out", filepath.Join(out, "results")},
	} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), repository, args, &stdout, &stderr)
		message := stderr.String()
		if args[0] == "doctor" {
			message = stdout.String() // a line of the checks
		}
		if code != exitUsage {
			t.Errorf("%s: exit %d\n%s", args, code, message)
		}
		for _, n := range names {
			if !strings.Contains(message, n) {
				t.Errorf("%s: %q does not name %q", args, message, n)
			}
		}
		if strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: several lines on stderr:\n%s", args, stderr.String())
		}
		if args[0] != "inspect" {
			continue
		}
		if args[1] == "--json" {
			var all []modelInfo
			if err := json.Unmarshal(stdout.Bytes(), &all); err != nil || len(all) != 1 || len(all[0].Unsupported) != 3 || len(all[0].Unsupported[0].Nodes) != 2 {
				t.Errorf("%v in %s", err, stdout.String())
			}
			continue
		}
		for _, want := range []string{"opset", "x [N 3 32 32]", "Relu ×1", "not supported", "node 3 \"/b/GridSample\"\n"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%s: no %q in\n%s", args, want, stdout.String())
			}
		}
		if len(args) == 3 && !strings.Contains(stdout.String(), "cut tensor") {
			t.Errorf("the second model is missing in\n%s", stdout.String())
		}
	}
}

// What was done to a model to make it run is said by each command.
func TestNotices(t *testing.T) {
	testinput.Runtime(t)
	half := &pb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(10), Dims: []int64{3072, 10}, RawData: bytes.Repeat([]byte{0x66, 0x2e}, 30720)}
	path := modelFile(t, "half.onnx", []*pb.NodeProto{
		node("QuantizeLinear", "", "x s", "q"), node("DequantizeLinear", "", "q s", "d"), node("Flatten", "", "d", "f"), node("MatMul", "", "f w", "y"),
	}, half, weight("s"))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m pb.ModelProto
	if err := proto.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	m.Graph.Initializer[1].FloatData[0] = 1. / 255
	if data, err = proto.Marshal(&m); err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, args := range [][]string{{"inspect", path}, {"split", path, "--out", out}, {"grad", path, "--out", filepath.Join(out, "g.onnx")}, {"doctor", path}} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), repository, args, &stdout, &stderr); code != exitOK {
			t.Errorf("%s: exit %d\n%s%s", args, code, stdout.String(), stderr.String())
		}
		for _, want := range []string{"its float16 values are computed in float32", simplify.NoticeQuantized} {
			if said := stdout.String() + stderr.String(); strings.Count(said, want) != 1 {
				t.Errorf("%s: not once %q in\n%s", args, want, said)
			}
		}
	}
}

func TestQuantity(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1.00 k", 9994: "9.99 k", 9996: "10.0 k", 99_949: "99.9 k", 99_951: "100 k", 999_499: "999 k", 999_500: "1.00 M",
		1_111_960_064: "1.11 G", 33_149_793_920: "33.1 G", 4_200_000_000_000: "4.20 T", 1<<63 - 1: "9.22 E",
	} {
		if got := quantity(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// docs/onnx.md lists the operators that are known; -update rewrites the list.
func TestOperatorsDocumented(t *testing.T) {
	const begin, end = "<!-- operators -->\n", "<!-- /operators -->"
	path := filepath.Join("docs", "onnx.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	list, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("no list of operators")
	}
	var want strings.Builder
	width := 0
	for i, op := range onnx.Operators() {
		switch {
		case i == 0:
		case width+len(op)+2 > 88:
			want.WriteString(",\n")
			width = 0
		default:
			want.WriteString(", ")
			width += 2
		}
		want.WriteString(op)
		width += len(op)
	}
	want.WriteString(".\n")
	if list == want.String() {
		return
	}
	if !*update {
		t.Errorf("the list of operators differs (go test -update rewrites it):\n%swant\n%s", list, want.String())
		return
	}
	if err := os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
