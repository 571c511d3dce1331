package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Each --task of docs/tasks.md attacks a network, with its truths in a file, in one command.
func TestTasksOfTheDocs(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	network := func(name string, of func(b *onnx.Builder, x string) string) {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		b.Output("y", of(b, b.Input("x", onnx.Shape{onnx.Batch, 2, 2, 2})))
		put(t, at(name), must.Get(must.Get(b.Done())(t).Encode())(t))
	}
	network("pixels.onnx", func(b *onnx.Builder, x string) string { return b.Op("Mul", x, b.Float(4)) })
	network("numbers.onnx", func(b *onnx.Builder, x string) string {
		return b.Reshape(b.Op("GlobalAveragePool", x), onnx.Shape{onnx.Batch, 2})
	})
	head := &onnx.Builder{G: onnx.NewGraph("head")}
	y := head.Input("answer", onnx.Shape{onnx.Batch, 2})
	head.Output("scores", head.Op("Sub", y, head.Input("truth", onnx.Shape{onnx.Batch, 2})))
	put(t, at("head.onnx"), must.Get(must.Get(head.Done())(t).Encode())(t))
	dark, bright := slices.Repeat([]float32{0.25}, 4), slices.Repeat([]float32{0.75}, 4)
	x := slices.Concat(dark, bright, bright, dark, dark, bright) // three images, one channel brighter than the other
	writeNPZ(t, at("x.npz"), []int{3, 2, 2, 2}, map[string][]float32{"x": x})
	writeNPZ(t, at("labelled.npz"), []int{3, 2, 2, 2}, map[string][]float32{"x": x})
	writeNPZ(t, at("texts.npz"), []int{2, 2}, map[string][]float32{"texts": {1, 0, 0, 1}})
	twins := slices.Concat(dark, bright, []float32{1}, dark, bright, []float32{0}, bright, dark, []float32{1})
	f := must.Get(os.Create(at("twins.npy")))(t) // the last is wrong
	must.Do(t, npy.Write(f, []int{3, 9}, slices.Values(slices.Collect(slices.Chunk(twins, 9)))))
	must.Do(t, f.Close())
	put(t, at("numbers.csv"), []byte("dark,bright\n0.25,0.75\n0.75,0.25\n0.75,0.25\n")) // the last is wrong
	put(t, at("labels.csv"), []byte("0,1\n1,0\n1,0\n"))
	put(t, at("head.jsonl"), []byte("[0.6, 0]\n[0, 0.6]\n[0.6, 0]\n"))
	put(t, at("depth.csv"), []byte("1,1,1,1,3,3,3,3\n3,3,3,3,1,1,1,0\n3,3,3,3,1,1,1,1\n"))
	put(t, at("count.csv"), []byte("1\n2.5\n4\n"))
	put(t, at("mask.csv"), []byte("1,1,1,1\n0,0,0,0\n0,0,0,0\n"))
	given := map[string][3]string{ // network, truth, the last line
		"regression":   {"numbers.onnx", "numbers.csv", "66.7 %"},
		"multilabel":   {"numbers.onnx", "labels.csv", "66.7 %"},
		"segmentation": {"pixels.onnx", "mask.csv", "66.7 %"},
		"landmarks":    {"numbers.onnx", "numbers.csv", "66.7 %"},
		"depth":        {"pixels.onnx", "depth.csv", "66.7 %"},
		"count":        {"numbers.onnx", "count.csv", "66.7 %"},
		"verification": {"numbers.onnx", "twins.npy", "66.7 %"},
		"head":         {"numbers.onnx", "head.jsonl", "33.3 %"},
	}
	page := read(t, filepath.Join(testinput.Root(t), "docs", "tasks.md"))
	seen := 0
	for _, task := range regexp.MustCompile("(?m)^\\| `([a-z-]+[,=][^`]*)`").FindAllStringSubmatch(page, -1) {
		kind := regexp.MustCompile(`^[a-z-]+`).FindString(task[1])
		c, ok := given[kind]
		if !ok {
			continue
		}
		seen++
		args := []string{"attack", at(c[0]), "--data", at("x.npz"), "--truth", at(c[1]), "--task",
			strings.ReplaceAll(task[1], "head.onnx", filepath.ToSlash(at("head.onnx"))), "--epsilon", "0.01",
			"--attack", "pgd", "--save-adversarial", "--out", at(fmt.Sprint(seen))}
		must.Have(t, done(t, args...), "robust accuracy "+c[2])
		must.Have(t, done(t, "verify", at(fmt.Sprint(seen))), c[2])
	}
	new := func(args ...string) []string {
		return append([]string{"init", at("pixels.onnx"), "--data", at("x.npz"), "--scale", "1", "--force", "--out",
			at("new.yaml")}, args...)
	}
	out := done(t, new("--task", "segmentation,bar=0.9", "--truth", at("mask.csv"))...)
	must.Have(t, out, "right on 2 of 3 images")
	must.Have(t, read(t, at("new.yaml")), `mask.csv"}`, "task: {kind: segmentation, bar: 0.9}")
	must.Have(t, done(t, "run", "--config", at("new.yaml"), "--out", at("new")), "robust accuracy 33.3 %", "mean IoU")
	out = done(t, "doctor", at("numbers.onnx"), "--task", "regression,tolerance=0.1", "--data", at("x.npz"), "--truth",
		at("numbers.csv"), "--scale", "1")
	must.Have(t, out, "2×2×2 → task regression", "right on 2 of 3")
	out = done(t, "doctor", at("pixels.onnx"), "--task", "segmentation,bar=0.9")
	must.Have(t, out, "the task's scores move in steps")
	refused(t, exitUsage, "predict tells classes", "predict", "--config", at("new.yaml"), "--model", "pixels", "--data",
		at("x.npz"))
	refused(t, exitUsage, "--fit trains by classes", new("--task", "multilabel", "--fit", at("x.npz"))...)
	refused(t, exitUsage, `not "segment"; did you mean "segmentation"?`, new("--task", "segment")...)
	if seen != len(given) {
		t.Errorf("%d of %d tasks are in docs/tasks.md", seen, len(given))
	}
}

// An int8 network takes tasks as others do: the numbers and labels that its float32 form gives. The gate holds what
// comes of it, and fails for a network that answers otherwise.
func TestTasksInInt8(t *testing.T) {
	testinput.Runtime(t)
	root, dir := testinput.Root(t), t.TempDir()
	const images, size = 16, 3 * 32 * 32
	file := must.Get(onnx.Read(filepath.Join(root, "models", "zoo", "preact_standard.onnx")))(t)
	session := must.Get(ort.OpenOriginal("float", file, ""))(t)
	defer session.Close()
	data := must.Get(os.ReadFile(filepath.Join(root, "models", "zoo", "shapes10", "test.bin")))(t)
	var numbers, labels strings.Builder
	for record := range slices.Chunk(data[:images*(1+size)], 1+size) {
		x := make([]float32, size)
		for i, level := range record[1:] {
			x[i] = float32(level) / 255
		}
		for i, y := range must.Get(session.Run(x))(t) {
			comma := ","
			if i == 9 {
				comma = "\n"
			}
			fmt.Fprintf(&numbers, "%v%s", y, comma)
			fmt.Fprintf(&labels, "%d%s", int(math.Ceil(min(max(y, 0), 1))), comma)
		}
	}
	put(t, filepath.Join(dir, "images.bin"), data[:images*(1+size)])
	put(t, filepath.Join(dir, "numbers.csv"), []byte(numbers.String()))
	put(t, filepath.Join(dir, "labels.csv"), []byte(labels.String()))
	config := filepath.Join(dir, "tasks.yaml")
	write := func(model string) {
		path := filepath.ToSlash(filepath.Join(root, model))
		put(t, config, []byte(strings.NewReplacer("MODEL", path).Replace(`version: 1
datasets:
  numbers: {format: cifar10-bin, path: images.bin, truth: numbers.csv}
  labels: {format: cifar10-bin, path: images.bin, truth: labels.csv}
models:
  regression: {path: MODEL, task: {kind: regression, tolerance: 2}}
  multilabel: {path: MODEL, task: {kind: multilabel}}
attacks: {pgd: {kind: pgd, norm: linf, epsilon: 0.004, steps: 10}}
suites:
  numbers: {dataset: numbers, models: [regression], attacks: [pgd]}
  labels: {dataset: labels, models: [multilabel], attacks: [pgd]}
save_adversarial: true
`)))
	}
	results, baseline := filepath.Join(dir, "results"), filepath.Join(dir, "baseline.json")
	write("harness/testdata/quantised/preact_standard-qdq.onnx")
	done(t, "run", "--config", config, "--out", results)
	done(t, "verify", results)
	f := must.Get(result.Read(filepath.Join(results, "results.json")))(t)
	for _, c := range f.Cells {
		if c.Attack == "none" && c.Accuracy < 0.5 || c.Attack == "pgd" && c.Accuracy > 0.5 || len(c.Measures) != 10 {
			t.Errorf("%s, %s: %v right, %d measures", c.Model, c.Attack, c.Accuracy, len(c.Measures))
		}
	}
	done(t, "check", "--update", "--baseline", baseline, results)
	must.Have(t, done(t, "check", "--baseline", baseline, results), "PASS")
	write("models/zoo/preact_robust.onnx")
	other := filepath.Join(dir, "other")
	done(t, "run", "--config", config, "--out", other)
	code, out, said := call("check", "--new-model", "--baseline", baseline, other)
	if code != exitFailed {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
	must.Have(t, out, "multilabel", "regression")
}
