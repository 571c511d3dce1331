package cli

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
)

// limited runs the program within 3 GiB of address space.
func limited(t *testing.T, args ...string) (code int, stdout, stderr string, took time.Duration) {
	t.Helper()
	c := program(t)
	c = exec.Command("/bin/sh", append([]string{"-c", `ulimit -v 3145728; exec "$0" "$@"`, c.Path}, args...)...)
	c.Env = program(t).Env
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	began := time.Now()
	_ = c.Run() // its error is the exit code
	return c.ProcessState.ExitCode(), out.String(), err.String(), time.Since(began)
}

// bounded are the assertions of a box around 0.5 of three inputs.
const bounded = "(assert (and (>= X_0 0.4) (<= X_0 0.6) (>= X_1 0.4) (<= X_1 0.6) (>= X_2 0.4) (<= X_2 0.6)))\n"

const declaredXY = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const X_2 Real)" +
	"(declare-const Y_0 Real)(declare-const Y_1 Real)\n"

// repeated returns a text many times over, packed: as so many members of one file, each of up to 1 MB.
func repeated(text string, times int) []byte {
	together := min(times, max(1, 1<<20/len(text)))
	pack := func(times int) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, strings.Repeat(text, times))
		_ = w.Close()
		return b.Bytes()
	}
	return append(bytes.Repeat(pack(together), times/together), pack(times%together)...)
}

// hostileProperties are larger than they look. harness/vnnlib has those that are only wrong.
var hostileProperties = []struct {
	name string
	text func() []byte
}{
	{"spaces, 300 MB unpacked", func() []byte { return repeated(strings.Repeat(" ", 1<<20), 300) }},
	{"a comment of 300 MB", func() []byte { return repeated(";"+strings.Repeat("x", 1<<20), 300) }},
	{"a word of 100 MB", func() []byte { return repeated(strings.Repeat("7", 1<<20), 100) }},
	{"a million constraints", func() []byte {
		return append(repeated(declaredXY+bounded, 1), repeated("(assert (<= Y_0 Y_1))\n", 1_000_000)...)
	}},
	{"cases that multiply", func() []byte {
		return []byte(declaredXY + bounded + strings.Repeat("(assert (or (<= Y_0 1) (<= Y_0 2)))", 30))
	}},
	{"a million ands", func() []byte { return []byte(declaredXY + "(assert " + strings.Repeat("(and ", 1<<20)) }},
	{"a gzip cut short", func() []byte { return repeated(declaredXY, 1000)[:40] }},
}

// hostileNetworks ask for more than there is, or are none.
var hostileNetworks = []struct{ name, nodes string }{
	{"an Expand to 61 GB", "s=1,100000,3,64,64; a=1,; Unsqueeze x a → u; Expand u s → e; b=1,2,3,4; " +
		"ReduceMax e b → y keepdims=0"},
	{"200 million classes", "s=1,200000000; b=1,; e=2,; a=1,; Flatten x → f; Slice f b e a → g; Expand g s → y"},
	{"an Expand that overflows", "s=1,100000,3,100000,100000; a=1,; Unsqueeze x a → u; Expand u s → y"},
	{"a Tile of everything", "r=1,1000,1000,1000; Tile x r → y"},
	{"a ConstantOfShape of everything", "s=100000,100000; ConstantOfShape s → c; Flatten x → f; MatMul f c → y"},
	{"a Pad of a gigabyte", "p=0,0,0,0,0,0,30000,30000; Pad x p → y"},
	{"an attribute that is none", "Relu x → y foo=bar"},
	{"no operator", ""},
	{"a Range without end", "s=0; l=9000000000000; d=1; Range s l d → r; Flatten x → f; Add f r → y"},
	{"a Resize by a million", "Upsample x → y scales=1000000"},
}

// Within 3 GiB hostile properties and networks cost one line and a few seconds.
func TestHostileWithinLimits(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	d := place{t, t.TempDir()}
	d.put("three.onnx", onnxtest.New(17, -1, 3).Floats("w", []int64{3, 2}, 1, -1, 0.5, 2, -1, 0.25).
		Node("MatMul x w → h; Relu h → y").Bytes(-1, 2))
	var text strings.Builder
	try := func(name, line string, verb string) {
		code, stdout, stderr, took := limited(t, strings.Fields(strings.ReplaceAll(line, "DIR", d.dir))...)
		if code == exitOK || strings.Count(stderr, "\n") != 1 || len(stderr) > 500 || stdout != "" {
			t.Errorf("%s, %s: exit %d\n%.300s%.2000s", name, verb, code, stdout, stderr)
		}
		if took > 30*time.Second {
			t.Errorf("%s, %s: %s", name, verb, took)
		}
		said := memorySizes.ReplaceAllString(strings.ReplaceAll(stderr, d.dir, "DIR"), "SIZE")
		fmt.Fprintf(&text, "%s, %s: exit %d\n%s", name, verb, code, said)
	}
	for _, p := range hostileProperties {
		d.put("p.vnnlib", p.text())
		try(p.name, "vnnlib DIR/three.onnx DIR/p.vnnlib --timeout 60s", "vnnlib")
	}
	d.put("p.vnnlib", []byte(declaredXY+bounded))
	for i, n := range hostileNetworks {
		f := onnxtest.New(17, -1, 3, 64, 64)
		y := f.Graph.Input[0]
		if n.nodes != "" {
			f.Node(n.nodes)
			y = onnxtest.Value("y", 1)
			y.Type.GetTensorType().Shape = nil
		}
		f.Graph.Output = append(f.Graph.Output, y)
		d.put("m.onnx", must.Get(proto.Marshal(f.ModelProto))(t))
		d.png("set/cat/a.png", 64)
		d.png("set/dog/b.png", 64)
		try(n.name, "attack DIR/m.onnx --attack fgsm --norm linf --epsilon 8/255 --quiet --data DIR/set --out DIR/out",
			"attack")
		if i < 2 { // both verbs open networks in the same way
			try(n.name, "vnnlib DIR/m.onnx DIR/p.vnnlib --timeout 60s", "vnnlib")
		}
	}
	golden(t, "hostile-limits", text.String())
}

var memorySizes = regexp.MustCompile(`[0-9.]+ [KMGT]i?B`)
