package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"selfheal/control/theory"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/figure/chart"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// repository stands for the files built into the program; it is the folder root.
var (
	repository fs.FS
	root       string
)

// asProgram makes a process of the tests' binary the program itself; see [program]. Its value is root.
const asProgram = "SELFHEAL_TEST_AS_PROGRAM"

// builtIn is the repository without what a user puts there: the paper's images, networks and embeddings.
type builtIn struct{ fs.FS }

func (b builtIn) Open(name string) (fs.File, error) {
	if top, _, _ := strings.Cut(name, "/"); top == "data" || top == "paper" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return b.FS.Open(name)
}

// Tests run in the repository's folder, as a user does. Their pictures are coarse, and their garbage is collected
// rarely: both take a third of the time otherwise.
func TestMain(m *testing.M) {
	chart.DPI = 30
	if inherited := os.Getenv(asProgram); inherited != "" {
		os.Exit(Main(builtIn{os.DirFS(inherited)}))
	}
	var err error
	if root, err = filepath.Abs(filepath.Join("..", "..")); err == nil {
		err = os.Chdir(root)
	}
	if err != nil {
		panic(err)
	}
	repository = builtIn{os.DirFS(root)}
	theories.of, runTheory = map[uint64]*theory.Result{}, sharedTheory
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// program makes a command that runs the program in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"="+root)
	return c
}

// call runs the program.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = whole(context.Background(), repository, args, &out, &err)
	return code, out.String(), err.String()
}

// done runs the program, which must succeed.
func done(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := call(args...)
	if code != exitOK {
		t.Fatalf("%s: exit %d\n%s", args, code, stderr)
	}
	return stdout
}

// refused runs the program, which must end with a code and one line on stderr that says want.
func refused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, _, stderr := call(args...)
	if got != code || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
		t.Errorf("%s: exit %d, want %d and one line with %q\n%s", args, got, code, want, stderr)
	}
}

// golden compares got with a file of testdata/cli.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(root, "internal/cli/testdata/cli", name+".txt")
	if *update {
		put(t, path, []byte(got))
		return
	}
	if want := read(t, path); got != want {
		t.Errorf("%s differs (go test -update rewrites it):\n--- got\n%s--- want\n%s", path, got, want)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, data, 0o644))
}

// fromJSON decodes a command's JSON output.
func fromJSON[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

// written writes a config on the bundled files, ZOO, to dir.
func written(t *testing.T, dir, text string) (path string) {
	t.Helper()
	zoo := must.Get(filepath.Abs("models/zoo"))(t)
	path = filepath.Join(dir, "config.yaml")
	put(t, path, []byte(strings.ReplaceAll(text, "ZOO", filepath.ToSlash(zoo))))
	return path
}

// results reads a run's results.
func results(t *testing.T, dir string) (*result.File, []result.Record) {
	t.Helper()
	file := must.Get(result.Read(filepath.Join(dir, "results.json")))(t)
	records := must.All(result.Records(filepath.Join(dir, "records.jsonl")))(t)
	return file, records
}

// images returns the pixels of the first bundled test images.
func images(t *testing.T, n int) (pixels [][]float32) {
	t.Helper()
	d := must.Get(dataset.Open(dataset.Spec{Format: "cifar10-bin", Path: testImages}, config.Folder("."), n))(t)
	for i := range n {
		_, x, _ := must.Get3(d.Image(i))(t)
		pixels = append(pixels, x)
	}
	return pixels
}

const (
	testImages  = "models/zoo/shapes10/test.bin"
	robustModel = "models/zoo/preact_robust.onnx"
)

// walked lists the files and folders in a folder, by their paths in it.
func walked(t *testing.T, dir string) (paths []string) {
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if rel := must.Get(filepath.Rel(dir, path))(t); err == nil && rel != "." {
			paths = append(paths, rel)
		}
		return err
	}))
	return paths
}
