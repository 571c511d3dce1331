package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selfheal/internal/testinput"
	"selfheal/models/onnx/simplify"
)

// fitConfig writes a config with controls to fit on the bundled files.
func fitConfig(t *testing.T, dir string) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", dir) // linear fits
	zoo, err := filepath.Abs("models/zoo")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`version: 1
seed: 3
datasets:
  test: {format: cifar10-bin, path: ZOO/shapes10/test.bin, limit: 12}
  train: {format: cifar10-bin, path: ZOO/shapes10/train.bin, limit: 96}
models:
  standard: {path: ZOO/preact_standard.onnx}
  robust: {path: ZOO/preact_robust.onnx}
controls:
  both:
    solver: {method: greedy}
    layers:
      - at: input
        embedding: {kind: autoencoder, fit: train, path: made/input.onnx, architecture: conv-ae, width: 2, epochs: 3, batch: 32, augment: {flip: true}}
      - at: last
        embedding: {kind: autoencoder, fit: train, path: made/last.onnx, start: ZOO/hidden_ae.onnx, epochs: 1, batch: 64, optimizer: {kind: sgd, lr: 1e-5}, models: [robust]}
  linear:
    solver: {method: greedy}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 5}}]
  plain:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: identity}}]
attacks: {}
suites:
  healed: {dataset: test, models: [standard, robust], controls: [both, linear], attacks: []}
`, "ZOO", filepath.ToSlash(zoo))
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// What fit makes is an embedding with its origin in its metadata, and a run uses it.
func TestFit(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	config := fitConfig(t, dir)
	code, _, stderr := call("run", "--config", config, "--out", filepath.Join(dir, "before"), "--quiet")
	if code != exitUsage || !strings.Contains(stderr, "made/input.onnx") {
		t.Errorf("a run before the fit: exit %d, %s", code, stderr)
	}
	out := done(t, "fit", "--config", config, "--control", "both")
	if !strings.Contains(out, "standard, robust") || !strings.Contains(out, "9 steps") || !strings.Contains(out, "2 steps") {
		t.Errorf("fit prints\n%s", out)
	}
	g, _, err := simplify.Load(filepath.Join(dir, "made/input.onnx"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"control": "both", "at": "input", "dataset": "train", "epochs": "3", "steps": "9", "seed": "3",
		"begun_with": "architecture conv-ae", "objective": "clean"} {
		if g.Meta[key] != want {
			t.Errorf("metadata %s is %q, want %q", key, g.Meta[key], want)
		}
	}
	for _, key := range []string{"dataset_sha256", "config_sha256", "training_sha256"} {
		if len(g.Meta[key]) != 64 {
			t.Errorf("metadata %s is %q", key, g.Meta[key])
		}
	}
	csv, err := os.ReadFile(filepath.Join(dir, "made/input.onnx.csv"))
	if err != nil || bytes.Count(csv, []byte("\n")) != 10 {
		t.Errorf("losses: %v\n%s", err, csv)
	}
	// With {size} in its path each size of state has an embedding of its own.
	done(t, "fit", "--config", config, "--control", "both", "--set", "controls.both.layers.1.embedding.path=made/last-{size}.onnx", "--quiet")
	if _, err := os.Stat(filepath.Join(dir, "made/last-64.onnx")); err != nil {
		t.Error(err)
	}
	done(t, "run", "--config", config, "--out", filepath.Join(dir, "after"), "--quiet")
	first, err := os.ReadFile(filepath.Join(dir, "made/input.onnx"))
	if err != nil {
		t.Fatal(err)
	}

	// What is there is kept, and made again the same to the bit.
	if out := done(t, "fit", "--config", config, "--control", "both", "--quiet"); strings.Count(out, "there already") != 2 {
		t.Errorf("a second fit prints\n%s", out)
	}
	done(t, "fit", "--config", config, "--control", "both", "--force", "--workers", "1", "--quiet")
	if again, err := os.ReadFile(filepath.Join(dir, "made/input.onnx")); err != nil || !bytes.Equal(again, first) {
		t.Errorf("the same fit makes another file (%v)", err)
	}
}

// Ctrl-C leaves a checkpoint, and what resumes from it is what would have been.
func TestFitResumes(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	config := fitConfig(t, dir)
	const epochs = "controls.both.layers.0.embedding.epochs=60"
	made, checkpoint := filepath.Join(dir, "made/input.onnx"), filepath.Join(dir, "made/input.onnx.checkpoint")
	args := []string{"fit", "--config", config, "--control", "both", "--set", "controls.both.layers.1=null", "--set", epochs}
	done(t, args...)
	want, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(checkpoint); err == nil {
		t.Error("a finished fit leaves its checkpoint")
	}
	if err := os.Remove(made); err != nil {
		t.Fatal(err)
	}
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		ctx, cancel := context.WithCancel(context.Background())
		stderr := &watched{when: "180 steps", then: func() { time.AfterFunc(wait, cancel) }}
		if code := run(ctx, repository, args, io.Discard, stderr); code != exitFailed {
			t.Fatalf("stopped after %v: exit %d\n%s", wait, code, stderr)
		}
		if strings.Contains(stderr.String(), "--resume continues") {
			break
		}
	}
	if code, _, text := call(args...); code != exitUsage || !strings.Contains(text, "--resume continues it") {
		t.Errorf("a fit beside a checkpoint: exit %d, %s", code, text)
	}
	if code, _, text := call(append(args, "--resume", "--set", "controls.both.layers.0.embedding.weight=3")...); code != exitUsage || !strings.Contains(text, "other settings") {
		t.Errorf("resumed with another weight: exit %d, %s", code, text)
	}
	done(t, append(args, "--resume")...)
	if got, err := os.ReadFile(made); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the resumed fit makes another file (%v)", err)
	}
}

// watched calls then, once, when it is written a text.
type watched struct {
	bytes.Buffer
	when string
	then func()
}

func (w *watched) Write(p []byte) (int, error) {
	if w.then != nil && bytes.Contains(p, []byte(w.when)) {
		w.then()
		w.then = nil
	}
	return w.Buffer.Write(p)
}

// A linear embedding is cached and written as ONNX, with its origin in its metadata, and
// heals as such as it does from the cache.
func TestFitLinear(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	config := fitConfig(t, dir)
	out := done(t, "fit", "--config", config, "--control", "linear")
	if strings.Count(out, "rank 5 of 64") != 2 || strings.Contains(out, "cached") {
		t.Errorf("fit prints\n%s", out)
	}
	file := filepath.Join(dir, "embeddings/linear-last-robust.onnx")
	g, _, err := simplify.Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"control": "linear", "at": "last", "kind": "linear", "dataset": "train", "rank": "5", "dim": "64", "samples": "96", "seed": "3"} {
		if g.Meta[key] != want {
			t.Errorf("metadata %s is %q, want %q", key, g.Meta[key], want)
		}
	}
	for _, key := range []string{"dataset_sha256", "config_sha256", "fit_sha256"} {
		if len(g.Meta[key]) != 64 {
			t.Errorf("metadata %s is %q", key, g.Meta[key])
		}
	}
	if !strings.HasPrefix(g.Meta["models"], "robust ") || !strings.HasPrefix(g.Meta["variance"], "0.") {
		t.Errorf("metadata %v", g.Meta)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	again := func(args ...string) string {
		t.Helper()
		return done(t, append([]string{"fit", "--config", config, "--control", "linear", "--model", "robust", "--quiet"}, args...)...)
	}
	if out := again(); strings.Count(out, "cached") != 1 {
		t.Errorf("a second fit prints\n%s", out)
	}
	other := filepath.Join(dir, "other.onnx")
	again("--out", other)
	if got, err := os.ReadFile(other); err != nil || !bytes.Equal(got, first) {
		t.Errorf("--out makes another file (%v)", err)
	}
	again("--set", "controls.linear.layers.0.embedding.rank=6") // another fit replaces the file
	if g, _, err := simplify.Load(file, nil, nil); err != nil || g.Meta["rank"] != "6" {
		t.Errorf("after a fit of rank 6 the file has rank %s (%v)", g.Meta["rank"], err)
	}

	// The file in a control of kind onnx gives the verdicts of the fit.
	verdicts := func(out string, args ...string) string {
		t.Helper()
		done(t, append([]string{"run", "--config", config, "--out", filepath.Join(dir, out), "--quiet", "--set", "suites.healed.models=[robust]",
			"--set", "suites.healed.controls=[linear]"}, args...)...)
		data, err := os.ReadFile(filepath.Join(dir, out, "records.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	fitted := verdicts("fitted")
	if got := verdicts("file", "--set", "controls.linear.layers.0.embedding={kind: onnx, path: other.onnx}"); got != fitted {
		t.Errorf("records of the file\n%s\nof the fit\n%s", got, fitted)
	}

	// What fit has not made is not written over.
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call("fit", "--config", config, "--control", "linear", "--model", "robust"); code != exitUsage || !strings.Contains(stderr, "is no linear embedding that fit made") {
		t.Errorf("a fit over another file: exit %d, %s", code, stderr)
	}
	again("--force")
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, first) {
		t.Errorf("--force makes another file (%v)", err)
	}
}

func TestFitErrors(t *testing.T) {
	testinput.Runtime(t)
	config := fitConfig(t, t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"", "needs --control"},
		{"--control boht", `no control "boht"`},
		{"--control plain", "no embedding to fit"},
		{"--control linear --out x.onnx", "1 linear ones for each of 2 models; --out is for one"},
		{"--control both --model standrd", `no model "standrd"`},
		{"--control both --resume --force", "not both"},
		{"--control both --set controls.both.layers.0.embedding.architecture=unet", `no architecture "unet"`},
	} {
		code, _, stderr := call(append([]string{"fit", "--config", config}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("fit %s: exit %d, %s, want %q", c.args, code, stderr, c.want)
		}
	}
}
