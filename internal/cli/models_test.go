package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// Every command that takes a model refuses one whose operators it does not know
// with one message, which names each node, and exit code 2.
func TestUnsupportedModel(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	f := onnxtest.New(16, -1, 3, 32, 32).Node("Relu x → a; RoiAlign a x → b; Warp@com.acme b → c; " +
		"RoiAlign c x → d; If d → e; w[3072,10]=0.0; Flatten e → f; MatMul f w → y")
	f.OpsetImport = append(f.OpsetImport, &pb.OperatorSetIdProto{Domain: new("com.acme"), Version: new(int64(2))})
	for i, name := range map[int]string{1: "/a/RoiAlign", 3: "/b/RoiAlign", 4: "choice"} {
		f.Graph.Node[i].Name = &name
	}
	f.Graph.Node[4].Attribute = []*pb.AttributeProto{{Name: new("then_branch"),
		Type: pb.AttributeProto_GRAPH.Enum(), G: &pb.GraphProto{}}}
	path := filepath.Join(t.TempDir(), "grid.onnx")
	put(t, path, f.Bytes(-1, 10))
	names := []string{
		`RoiAlign (operator set 16) at node 1 "/a/RoiAlign", node 3 "/b/RoiAlign"`,
		`com.acme.Warp (version 2 of com.acme) at node 2 "c"`,
		`If (operator set 16) at node 4 "choice"`, "a subgraph",
	}
	config := written(t, filepath.Dir(path), `version: 1
datasets: {d: {format: cifar10-bin, path: ZOO/shapes10/test.bin, limit: 2}}
models: {m: {path: grid.onnx}}
attacks: {a: {kind: autoattack, version: standard, norm: l2, epsilon: 0.5}}
suites: {s: {dataset: d, models: [m], attacks: [a]}}
`)
	out := t.TempDir()
	for _, args := range [][]string{
		{"inspect", path}, {"inspect", "--json", path}, {"inspect", path, "models/zoo/preact_standard.onnx"},
		{"split", path, "--out", out}, {"grad", path, "--out", filepath.Join(out, "g.onnx")}, {"doctor", path},
		{"run", "--config", config, "--out", filepath.Join(out, "results")},
	} {
		code, stdout, stderr := call(args...)
		message, want := stderr, exitUsage
		if args[0] == "doctor" { // whose check failed, and says why in its line
			message, want = stdout, exitFailed
		}
		if code != want || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s", args, code, stderr)
		}
		must.Have(t, message, names...)
		if args[0] != "inspect" {
			continue
		}
		if args[1] == "--json" {
			all := fromJSON[[]modelInfo](t, stdout)
			if len(all) != 1 || len(all[0].Unsupported) != 3 || len(all[0].Unsupported[0].Places) != 2 {
				t.Errorf("%s", stdout)
			}
			continue
		}
		must.Have(t, stdout, "opset", "x [N 3 32 32]", "Relu ×1", "not supported", "node 3 \"/b/RoiAlign\"\n")
		if len(args) == 3 { // the second model
			must.Have(t, stdout, "cut tensor")
		}
	}
}

// Each command reports the conversions that a model needs to run.
func TestNotices(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	f := onnxtest.New(16, -1, 3, 32, 32).Tensor(&pb.TensorProto{Name: new("w"), DataType: new(int32(10)),
		Dims: []int64{3072, 10}, RawData: bytes.Repeat([]byte{0x66, 0x2e}, 30720)}).
		Tensor(onnxtest.FloatTensor("s", nil, 1./255)).
		Node("QuantizeLinear x s → q; DequantizeLinear q s → d; Flatten d → f; MatMul f w → y")
	path := filepath.Join(t.TempDir(), "half.onnx")
	put(t, path, f.Bytes(-1, 10))
	out := t.TempDir()
	for _, args := range [][]string{
		{"inspect", path}, {"split", path, "--out", out}, {"grad", path, "--out", filepath.Join(out, "g.onnx")},
		{"doctor", path},
	} {
		code, stdout, stderr := call(args...)
		if code != exitOK {
			t.Errorf("%s: exit %d\n%s%s", args, code, stdout, stderr)
		}
		for _, want := range []string{"its float16 values are computed in float32", simplify.NoticeQuantized} {
			if strings.Count(stdout+stderr, want) != 1 {
				t.Errorf("%s: not once %q in\n%s%s", args, want, stdout, stderr)
			}
		}
	}
}

func TestQuantity(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1.00 k", 9994: "9.99 k", 9996: "10.0 k", 99_949: "99.9 k", 99_951: "100 k",
		999_499: "999 k", 999_500: "1.00 M",
		1_111_960_064: "1.11 G", 33_149_793_920: "33.1 G", 4_200_000_000_000: "4.20 T", 1<<63 - 1: "9.22 E",
	} {
		if got := quantity(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// A tensor's name is anybody's: it must not steer the terminal.
func TestNamesDoNotSteerTheTerminal(t *testing.T) {
	model := must.Get(os.ReadFile("models/zoo/preact_standard.onnx"))(t)
	name, hostile := "/stem/Conv_output_0", "\x1b]0;owned\x07\x7f\xc2\x9b_outpu"
	if len(name) != len(hostile) || !bytes.Contains(model, []byte(name)) {
		t.Fatalf("%q does not stand in for %q", hostile, name)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hostile.onnx")
	put(t, path, bytes.ReplaceAll(model, []byte(name), []byte(hostile)))
	for _, args := range [][]string{
		{"inspect", path}, {"inspect", "--json", path},
		{"split", path, "--out", dir}, {"split", path, "--out", dir, "--at", "nowhere"},
	} {
		_, stdout, stderr := call(args...)
		must.Have(t, stdout+stderr, `\u001b]0;owned\u0007`)
		if strings.ContainsFunc(stdout+stderr, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("%s: a control character in\n%q", args, stdout+stderr)
		}
	}
}
