package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
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
	put(t, at("mask.csv"), []byte("1,1,1,1\n0,0,0,0\n0,0,0,0\n"))
	given := map[string][3]string{ // network, truth, the last line
		"regression":   {"numbers.onnx", "numbers.csv", "66.7 %"},
		"multilabel":   {"numbers.onnx", "labels.csv", "66.7 %"},
		"segmentation": {"pixels.onnx", "mask.csv", "66.7 %"},
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
	refused(t, exitUsage, "--fit trains by classes", new("--task", "multilabel", "--fit", at("x.npz"))...)
	refused(t, exitUsage, `not "segment"; did you mean "segmentation"?`, new("--task", "segment")...)
	if seen != len(given) {
		t.Errorf("%d of %d tasks are in docs/tasks.md", seen, len(given))
	}
}
