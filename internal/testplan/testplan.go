// Package testplan has the configs and plans that tests of several packages share.
package testplan

import (
	"io/fs"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
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
    attacks: [apgd-linf, apgd-l1, fab-l2, square-l1, square-linf, pgd-l2]
`

// Config parses a config and selects suites of it, the default ones where none is named.
func Config(t testing.TB, fsys fs.FS, text string, suites []string, sets ...string) *config.Config {
	t.Helper()
	cfg := must.Get(config.Parse("test.yaml", []byte(text), fsys, sets...))(t)
	return must.Get(cfg.Selected(suites))(t)
}

// Repository are the repository's files, by their paths in it.
func Repository(t testing.TB) config.Folder { return config.Folder(testinput.Root(t)) }

// Plan is of a config that may use the bundled files.
func Plan(t testing.TB, text string, workers, batch int, sets ...string) *plan.Plan {
	t.Helper()
	cfg := Config(t, Repository(t), text, nil, sets...)
	cfg.Runtime.Workers, cfg.Runtime.Batch = workers, batch
	return must.Get(plan.New(cfg))(t)
}
