// Package testplan holds configs and plans that tests of several packages share. [Config] parses a config's text and
// [Plan] plans it.
package testplan

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/npy"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/onnxtest"
)

// Bundled begins configs of tests: the bundled images and networks.
const Bundled = `
version: 1
seed: 3
datasets:
  test: {format: cifar10-bin, path: models/zoo/shapes10/test.bin, limit: 7}
  train: {format: cifar10-bin, path: models/zoo/shapes10/train.bin, limit: 60}
models:
  robust: {path: models/zoo/preact_robust.onnx}
  standard: {path: models/zoo/preact_standard.onnx}
  other: {path: made-by-the-test.onnx}
`

// Small is a run of seconds that goes through everything: two controllers, every component of AutoAttack and PGD, three
// norms, saved images.
const Small = Bundled + `
default_suites: [small]
save_adversarial: true
controls:
  auto-encoder:
    solver: {method: msa, outer: 2, inner: 3}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
  pca:
    solver: {method: greedy}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]
attacks:
  apgd-linf: {kind: apgd-t, norm: linf, epsilon: 2/255, steps: 8, targets: 2}
  apgd-l1: {kind: apgd-ce, norm: l1, epsilon: 4, steps: 10, restarts: 2}
  fab-l2: {kind: fab-t, norm: l2, epsilon: 0.3, steps: 6, targets: 3}
  square-l1: {kind: square, norm: l1, epsilon: 8, queries: 60}
  square-linf: {kind: square, norm: linf, epsilon: 4/255, queries: 60}
  pgd-l2: {kind: pgd, norm: l2, epsilon: 0.4, steps: 6}
suites:
  small:
    dataset: test
    models: [robust]
    controls: [auto-encoder, pca]
    mode: oblivious
    attacks: [apgd-linf, apgd-l1, fab-l2, square-l1, square-linf, pgd-l2]
`

// Resumed is a run of seconds that has everything that a journal holds: an oblivious suite, one of two modes and one of
// transfer, two networks, two seeds, components one after the other, an attack for its distances, saved images, a
// solver study whose images a later suite needs too.
const Resumed = Bundled + `
seeds: 2
default_suites: [given, through, carried]
save_adversarial: true
controls:
  msa:
    solver: {method: msa, outer: 1, inner: 2}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
  linear:
    solver: {method: greedy}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]
attacks:
  aa: {kind: autoattack, version: custom, norm: linf, epsilon: 6/255, components: [apgd-ce, fab-t, square],
       steps: 4, targets: 2, queries: 30}
  pgd: {kind: pgd, norm: l2, epsilon: 0.4, steps: 4}
  smooth: {kind: smoothing, norm: l2, epsilon: [0.05, 0.1], sigma: 0.12, n0: 10, n: 50, alpha: 0.05}
suites:
  given: {dataset: test, models: [robust], controls: [msa, linear], attacks: [aa, smooth],
          solver: {images: 3, controls: [msa], attack: pgd, models: [robust], outer: [1]}, mode: oblivious}
  through: {dataset: test, models: [standard, robust], controls: [linear], attacks: [pgd, smooth],
            modes: [oblivious, whitebox-through]}
  carried: {dataset: test, models: [robust, standard], controls: [linear], attacks: [pgd, smooth],
            mode: transfer}
`

// Config parses a config and selects suites of it, or the default ones if none is named.
func Config(t testing.TB, fsys fs.FS, text string, suites []string, sets ...string) *config.Config {
	t.Helper()
	cfg := must.Get(config.Parse("test.yaml", []byte(text), fsys, sets...))(t)
	return must.Get(cfg.Selected(suites))(t)
}

// Repository returns the repository's files, by their paths in it.
func Repository(t testing.TB) config.Folder { return config.Folder(testinput.Root(t)) }

// Plan plans a config that may use the bundled files.
func Plan(t testing.TB, text string, workers, batch int, sets ...string) *plan.Plan {
	t.Helper()
	cfg := Config(t, Repository(t), text, nil, sets...)
	cfg.Runtime.Workers, cfg.Runtime.Batch = workers, batch
	return must.Get(plan.New(cfg))(t)
}

// Many returns the plan of a config whose data set test has n images, which repeat.
func Many(t testing.TB, n int, text string, sets ...string) *plan.Plan {
	t.Helper()
	records := must.Get(os.ReadFile(filepath.Join(testinput.Root(t), "models/zoo/shapes10/train.bin")))(t)
	path := filepath.Join(t.TempDir(), "many.bin")
	f := must.Get(os.Create(path))(t)
	for written := 0; written < n*3073; written += len(records) {
		must.Get(f.Write(records))(t)
	}
	must.Do(t, f.Close())
	return Plan(t, text, 0, 64,
		append(sets, fmt.Sprintf("datasets.test={format: cifar10-bin, path: %s, limit: %d}", path, n))...)
}

// Archive writes an archive of n images of this shape, alternately of classes 0 and 1; those of class 1 are brighter.
func Archive(t testing.TB, path string, n int, s attacks.Shape) {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	z := zip.NewWriter(f)
	x := make([]float32, n*s.Size())
	for i := range x {
		x[i] = 0.45 + 0.1*float32(i/s.Size()%2) + 0.01*float32(i%5)
	}
	must.Do(t, npy.Write(must.Get(z.Create("x.npy"))(t), []int{n, s.C, s.H, s.W}, slices.Values([][]float32{x})))
	head := fmt.Sprintf("{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", n)
	head += strings.Repeat(" ", 117-len(head)) + "\n" // 128 bytes with what stands before
	labels := []byte("\x93NUMPY\x01\x00\x76\x00" + head)
	for i := range n {
		labels = binary.LittleEndian.AppendUint64(labels, uint64(i%2))
	}
	must.Get(must.Get(z.Create("y.npy"))(t).Write(labels))(t)
	must.Do(t, errors.Join(z.Close(), f.Close()))
}

// ChannelsLast is a config of a channels-last network that takes pixels from 0 to 255, on six images, with
// certificates.
func ChannelsLast(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	floats := func(n int64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64()) / 255
		}
		return v
	}
	model := onnxtest.New(17, -1, 6, 5, 3).Floats("k", []int64{2, 3, 3, 3}, floats(54)...).
		Floats("w", []int64{24, 3}, floats(72)...).
		Node("Transpose x → f perm=0,3,1,2; Conv f k → c; Relu c → r; Flatten r → g; MatMul g w → y").Bytes(-1, 3)
	must.Do(t, os.WriteFile(filepath.Join(dir, "m.onnx"), model, 0o644))
	Archive(t, filepath.Join(dir, "images.npz"), 6, attacks.Shape{C: 3, H: 6, W: 5})
	return `
version: 1
datasets: {test: {format: npz, path: ` + dir + `/images.npz}}
models:
  m: {path: ` + dir + `/m.onnx, preprocess: {scale: 255, mean: [1, 2, 3], std: [3, 2, 1]}}
attacks:
  b: {kind: bounds, norm: linf, epsilon: 0.0001}
  p: {kind: autoattack, version: quick, norm: l2, epsilon: 0.0001, prove: true}
  l1: {kind: bounds, norm: l1, epsilon: 0.0001}
suites: {s: {dataset: test, models: [m], attacks: [b, p, l1]}}
`
}
