package cli

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/must"
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

// Every bad input costs one line that says what is wrong, where and what to do, and the exit code of its kind.
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

// npy makes a file with a NumPy array, from its values as bytes.
func npy(descr, shape string, values []byte) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape)
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), byte(len(head)>>8))
	return append(append(b, head...), values...)
}

// npz makes set.npz of arrays x and, unless nil, y.
func (d place) npz(x, y []byte) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range map[string][]byte{"x.npy": x, "y.npy": y} {
		if data != nil {
			must.Get(must.Get(w.Create(name))(d.t).Write(data))(d.t)
		}
	}
	must.Do(d.t, w.Close())
	d.put("set.npz", b.Bytes())
}

// png makes a picture 32 pixels high.
func (d place) png(name string, width int) {
	writePNG(d.t, d.at(name), width, func(x, y int) (p [3]byte) { return p })
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

// edit changes a file that is there.
func (d place) edit(name, old, with string) {
	d.put(name, []byte(strings.Replace(read(d.t, d.at(name)), old, with, 1)))
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
	{"a name given twice", "inspect DIR/m.onnx", func(d place) { d.model("Neg x → y; Exp x → y") }},
	{"an input of the wrong type", "inspect DIR/m.onnx", func(d place) {
		d.model("Neg x → y", func(f onnxtest.File) { f.Graph.Input[0] = onnxtest.Value("x", 7, -1, 2) })
	}},
	{"an operator set from before", "inspect DIR/m.onnx", func(d place) {
		d.model("Neg x → y", func(f onnxtest.File) { *f.OpsetImport[0].Version = 3 })
	}},
	{"an operator set to come", "inspect DIR/m.onnx", func(d place) {
		d.model("Neg x → y", func(f onnxtest.File) { *f.OpsetImport[0].Version = 99 })
	}},
	{"a function that calls itself", "inspect DIR/m.onnx", func(d place) {
		d.model("F@local x → y", func(f onnxtest.File) {
			f.Function("F", "x", "y", nil, func(f onnxtest.File) { f.Node("F@local x → y") })
		})
	}},
	{"a giant input", "inspect DIR/m.onnx", func(d place) {
		d.model("Neg x → y", func(f onnxtest.File) { f.Graph.Input[0] = onnxtest.Value("x", 1, -1, 1<<40, 1<<40) })
	}},
	{"a giant weight", "inspect DIR/m.onnx", func(d place) {
		d.model("Mul x w → y", func(f onnxtest.File) {
			f.Tensor(onnxtest.FloatTensor("w", []int64{1 << 40, 1 << 40}, 1))
		})
	}},
	{"weights above the model's folder", "inspect DIR/m.onnx", func(d place) { d.weights("location=../w.bin") }},
	{"weights at an absolute path", "inspect DIR/m.onnx", func(d place) { d.weights("location=/etc/passwd") }},
	{"weights behind a link that leads outside", "inspect DIR/m.onnx", func(d place) {
		d.weights("location=w.bin")
		d.link("/etc/passwd", "w.bin")
	}},
	{"weights cut short", "inspect DIR/m.onnx", func(d place) {
		d.weights("location=w.bin")
		d.put("w.bin", make([]byte, 7))
	}},
	{"an embedding that is none", "PREDICT", func(d place) {
		d.config("ZOO/hidden_ae.onnx", "e.onnx")
		d.put("e.onnx", []byte("hello"))
	}},
	{"an embedding of another shape", "PREDICT", func(d place) {
		d.config("ZOO/hidden_ae.onnx", "ZOO/input_ae.onnx")
	}},
}

var badImages = []bad{
	{"an archive cut short", "ATTACK/set.npz", func(d place) {
		d.npz(npy("|u1", "1, 3, 32, 32", make([]byte, 3072)), npy("|u1", "1,", []byte{2}))
		d.edit("set.npz", "PK\x05\x06", "")
	}},
	{"an archive without labels", "ATTACK/set.npz", func(d place) {
		d.npz(npy("|u1", "1, 3, 32, 32", make([]byte, 3072)), nil)
	}},
	{"more labels than images", "ATTACK/set.npz", func(d place) {
		d.npz(npy("|u1", "1, 3, 32, 32", make([]byte, 3072)), npy("|u1", "2,", []byte{2, 3}))
	}},
	{"a shape that overflows", "ATTACK/set.npz", func(d place) {
		d.npz(npy("|u1", "99999999999, 99999999999, 3, 3", nil), npy("|u1", "1,", []byte{2}))
	}},
	{"an array that unpacks to a thousand times its size", "ATTACK/set.npz", func(d place) {
		zeros := make([]byte, 5_000_000)
		d.npz(npy("|u1", "5000000, 1, 1, 1", zeros), npy("|u1", "5000000,", zeros))
	}},
	{"pixels from 0 to 255", "ATTACK/set.npz", func(d place) {
		values := binary.LittleEndian.AppendUint32(nil, 0x437f0000)
		d.npz(npy("<f4", "1, 3, 32, 32", slices.Repeat(values, 3072)), npy("|u1", "1,", []byte{2}))
	}},
	{"CIFAR cut short", "ATTACK/set.bin", func(d place) { d.put("set.bin", d.file(testImages)[:5000]) }},
	{"CIFAR with a label too large", "ATTACK/set.bin", func(d place) {
		d.put("set.bin", bytes.Repeat([]byte{200}, 3073))
	}},
	{"an empty file", "ATTACK/set.bin", func(d place) { d.put("set.bin", nil) }},
	{"a pipe as a data set", "ATTACK/set.bin", func(d place) { d.pipe("set.bin") }},
	{"a picture that claims 40000×40000 pixels", "ATTACK/set", func(d place) {
		d.png("set/cat/a.png", 32)
		data := []byte(read(d.t, d.at("set/cat/a.png")))
		copy(data[16:24], "\x00\x00\x9c\x40\x00\x00\x9c\x40")
		binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		d.put("set/cat/a.png", data)
	}},
	{"a picture cut short", "ATTACK/set", func(d place) {
		d.png("set/cat/a.png", 32)
		must.Do(d.t, os.Truncate(d.at("set/cat/a.png"), 60))
	}},
	{"pictures of two sizes", "ATTACK/set", func(d place) {
		d.png("set/cat/a.png", 32)
		d.png("set/cat/b.png", 40)
	}},
	{"a pipe among pictures", "ATTACK/set", func(d place) { d.pipe("set/cat/a.png") }},
	{"a folder without classes", "ATTACK/set", func(d place) { d.png("set/a.png", 32) }},
	{"an annotation of an unknown class", "ATTACK/set", func(d place) {
		d.put("set/wnids.txt", []byte("n01\n"))
		d.put("set/val/val_annotations.txt", []byte("a.png\tn02\t0\n"))
	}},
	{"an annotation that leaves the folder", "ATTACK/set", func(d place) {
		d.put("set/wnids.txt", []byte("n01\n"))
		d.put("set/val/val_annotations.txt", []byte("../../a.png\tn01\t0\n"))
	}},
}

var badConfigs = []bad{
	{"aliases that multiply", "RUN", func(d place) { d.put("c.yaml", []byte("a: &a [x, x]\nb: &b [*a, *a]\n")) }},
	{"a thousand levels", "RUN", func(d place) { d.put("c.yaml", bytes.Repeat([]byte("["), 1000)) }},
	{"two documents", "RUN", func(d place) { d.put("c.yaml", []byte("version: 1\n---\nversion: 1\n")) }},
	{"bytes as a config", "RUN", func(d place) { d.put("c.yaml", d.file(robustModel)[:4000]) }},
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
	{"results of a version to come", "report DIR/run --out DIR/out", func(d place) {
		d.put("run/results.json", []byte(`{"schema": "selfheal.results/9"}`))
	}},
	{"a verdict too few", "report DIR/run --out DIR/out", func(d place) {
		d.run(func(f *result.File) { f.Cells[2].Verdicts = f.Cells[2].Verdicts[1:] })
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
	{"a baseline with a key twice", "check --baseline DIR/base.json DIR/run", func(d place) {
		d.run(func(*result.File) {})
		d.edit("base.json", `"seed"`, `"seed": 1, "seed"`)
	}},
	{"a baseline whose verdicts disagree", "check --baseline DIR/base.json DIR/run", func(d place) {
		d.run(func(*result.File) {})
		d.edit("base.json", "1111", "0111")
	}},
	{"a baseline of 300 MiB", "check --baseline DIR/base.json DIR/run", func(d place) {
		d.run(func(*result.File) {})
		must.Do(d.t, os.Truncate(d.at("base.json"), 300<<20))
	}},
}

var badArrays = []bad{
	{"adversarial images cut short", "VERIFY/a.npy", func(d place) {
		d.config()
		d.put("a.npy", npy("<f4", "12, 3, 32, 32", make([]byte, 4000)))
	}},
	{"adversarial images as bytes", "VERIFY/a.npy", func(d place) {
		d.config()
		d.put("a.npy", npy("|u1", "12, 3, 32, 32", make([]byte, 12*3072)))
	}},
	{"adversarial images of another shape", "VERIFY/a.npy", func(d place) {
		d.config()
		var b bytes.Buffer
		must.Do(d.t, dataset.WriteNPY(&b, []int{12, 3072}, slices.Values([][]float32{make([]float32, 12*3072)})))
		d.put("a.npy", b.Bytes())
	}},
	{"a Python pickle", "VERIFY/a.npy", func(d place) {
		d.config()
		d.put("a.npy", npy("|O", "1,", []byte("\x80\x03.")))
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
