package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/simplify"
)

// fitText is a config with controls to fit on the bundled files.
const fitText = `version: 1
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
        embedding:
          {kind: autoencoder, fit: train, path: made/input.onnx, architecture: conv-ae, width: 2, epochs: 3, batch: 32,
            augment: {flip: true}}
      - at: last
        embedding: {kind: autoencoder, fit: train, path: made/last.onnx, start: ZOO/hidden_ae.onnx, epochs: 1,
          batch: 64, optimizer: {kind: sgd, lr: 1e-5}, models: [robust]}
  linear:
    solver: {method: greedy}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 5}}]
  plain:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: identity}}]
attacks: {}
suites:
  healed: {dataset: test, models: [standard, robust], controls: [both, linear], attacks: [], mode: oblivious}
`

// fitConfig writes it, and has linear fits cached in dir too.
func fitConfig(t *testing.T, dir string) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", dir)
	return written(t, dir, fitText)
}

// origin reads the metadata of an embedding that fit made. It has these, and hashes of the
// images, the config and, under key, all that shaped it.
func origin(t *testing.T, path, key string, has map[string]string) map[string]string {
	t.Helper()
	g, _ := must.Get2(simplify.Load(path, simplify.Options{}))(t)
	for k, want := range has {
		if g.Meta[k] != want {
			t.Errorf("%s: metadata %s is %q, want %q", path, k, g.Meta[k], want)
		}
	}
	for _, k := range []string{"dataset_sha256", "config_sha256", key} {
		if len(g.Meta[k]) != 64 {
			t.Errorf("%s: metadata %s is %q", path, k, g.Meta[k])
		}
	}
	return g.Meta
}

// Fit makes an embedding with its origin in its metadata, and a run uses it.
func TestFit(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	config := fitConfig(t, dir)
	refused(t, exitUsage, "made/input.onnx", "run", "--config", config, "--out", filepath.Join(dir, "before"),
		"--quiet")
	dry := done(t, "run", "--config", config, "--dry-run")
	must.Have(t, dry, "made/input.onnx, by selfheal fit --config "+config+" --control both: 9 steps, some ",
		"made/last.onnx, by selfheal fit --config "+config+" --control both: 2 steps, some ")
	out := done(t, "fit", "--config", config, "--control", "both")
	must.Have(t, out, "standard, robust", "9 steps", "2 steps")
	made := filepath.Join(dir, "made/input.onnx")
	origin(t, made, "training_sha256",
		map[string]string{"control": "both", "at": "input", "dataset": "train", "epochs": "3",
			"steps": "9", "seed": "3", "begun_with": "architecture conv-ae", "objective": "clean"})
	if csv := read(t, made+".csv"); strings.Count(csv, "\n") != 10 {
		t.Errorf("losses:\n%s", csv)
	}
	// With {size} in its path each size of state has an embedding of its own.
	done(t, "fit", "--config", config, "--control", "both", "--quiet",
		"--set", "controls.both.layers.1.embedding.path=made/last-{size}.onnx")
	read(t, filepath.Join(dir, "made/last-64.onnx"))
	done(t, "run", "--config", config, "--out", filepath.Join(dir, "after"), "--quiet")
	first := read(t, made)
	// A fit that is there is kept, and made again the same to the bit.
	if out := done(t, "fit", "--config", config, "--control", "both"); strings.Count(out,
		"there already") != 2 {
		t.Errorf("a second fit prints\n%s", out)
	}
	done(t, "fit", "--config", config, "--control", "both", "--force", "--workers", "1", "--quiet")
	if read(t, made) != first {
		t.Error("the same fit makes another file")
	}
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
	meta := origin(t, file, "fit_sha256",
		map[string]string{"control": "linear", "at": "last", "kind": "linear", "dataset": "train",
			"rank": "5", "dim": "64", "samples": "96", "seed": "3"})
	if !strings.HasPrefix(meta["models"], "robust ") || !strings.HasPrefix(meta["variance"], "0.") {
		t.Errorf("metadata %v", meta)
	}
	first := read(t, file)
	again := func(args ...string) string {
		t.Helper()
		return done(t, append([]string{"fit", "--config", config, "--control", "linear", "--model",
			"robust"}, args...)...)
	}
	if out := again(); strings.Count(out, "cached") != 1 {
		t.Errorf("a second fit prints\n%s", out)
	}
	other := filepath.Join(dir, "other.onnx")
	again("--out", other)
	if read(t, other) != first {
		t.Error("--out makes another file")
	}
	again("--set", "controls.linear.layers.0.embedding.rank=6") // another fit replaces the file
	origin(t, file, "fit_sha256", map[string]string{"rank": "6"})

	// The file in a control of kind onnx gives the verdicts of the fit.
	verdicts := func(out string, args ...string) string {
		t.Helper()
		done(t, append([]string{"run", "--config", config, "--out", filepath.Join(dir, out), "--quiet",
			"--set", "suites.healed.models=[robust]", "--set", "suites.healed.controls=[linear]"}, args...)...)
		return read(t, filepath.Join(dir, out, "records.jsonl"))
	}
	fitted := verdicts("fitted")
	if got := verdicts("file", "--set",
		"controls.linear.layers.0.embedding={kind: onnx, path: other.onnx}"); got != fitted {
		t.Errorf("records of the file\n%s\nof the fit\n%s", got, fitted)
	}

	// Fit does not write over files that it has not made.
	put(t, file, []byte("mine"))
	refused(t, exitUsage, "is no linear embedding that fit made", "fit", "--config", config, "--control", "linear",
		"--model", "robust")
	again("--force")
	if read(t, file) != first {
		t.Error("--force makes another file")
	}
}
