package cli

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
)

// callings lists the ways to call each verb. In each of them a flag changes the results or is refused.
var callings = map[string][]string{
	"run": {"--config c.yaml --out out --log-every 1h", "--config c.yaml --dry-run --rate 5"},
	"submit": {"--engine slurm --config c.yaml --out out --shards 2 --print", "--engine kubernetes --config c.yaml " +
		"--out out --shards 2 --image i --claim c --print"},
	"attack": {"net.onnx --data photos --epsilon 8/255 --attack pgd --param steps=1 --log-every 1h",
		"net.onnx --data photos --epsilon 8/255 --attack bounds --log-every 1h",
		"net.onnx --data photos --attack spatial --param queries=2 --log-every 1h"},
	"report":  {"run --out out", "shards --out out", "--published --out out"},
	"compare": {"run", "run --out out", "run --json"},
	"check": {"--baseline baseline.json run", "--baseline baseline.json --update run",
		// --model implies --new-model
		"--baseline baseline.json --model m=net.onnx --new-model --log-every 1h --out checked run"},
	"init": {"net.onnx --data photos --mean 0.5 --std 0.5"},
	"verify": {"net.onnx --adversarial adv.npy --data photos --norm linf --epsilon 8/255",
		"--adversarial adv.npy --config c.yaml --model m --dataset d --attack a"},
	"predict": {"net.onnx --data photos", "net.onnx photos/cat/0.png photos/dog/0.png",
		"--config c.yaml --model m --data photos",
		"--config c.yaml --model m photos/cat/0.png photos/dog/0.png"},
	"export":     {"--config c.yaml --model m --control k --out x.onnx"},
	"fit":        {"--config c.yaml --control k --model m --log-every 1h"},
	"inspect":    {"net.onnx", "open.onnx --size 4"},
	"split":      {"net.onnx --out out", "open.onnx --out out --size 4"},
	"grad":       {"net.onnx --out out.onnx", "open.onnx --out out.onnx --size 4"},
	"theory":     {"--quick"},
	"doctor":     {"", "net.onnx", "net.onnx --data photos"},
	"schema":     {"config"},
	"vnnlib":     {"three.onnx no.vnnlib", "--category asked --out a.csv"},
	"completion": {"bash"},
	"man":        {"mine"},
	"version":    {""},
}

// flagValues has a value for each flag, "" for one that takes none and, before a bar, other arguments that the flag
// needs. A semicolon separates values of which at least one must show an effect. A verb's own values follow the verb's
// name.
var flagValues = map[string]string{
	"adversarial": "absent.npy", "at": "nowhere", "attack": "fgsm", "attempt": "--shard 1/2 |",
	"baseline": "other.json", "batch": "0", "category": "asked", "claim": "another", "classes": "dog,cat",
	"config": "other.yaml", "control": "k", "cpu": "2", "crop": "2", "data": "few", "dataset": "few", "dry-run": "",
	"engine": "pbs", "epsilon": "1/255", "fit": "few", "force": "--out held |", "format": "parquet", "function": "",
	"gpus": "1", "group": "7", "image": "j", "json": "", "junit": "j.xml", "keep-inputs": "",
	"box": "0,1", "keys": "--data arrays.npz | u,v", "label": "", "layout": "nhwc", "limit": "1",
	"log-every": "0s", "log-format": "json", "markdown": "m.md", "mean": "0.1",
	"memory": "1Gi", "metrics": "", "model": "n", "mount": "/absent", "namespace": "n",
	"new-model":       "--baseline other.json |",
	"no-descriptions": "", "norm": "l2", "offline": "", "onnxruntime": "/absent.so", "out": "elsewhere",
	"output-name": "z", "parallelism": "1", "param": "restarts=2", "pixels": "8bit", "planted": "", "precision": "bf16",
	"print": "", "probabilities": "", "provider": "openvino; absent", "published": "", "quiet": "", "rate": "6",
	"resize": "3", "resume": "", "save-adversarial": "",
	"save-pictures": "", "sbatch": "--time=1", "scale": "2", "seed": "5",
	"seeds": "2", "set": "seed=5; attacks.a.steps=3", "shard": "1/2", "shards": "3", "size": "6",
	"split": "--data parts | train", "std": "0.3", "suite": "t", "target": "1", "task": "multilabel", "timeout": "1ns",
	"truth": "--task multilabel | absent.csv",
	"union": "--set suites.s.attacks=[a,fgsm] --suite s |", "update": "",
	"user": "7", "workers": "-1",

	"report caption": "--latex accuracy | Ours.", "report label": "--latex accuracy | tab:ours",
	"compare caption": "--latex rank | Ours.", "compare label": "--latex rank | tab:ours", "report latex": "absent",
	"compare latex": "absent",
	"check config":  "gate.yaml", "check set": "gate.max_drop=0.5", "compare force": "--out mine |",
	"export control": "none", "fit control": "absent", "fit force": "--out mine/any |", "fit model": "n",
	"fit resume": "", "fit set": "controls.k.layers.0.embedding.rank=2", "init force": "--out c.yaml |",
	"report force": "--out mine |", "vnnlib out": "a.txt", "man force": "",
	"check model": "m=three.onnx; n=net.onnx; m", "check force": "--junit mine/any |; --baseline mine/any |",
	"export force": "--out mine/any |", "grad force": "--out mine/any |", "split force": "--out mine |",
	"vnnlib force": "--out mine/any |",
	// An error is told in the format.
	"export log-format": "--model absent | json", "predict log-format": "--limit 0 | json",
	"submit log-format": "--shards 0 | json", "verify log-format": "--adversarial absent.npy | json",
	"fit log-format": "--model absent | json", "run log-format": "json; --suite absent | json",
	"run batch": "7; 0", "attack batch": "7", "submit batch": "7", "doctor probabilities": "--label |",
	"vnnlib category": "absent", "verify mean": "0.1,0.2", "verify scale": "0", "verify std": "0",
	"verify classes": "dog,fox", "verify probabilities": "--label |", "fit workers": "-1",
}

// unseen lists flags whose effect no short call shows, and verbs of which this holds for all flags.
var unseen = map[string]string{
	"vnnlib progress": "it tells every second how far a question is",
	"inspect offline": "it takes a runtime that is there, and needs none",
	"split offline":   "a network of an open batch needs no runtime",
	"grad offline":    "a network of an open batch needs no runtime",
	"vnnlib seed":     "these questions are answered by bounds",
	"theory":          "each call draws figures for seconds; TestTheory and TestOutputsReplaceNothing try its flags",
}

// Each flag of each verb changes the results, or is refused in one line, in the verb's first calling. In the others
// each third flag is tried, in turn; with SELFHEAL_TEST_LARGE all are.
func TestEveryFlag(t *testing.T) {
	testinput.Runtime(t)
	w := newWorld(t)
	root := (&globals{files: w}).rootCommand()
	for _, c := range root.Commands() {
		t.Run(c.Name(), func(t *testing.T) {
			if callings[c.Name()] == nil {
				t.Fatal("no way to call it is listed")
			}
			for i, line := range callings[c.Name()] {
				every(t, w, c, line, i)
			}
		})
	}
}

// every tries the flags of a verb that is called in one way.
func every(t *testing.T, w *world, c *cobra.Command, line string, calling int) {
	without := map[string]string{} // results without the flag by command line; a call in its own process is separate
	base := func(key, line string, call func(string) string) string {
		if key += line; without[key] == "" {
			without[key] = call(line)
			if again := call(line); again != without[key] {
				t.Errorf("%s: twice the same do different things:\n%s\n%s", line, without[key], again)
			}
		}
		return without[key]
	}
	c.InheritedFlags() // makes Flags have them
	turn := 0
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if turn++; calling > 0 && (turn+calling)%3 != 0 && !testinput.Large() {
			return
		}
		own := c.Name() + " " + f.Name
		value, known := flagValues[own]
		if !known {
			value, known = flagValues[f.Name]
		}
		there := f.Value.Type() == "bool" && strings.Contains(line, "--"+f.Name)
		if unseen[own]+unseen[c.Name()] != "" || f.Name == "help" || there {
			return
		}
		if !known {
			t.Errorf("--%s has no value to be tried with", f.Name)
			return
		}
		call, key := func(line string) string { return w.call(t, strings.Fields(line)) }, ""
		if f.Name == "onnxruntime" || f.Name == "offline" {
			if calling > 0 {
				return
			}
			call, key = func(line string) string { return w.process(t, strings.Fields(line)) }, "process: "
		}
		for value := range strings.SplitSeq(value, ";") {
			beside, value, ok := strings.Cut(value, "|")
			if !ok {
				beside, value = "", beside
			}
			for _, line := range []string{line + " " + beside, line} {
				words := strings.Join(strings.Fields(c.Name()+" "+line), " ")
				if call(strings.TrimSpace(words+" --"+f.Name+" "+strings.TrimSpace(value))) != base(key, words, call) {
					return
				}
			}
		}
		t.Errorf("%s %s: the flag --%s does nothing", c.Name(), line, f.Name)
	})
}

// world holds files to call the program on, made with a network of 4×4 pixels; it also replaces the files built into
// the program.
type world struct {
	fs.FS
	dir, calls string
}

// Open returns the tiny network for the bundled one.
func (w *world) Open(name string) (fs.File, error) {
	if name == bundledModel {
		return os.Open(filepath.Join(w.dir, "net.onnx"))
	}
	return w.FS.Open(name)
}

// volatile matches differences between two equal calls: times, and the command.
var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][\d:.]+Z?|[\d.]+[ \x{a0}\x{202f}]?(ms|µs|s)\b|` +
	`"(seconds|created|finished|time|duration|pid)": ?[^,\n}]*|` +
	`"command": ?\[[^\]]*\]|\(pid \d+\)|\d{8}T\d{6}-[0-9a-f]{8}|(/tmp|/dev/shm)/\S*| time="[\d.]+"`)

// call runs the program in a folder with the files that a line names, and returns all that it did.
func (w *world) call(t *testing.T, args []string) string {
	dir := w.folder(t, args)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Chdir(dir)
	defer t.Chdir(w.dir)
	var stdout, stderr bytes.Buffer
	code := whole(context.Background(), w, args, &stdout, &stderr)
	return did(t, dir, code, stdout.String(), stderr.String())
}

// in calls the program in a folder that was prepared.
func (w *world) in(t *testing.T, dir string, args ...string) (code int, stderr string) {
	t.Setenv("XDG_CACHE_HOME", filepath.Join(w.calls, "cache"))
	t.Chdir(dir)
	defer t.Chdir(w.dir)
	var out, err bytes.Buffer
	code = whole(context.Background(), w, args, &out, &err)
	return code, err.String()
}

// process is [world.call] in a process that finds no ONNX Runtime.
func (w *world) process(t *testing.T, args []string) string {
	c := program(t, args...)
	c.Dir = w.folder(t, args)
	c.Env = []string{asProgram + "=" + root, "HOME=" + c.Dir, "PATH=/absent"}
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	_ = c.Run() // its code tells
	return did(t, c.Dir, c.ProcessState.ExitCode(), stdout.String(), stderr.String())
}

// folder makes a new folder with copies of the files that a line names.
func (w *world) folder(t *testing.T, args []string) string {
	dir := filepath.Join(w.calls, "folder")
	must.Do(t, os.RemoveAll(dir))
	must.Do(t, os.Mkdir(dir, 0o755))
	for _, arg := range append([]string{"c.yaml", "net.onnx", "photos", "few"}, args...) { // others name these
		top, _, _ := strings.Cut(arg, "/")
		info, err := os.Stat(filepath.Join(w.dir, top))
		switch {
		case err != nil:
		case info.IsDir():
			must.Do(t, os.RemoveAll(filepath.Join(dir, top)))
			must.Do(t, os.CopyFS(filepath.Join(dir, top), os.DirFS(filepath.Join(w.dir, top))))
		default:
			put(t, filepath.Join(dir, top), []byte(read(t, filepath.Join(w.dir, top))))
		}
	}
	return dir
}

// did returns the program's output and exit code, and the files in its folder with their contents, except files for
// people alone.
func did(t *testing.T, dir string, code int, stdout, stderr string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "exit %d\n%s%s", code, stdout, stderr)
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := must.Get(filepath.Rel(dir, path))(t)
		fmt.Fprintln(&b, name)
		if ext := filepath.Ext(name); strings.Contains(name, "journal") {
			return nil
		} else if slices.Contains([]string{".json", ".jsonl", ".yaml", ".txt", ".xml"}, ext) {
			b.WriteString(read(t, path))
		} else if slices.Contains([]string{".onnx", ".npy"}, ext) {
			fmt.Fprintf(&b, "%x\n", sha256.Sum256([]byte(read(t, path))))
		}
		return nil
	}))
	return volatile.ReplaceAllString(strings.ReplaceAll(b.String(), dir, "DIR"), "T")
}

func newWorld(t *testing.T) *world {
	w := &world{repository, t.TempDir(), t.TempDir()}
	file := func(name string, data []byte) { put(t, filepath.Join(w.dir, name), data) }
	for name, sides := range map[string]int64{"net.onnx": 4, "open.onnx": -1} {
		file(name, onnxtest.New(13, -1, 3, sides, sides).Floats("k", []int64{4, 3, 3, 3}, 0.3, -0.1, 0.2, -0.2).
			Floats("w", []int64{4, 2}, 1, -1, 0.5, 0.2, -1, 0.25, -0.5, 0.7).
			Node("Conv x k → c pads=1,1,1,1; Relu c → r; GlobalAveragePool r → p; Flatten p → f; MatMul f w → y").
			Bytes(-1, 2))
	}
	draw := func(x, y, i int) byte { return byte(40 + 37*x*(i+1) + 91*y + 50*i) }
	for _, folder := range []string{"photos", "few", "parts/test", "parts/train"} {
		for k, class := range []string{"cat", "dog"} {
			for i := range 2 - len(folder)%2 {
				im := image.NewRGBA(image.Rect(0, 0, 4, 4))
				for at := range 16 {
					v := draw(at%4, at/4, i+2*k+len(folder))
					im.SetRGBA(at%4, at/4, color.RGBA{v, v / 2, 255 - v, 255})
				}
				var b bytes.Buffer
				must.Do(t, png.Encode(&b, im))
				file(filepath.Join(folder, class, fmt.Sprint(i, ".png")), b.Bytes())
			}
		}
	}
	file("three.onnx", onnxtest.New(17, -1, 3).Floats("w", []int64{3, 2}, 1, -1, 0.5, 2, -1, 0.25).
		Node("MatMul x w → h; Relu h → y").Bytes(-1, 2))
	const question = `(declare-const X_0 Real)(declare-const X_1 Real)(declare-const X_2 Real)
(declare-const Y_0 Real)(declare-const Y_1 Real)
(assert (and (>= X_0 0.4) (<= X_0 0.6) (>= X_1 0.4) (<= X_1 0.6) (>= X_2 0.4) (<= X_2 0.6)))
(assert (<= Y_0 -1))
`
	file("no.vnnlib", []byte(question))
	file("asked/no.vnnlib", []byte(question))
	file("asked/three.onnx", []byte(read(t, filepath.Join(w.dir, "three.onnx"))))
	file("asked/instances.csv", []byte("three.onnx,no.vnnlib,20\n"))
	var npz bytes.Buffer
	z := zip.NewWriter(&npz)
	for name, n := range map[string]int{"x": 2, "u": 3} {
		images := make([][]float32, n)
		for i := range images {
			images[i] = make([]float32, 48)
		}
		must.Do(t, npy.Write(must.Get(z.Create(name+".npy"))(t), []int{n, 3, 4, 4}, slices.Values(images)))
		header := fmt.Sprintf("%-117s\n", fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }", n))
		labels := must.Get(z.Create(string(name[0]+1) + ".npy"))(t)
		must.Get(fmt.Fprintf(labels, "\x93NUMPY\x01\x00%c\x00%s%s", len(header), header, make([]byte, n)))(t)
	}
	must.Do(t, z.Close())
	file("arrays.npz", npz.Bytes())
	const text = `version: 1
seed: SEED
default_suites: [s]
datasets:
  d: {format: image-folder, path: photos}
  few: {format: image-folder, path: few}
models:
  m: {path: net.onnx}
  n: {path: net.onnx, preprocess: {mean: 0.5, std: 0.5}}
controls:
  k: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: linear, fit: d, rank: 3}}]}
attacks:
  a: {kind: pgd, norm: linf, epsilon: 8/255, steps: 1}
  fgsm: {kind: fgsm, norm: linf, epsilon: 8/255}
suites:
  s: {dataset: d, models: [m], attacks: [a]}
  t: {dataset: few, models: [n], attacks: [fgsm]}
gate: {max_drop: 0.04}
`
	file("c.yaml", []byte(strings.ReplaceAll(text, "SEED", "1")))
	file("other.yaml", []byte(strings.ReplaceAll(text, "SEED", "2")))
	file("gate.yaml", []byte(strings.ReplaceAll(text, "0.04", "0.5")))
	for _, name := range []string{"compare.md", "report.html", "theory.md", "F00.onnx", "selfheal.1", "any"} {
		file("mine/"+name, []byte("mine"))
	}
	t.Chdir(w.dir)
	do := func(line string) { done(t, strings.Fields(line)...) }
	do("run --config c.yaml --out run --quiet")
	do("run --config other.yaml --suite t --out held --quiet")
	do("run --config c.yaml --shard 1/1 --out shards --quiet")
	do("check --baseline baseline.json --update run")
	do("check --baseline other.json --update held")
	do("attack net.onnx --data photos --epsilon 8/255 --attack fgsm --save-adversarial --out attacked --quiet")
	for _, path := range must.Get(filepath.Glob("attacked/adversarial/*.npy"))(t) {
		file("adv.npy", []byte(read(t, path)))
	}
	return w
}
