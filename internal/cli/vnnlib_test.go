package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
)

// The competition's scripts answer, also of files that gzip has packed and of one that cannot be opened. A category is
// answered once.
func TestCompetition(t *testing.T) {
	testinput.Runtime(t)
	d := place{t, t.TempDir()}
	d.put("three.onnx", onnxtest.New(17, -1, 3).Floats("w", []int64{3, 2}, 1, -1, 0.5, 2, -1, 0.25).
		Node("MatMul x w → h; Relu h → y").Bytes(-1, 2))
	d.put("broken.onnx", []byte("no network"))
	d.put("no.vnnlib.gz", repeated(declaredXY+bounded+"(assert (<= Y_0 -1))\n", 1))
	d.put("yes.vnnlib", []byte(declaredXY+bounded+"(assert (>= Y_0 0.1))\n"))
	d.put("instances.csv", []byte("three.onnx,no.vnnlib,20\nthree.onnx,yes.vnnlib,20\nbroken.onnx,yes.vnnlib,20\n"))
	scripts := filepath.Join(root, "scripts/verify/vnncomp")
	answer := filepath.Join(d.dir, "answer.txt")
	script := func(name string, args ...string) error {
		c := exec.Command(filepath.Join(scripts, name), append([]string{"v1", "tests"}, args...)...)
		c.Env = append(program(t).Env, "SELFHEAL="+os.Args[0])
		return c.Run()
	}
	for asked, want := range map[string]string{"three.onnx no.vnnlib": "unsat\n",
		"three.onnx yes.vnnlib": "sat\n((X_0 ", "broken.onnx yes.vnnlib": "error\n"} {
		network, property, _ := strings.Cut(asked, " ")
		network, property = filepath.Join(d.dir, network), filepath.Join(d.dir, property)
		must.Do(t, script("run_instance.sh", network, property, answer, "20"))
		if got := string(must.Get(os.ReadFile(answer))(t)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", asked, got)
		}
	}
	if script("run_instance.sh", "three.onnx") == nil ||
		script("prepare_instance.sh", "nowhere.onnx", "no.vnnlib") == nil {
		t.Error("wrong usage passes")
	}
	out := filepath.Join(d.dir, "out.csv")
	for range 2 {
		text := done(t, "vnnlib", "--category", d.dir, "--out", out)
		if !strings.HasPrefix(text, "[1/3] three.onnx no.vnnlib: unsat, ") ||
			!strings.HasSuffix(text, "out.csv: unsat 1, sat 1, timeout 0, unknown 0, error 1\n") {
			t.Error(text)
		}
	}
	for line, want := range map[string]string{
		"vnnlib --category DIR":                                "--category needs --out",
		"vnnlib --category DIR --out x m.onnx p":               "takes no model and no property",
		"vnnlib --category DIR/none --out DIR/y":               "DIR/none/instances.csv: no such file",
		"vnnlib --category DIR --out DIR/three.onnx":           "three.onnx is an input of this command",
		"vnnlib --category DIR --out DIR/out.csv --timeout 3s": "holds other than answers",
	} {
		code, _, stderr := call(strings.Fields(strings.ReplaceAll(line, "DIR", d.dir))...)
		if code == exitOK || !strings.Contains(strings.ReplaceAll(stderr, d.dir, "DIR"), want) {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}
