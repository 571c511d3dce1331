package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
)

// bad is a bad input: how it is made in a folder, and the command that reads it.
type bad struct {
	name, line string // of line: DIR is the folder, and the words of hostileWords
	make       func(d place)
}

var hostileWords = strings.NewReplacer("ATTACK", "attack models/zoo/preact_robust.onnx --norm linf --epsilon 8/255 "+
	"--attack pgd --out DIR/out --data DIR", "RUN", "run --dry-run --config DIR/c.yaml", "PREDICT",
	"predict --config DIR/c.yaml --model robust --control greedy --limit 1 --data "+testImages,
	"VERIFY", "verify --config DIR/c.yaml --model robust --dataset test --attack steps --epsilon 2/255 "+
		"--adversarial DIR",
	"BUNDLED", "run --limit 1 --quiet --suite bundled --set suites.bundled.attacks=[] --out")

// A bad input costs one line that says what is wrong, where and what to do, and the exit code of its
// kind. The rooms' own tests have more of each.
func TestBadInputs(t *testing.T) {
	testinput.Runtime(t)
	var text strings.Builder
	for _, rows := range [][]bad{badModels, badImages, badConfigs, badResults, badArrays, badPlaces} {
		for _, b := range rows {
			d := place{t, t.TempDir()}
			b.make(d)
			line := hostileWords.Replace(b.line)
			start, back := call, func() {}
			switch {
			case strings.Contains(b.name, "disk"):
				start = d.onFullDisk
			case strings.Contains(b.name, "read-only"):
				back = asNobody(t, d.dir)
			}
			code, stdout, stderr := start(strings.Fields(strings.ReplaceAll(line, "DIR", d.dir))...)
			back()
			if code == exitOK || strings.Count(stderr, "\n") != 1 || len(stderr) > 500 || stdout != "" {
				t.Errorf("%s: exit %d\n%s%s", b.name, code, stdout, stderr)
			}
			fmt.Fprintf(&text, "%s\n$ selfheal %s\nexit %d\n%s\n", b.name, b.line, code,
				strings.NewReplacer(d.dir, "DIR", root, "ROOT").Replace(stderr))
			if left, _ := filepath.Glob(d.at("out/*.onnx")); len(left) > 0 || exists(d.at("out.onnx")) {
				t.Errorf("%s: a part of a file is left: %v", b.name, left)
			}
		}
	}
	golden(t, "bad-inputs", text.String())
}

// place is the folder in which a bad input is made.
type place struct {
	t   *testing.T
	dir string
}

func (d place) at(name string) string { return filepath.Join(d.dir, name) }

func (d place) put(name string, data []byte) { put(d.t, d.at(name), data) }

func (d place) link(to, name string) { must.Do(d.t, os.Symlink(to, d.at(name))) }

func (d place) pipe(name string) {
	must.Do(d.t, os.MkdirAll(filepath.Dir(d.at(name)), 0o755))
	must.Do(d.t, syscall.Mkfifo(d.at(name), 0o600))
}

// file reads a file of the repository.
func (d place) file(name string) []byte { return []byte(read(d.t, filepath.Join(root, name))) }

// model makes m.onnx of nodes, or of a change to an empty file.
func (d place) model(nodes string, changes ...func(f onnxtest.File)) {
	f := onnxtest.New(13, -1, 2)
	for _, change := range changes {
		change(f)
	}
	if nodes != "" {
		f.Node(nodes)
	}
	d.put("m.onnx", f.Bytes(-1, 2))
}

// weights lie in another file.
func (d place) weights(where string) {
	d.model("Mul x w → y", func(f onnxtest.File) { f.Tensor(onnxtest.External("w", []int64{2}, where)) })
}

// png makes a picture 32 pixels high.
func (d place) png(name string, width int) {
	writePNG(d.t, d.at(name), width, nil)
}

// config makes c.yaml, and in it changes old for new, in pairs.
func (d place) config(pairs ...string) {
	path := written(d.t, d.dir, strings.NewReplacer(pairs...).Replace(useConfig))
	must.Do(d.t, os.Rename(path, d.at("c.yaml")))
}

// run makes the results of a run, and a baseline of it.
func (d place) run(change func(f *result.File)) {
	f := gateRun(40, 30, nil)
	must.Do(d.t, os.MkdirAll(d.at("run"), 0o755))
	must.Do(d.t, result.Write(d.at("run/results.json"), f))
	done(d.t, "check", "--update", "--baseline", d.at("base.json"), d.at("run"))
	change(f)
	d.put("run/results.json", must.Get(json.Marshal(f))(d.t))
}

// onFullDisk runs the program where no file can be longer than a block.
func (d place) onFullDisk(args ...string) (code int, stdout, stderr string) {
	c := program(d.t)
	line := append([]string{"sh", "-c", `ulimit -f 1; exec "$0" "$@"`, c.Path}, args...)
	c.Path, c.Args = "/bin/sh", line
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	_ = c.Run() // its error is the exit code
	return c.ProcessState.ExitCode(), out.String(), err.String()
}

// asNobody drops root's rights on files in this thread, so that commands fail as a user's do, and returns a function
// that restores them.
func asNobody(t *testing.T, dir string) func() {
	if os.Geteuid() != 0 {
		return func() {}
	}
	for _, path := range []string{dir, filepath.Dir(dir)} {
		must.Do(t, os.Chmod(path, 0o755))
	}
	runtime.LockOSThread()
	must.Do(t, syscall.Setfsuid(65534))
	return func() {
		must.Do(t, syscall.Setfsuid(0))
		runtime.UnlockOSThread()
	}
}

var badModels = []bad{
	{"a model cut short", "inspect DIR/m.onnx", func(d place) { d.put("m.onnx", d.file(robustModel)[:9999]) }},
	{"a picture as a model", "inspect DIR/m.onnx", func(d place) { d.png("m.onnx", 32) }},
	{"a pipe as a model", "inspect DIR/m.onnx", func(d place) { d.pipe("m.onnx") }},
	{"a device as a model", "inspect DIR/m.onnx", func(d place) { d.link("/dev/zero", "m.onnx") }},
	{"links in a circle", "inspect DIR/m.onnx", func(d place) { d.link("m.onnx", "m.onnx") }},
	{"a cycle", "inspect DIR/m.onnx", func(d place) { d.model("Add x b → a; Neg a → b; Neg b → y") }},
	{"an input that is missing", "inspect DIR/m.onnx", func(d place) { d.model("Add x gone → y") }},
	{"an input of the wrong type", "inspect DIR/m.onnx", func(d place) {
		d.model("Neg x → y", func(f onnxtest.File) { f.Graph.Input[0] = onnxtest.Value("x", 7, -1, 2) })
	}},
	{"an operator set from before", "inspect DIR/m.onnx", func(d place) {
		d.model("Neg x → y", func(f onnxtest.File) { *f.OpsetImport[0].Version = 3 })
	}},
	{"an operator set to come", "inspect DIR/m.onnx", func(d place) {
		d.model("Neg x → y", func(f onnxtest.File) { *f.OpsetImport[0].Version = 99 })
	}},
	{"weights behind a link that leads outside", "inspect DIR/m.onnx", func(d place) {
		d.weights("location=w.bin")
		d.link("/etc/passwd", "w.bin")
	}},
	{"an embedding that is none", "PREDICT", func(d place) {
		d.config("ZOO/hidden_ae.onnx", "e.onnx")
		d.put("e.onnx", []byte("hello"))
	}},
}

var badImages = []bad{
	{"CIFAR cut short", "ATTACK/set.bin", func(d place) { d.put("set.bin", d.file(testImages)[:5000]) }},
	{"a pipe as a data set", "ATTACK/set.bin", func(d place) { d.pipe("set.bin") }},
	{"a picture cut short", "ATTACK/set", func(d place) {
		d.png("set/cat/a.png", 32)
		must.Do(d.t, os.Truncate(d.at("set/cat/a.png"), 60))
	}},
	{"a pipe among pictures", "ATTACK/set", func(d place) { d.pipe("set/cat/a.png") }},
}

var badConfigs = []bad{
	{"2 MiB of config", "RUN", func(d place) { d.put("c.yaml", bytes.Repeat([]byte("#"), 2<<20)) }},
	{"a pipe as a config", "RUN", func(d place) { d.pipe("c.yaml") }},
	{"a folder as a config", "RUN", func(d place) { d.put("c.yaml/file", nil) }},
	{"a model of another hash", "run --quiet --config DIR/c.yaml --suite plain --out DIR/out", func(d place) {
		d.config("preact_robust.onnx,", "preact_robust.onnx, sha256: "+strings.Repeat("0", 64)+",")
	}},
}

var badResults = []bad{
	{"results of ten thousand levels", "report DIR/run --out DIR/out", func(d place) {
		d.put("run/results.json", bytes.Repeat([]byte("["), 20_000))
	}},
	{"a pipe as results", "report DIR/run --out DIR/out", func(d place) { d.pipe("run/results.json") }},
	{"a broken record", "report DIR/run --out DIR/out", func(d place) {
		d.run(func(*result.File) {})
		d.put("run/records.jsonl", []byte("{\"suite\": \"main\"}\n{\"suite\":\n"))
	}},
	{"a record without end", "report DIR/run --out DIR/out", func(d place) {
		d.run(func(*result.File) {})
		d.put("run/records.jsonl", bytes.Repeat([]byte(" "), 2<<20))
	}},
	{"a gallery of another run", "report DIR/run --out DIR/out", func(d place) {
		d.run(func(*result.File) {})
		d.put("run/gallery.json", []byte(`{"schema": "selfheal.gallery/1", "config_sha256": "ab", "cases": []}`))
	}},
	{"a baseline of 300 MiB", "check --baseline DIR/base.json DIR/run", func(d place) {
		d.run(func(*result.File) {})
		must.Do(d.t, os.Truncate(d.at("base.json"), 300<<20))
	}},
}

var badArrays = []bad{
	{"adversarial images of another shape", "VERIFY/a.npy", func(d place) {
		d.config()
		var b bytes.Buffer
		must.Do(d.t, npy.Write(&b, []int{12, 3072}, slices.Values([][]float32{make([]float32, 12*3072)})))
		d.put("a.npy", b.Bytes())
	}},
}

var badPlaces = []bad{
	{"a file as the output folder", "BUNDLED DIR/out", func(d place) { d.put("out", nil) }},
	{"an output folder below a file", "BUNDLED DIR/file/out", func(d place) { d.put("file", nil) }},
	{"a file as the report's folder", "report DIR/run --out DIR/out", func(d place) {
		d.run(func(*result.File) {})
		d.put("out", nil)
	}},
	{"a folder as an output file", "grad models/zoo/hidden_ae.onnx --out DIR/out", func(d place) {
		d.put("out/file", nil)
	}},
	{"a full disk for a file", "grad " + robustModel + " --out DIR/out.onnx", func(place) {}},
	{"a full disk for segments", "split " + robustModel + " --out DIR/out", func(place) {}},
	{"a full disk for a baseline", "check --update --baseline DIR/new.json DIR/run", func(d place) {
		d.run(func(*result.File) {})
	}},
	{"a full disk for a report", "report DIR/run --out DIR/out", func(d place) { d.run(func(*result.File) {}) }},
	{"a full disk for a run", "BUNDLED DIR/out", func(place) {}},
	{"a read-only folder for a run", "BUNDLED DIR/ro/out", func(d place) {
		must.Do(d.t, os.Mkdir(d.at("ro"), 0o555))
	}},
	{"a read-only folder for a file", "grad " + robustModel + " --out DIR/ro/out.onnx", func(d place) {
		must.Do(d.t, os.Mkdir(d.at("ro"), 0o555))
	}},
}
