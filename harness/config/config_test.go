package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/dataset"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// full uses every key once.
const full = `version: 1
seed: 7
default_suites: [b]
save_adversarial: true
runtime: {provider: cuda, device: 1, workers: 3, batch: 16, threads: 2, winograd: false}
datasets:
  test: {format: cifar10-bin, path: ./test.bin, split: train, limit: 200, indices: [5, 3, 1], classes: 10}
  train: {format: npz, path: ../train.npz, classes: [cat, dog]}
models:
  net:
    path: net.onnx
    sha256: 0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef
    preprocess: {mean: [0.4914, 0.4822, 0.4465], std: 1/4}
    output: probabilities
    split: {at: ["12", relu_3]}
controls:
  pca:
    layers:
      - at: input
        embedding: {kind: linear, fit: train, variance: 0.99}
      - {at: 2, embedding: {kind: linear, fit: train, rank: 8}}
      - {at: "12", embedding: {kind: onnx, path: ae.onnx}}
      - {at: relu_3, embedding: {kind: identity}}
      - {at: last, embedding: {kind: linear, fit: test, variance: 1}}
  fast:
    solver: {method: greedy, regularization: 0}
    layers: [{at: 0, embedding: {kind: identity}}]
  slow:
    solver: {method: pmp, outer: 30, learning_rate: 1e-2, momentum: 0}
    layers: [{at: input, embedding: {kind: identity}}]
attacks:
  aa: {kind: autoattack, norm: linf, epsilon: 8/255}
  own: {kind: autoattack, version: custom, components: [apgd-ce, square], norm: l2, epsilon: [0.5, 1], queries: 100}
  pgd: {step_size: 2/255, kind: pgd, norm: l1, epsilon: 12, restarts: 2, loss: ce}
  square: {kind: square, norm: linf, epsilon: .5, rescale_schedule: true, p_init: 0.8}
suites:
  a:
    dataset: test
    models: [net]
    controls: [none, fast, pca]
    attacks: [none, pgd, aa]
    mode: whitebox-through
    title: "Table 1"
    save_adversarial: false
    published: {net: {none: [69.25, ~], pgd: [~, 5]}}
  b: {dataset: train, models: [net], attacks: []}
`

func parse(text string, sets ...string) (*Config, error) {
	return Parse("config.yaml", []byte(text), fstest.MapFS{}, sets...)
}

func mustParse(t *testing.T, text string, sets ...string) *Config {
	t.Helper()
	c := must.Get(parse(text, sets...))(t)
	return c
}

// setup returns an attack, given parameters and components that have none.
func setup(kind, version string, norm attacks.Norm, given map[string]any, components ...string) attacks.Setup {
	s := attacks.Setup{Kind: kind, Version: version, Norm: norm, Parameters: map[string]any{}}
	maps.Copy(s.Parameters, given)
	for _, c := range components {
		s.Components = append(s.Components, attacks.Component{Kind: c, Parameters: map[string]any{}})
	}
	return s
}

func TestParseFull(t *testing.T) {
	got, norm, epsilon := mustParse(t, full), "l1", 12.
	want := &Config{
		Seed: 7, DefaultSuites: []string{"b"}, SaveAdversarial: true,
		Runtime: Runtime{"cuda", 1, 3, 16, 2, false, "f32"},
		Datasets: []Dataset{
			{Name: "test", Spec: dataset.Spec{Format: "cifar10-bin", Path: "test.bin", Limit: 200, Indices: []int{5, 3,
				1},
				Classes: 10, Shaping: result.Shaping{Split: "train"}}},
			{Name: "train", Spec: dataset.Spec{Format: "npz", Path: "../train.npz", Classes: 2,
				ClassNames: []string{"cat",
					"dog"}}},
		},
		Models: []Model{{
			Name: "net", Path: "net.onnx", SHA256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			Mean: []float64{0.4914, 0.4822, 0.4465}, Std: []float64{0.25}, Output: "probabilities",
			SplitAt: []string{"12", "relu_3"},
		}},
		Controls: []Control{
			{"pca", control.Solver{Method: control.MSA, Outer: 3, Inner: 10, Regularization: 0.001, LearningRate: 0.003,
				Momentum: 0.5}, []Layer{
				{At{Kind: AtInput}, Embedding{Kind: control.Linear, Fit: "train", Variance: 0.99}},
				{At{Kind: AtBoundary, Boundary: 2}, Embedding{Kind: control.Linear, Fit: "train", Rank: 8}},
				{At{Kind: AtTensor, Tensor: "12"}, Embedding{Kind: control.ONNX, Path: "ae.onnx"}},
				{At{Kind: AtTensor, Tensor: "relu_3"}, Embedding{Kind: control.Identity}},
				{At{Kind: AtLast}, Embedding{Kind: control.Linear, Fit: "test", Variance: 1}},
			}},
			{"fast", control.Solver{Method: control.Greedy},
				[]Layer{{At{Kind: AtInput}, Embedding{Kind: control.Identity}}}},
			{"slow", control.Solver{Method: control.PMP, Outer: 30, Regularization: 0.001, LearningRate: 0.01},
				[]Layer{{At{Kind: AtInput}, Embedding{Kind: control.Identity}}}},
		},
		Attacks: []Attack{
			{Name: "aa", Setup: setup("autoattack", "standard", attacks.Linf, nil), Epsilons: []float64{8.0 / 255}},
			{Name: "own", Setup: setup("autoattack", "custom", attacks.L2, map[string]any{"queries": 100},
				"apgd-ce", "square"), Epsilons: []float64{0.5, 1}},
			{Name: "pgd", Setup: setup("pgd", "", attacks.L1, map[string]any{"step_size": 2.0 / 255, "restarts": 2,
				"loss": "ce"}), Epsilons: []float64{12}},
			{Name: "square", Setup: setup("square", "", attacks.Linf, map[string]any{"rescale_schedule": true,
				"p_init": 0.8}), Epsilons: []float64{0.5}},
		},
		Suites: []Suite{
			{Name: "a", Title: "Table 1", Dataset: "test", Models: []string{"net"}, Controls: []string{"fast", "pca"},
				Attacks: []string{"pgd", "aa"}, Mode: result.WhiteboxThrough,
				Published: &Published{Own: []result.PublishedCell{
					{Row: cell.Row{Model: "net", Defense: "none"}, Column: cell.Column{Attack: "none"},
						Accuracy: 0.6925},
					{Row: cell.Row{Model: "net", Defense: "fast"}, Column: cell.Column{Attack: "pgd",
						Epsilon: cell.Epsilon(epsilon)}, Norm: &norm, Accuracy: 0.05}}}},
			{Name: "b", Dataset: "train", Models: []string{"net"}, Mode: result.Oblivious, SaveAdversarial: true},
		},
		Files: fstest.MapFS{},
	}
	g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s:\n got %+v\nwant %+v", g.Type().Field(i).Name, g.Field(i), w.Field(i))
		}
	}
	for at, text := range map[At]string{
		{Kind: AtInput}: "input", {Kind: AtLast}: "last", {Kind: AtBoundary, Boundary: 2}: "2",
		{Kind: AtTensor, Tensor: "12"}: `"12"`, {Kind: AtTensor, Tensor: "relu_3"}: "relu_3",
	} {
		if at.String() != text {
			t.Errorf("%#v prints as %s, want %s", at, at, text)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := mustParse(t, `
version: 1
datasets: {d: {format: npz, path: d.npz}}
models: {m: {path: m.onnx}, std: {path: m.onnx, preprocess: {std: 0.5}}, mean: {path: m.onnx, preprocess: {mean: 0.5}}}
suites:
  z: {dataset: d, models: [m], attacks: []}
  y: {dataset: d, models: [m], attacks: [none], controls: []}
`)
	if !reflect.DeepEqual(c.DefaultSuites, []string{"z", "y"}) {
		t.Errorf("default suites: %v", c.DefaultSuites)
	}
	if c.Runtime != (Runtime{"cpu", 0, 0, 64, 1, true, ""}) || c.Seed != 0 || c.SaveAdversarial {
		t.Errorf("runtime %+v, seed %d, save %v", c.Runtime, c.Seed, c.SaveAdversarial)
	}
	if m := c.Model("m"); m.Output != "logits" || m.Mean != nil || m.Std != nil || m.SplitAt != nil {
		t.Errorf("model %+v", m)
	}
	if m := c.Model("std"); !reflect.DeepEqual([][]float64{m.Mean, m.Std}, [][]float64{{0}, {0.5}}) {
		t.Errorf("std alone gives %+v", m)
	}
	if m := c.Model("mean"); !reflect.DeepEqual([][]float64{m.Mean, m.Std}, [][]float64{{0.5}, {1}}) {
		t.Errorf("mean alone gives %+v", m)
	}
	if c.Model("none") != nil || c.Dataset("x") != nil || c.Control("x") != nil || c.Attack("x") != nil ||
		c.Suite("x") != nil {
		t.Error("a name that is not defined is found")
	}
}

func TestLoadResolvesPaths(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	text := strings.Replace(full, "path: net.onnx", "path: ../net.onnx", 1)
	for name, data := range map[string]string{"sub/config.yaml": text, "net.onnx": "network",
		"sub/test.bin": "images"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	c := must.Get(Load(filepath.Join(dir, "sub", "config.yaml")))(t)
	for _, path := range []string{c.Model("net").Path, c.Dataset("test").Path, filepath.Join(dir, "net.onnx")} {
		f, err := c.Files.Open(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		f.Close()
	}
	_, err := Load(filepath.Join(dir, "absent.yaml"))
	if want := "config " + filepath.Join(dir, "absent.yaml") + ": no such file or directory"; err == nil ||
		err.Error() != want {
		t.Errorf("an absent config: %v", err)
	}
}

func TestWindowsLineEndsAndBOM(t *testing.T) {
	crlf := "\ufeff" + strings.ReplaceAll(full, "\n", "\r\n")
	if got, want := mustParse(t, crlf), mustParse(t, full); !reflect.DeepEqual(got, want) {
		t.Errorf("with CRLF and a byte order mark:\n got %+v\nwant %+v", got, want)
	}
}
