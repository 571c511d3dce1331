package config

import (
	"strings"
	"testing"
)

// small is the config that the cases below spoil.
const small = `version: 1
seed: 0
default_suites: [main]
runtime: {provider: cpu, batch: 64}
datasets:
  test: {format: cifar10-bin, path: test.bin, limit: 200}
models:
  net:
    path: net.onnx
    preprocess: {mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}
controls:
  pca:
    solver: {method: msa, outer: 3, inner: 10}
    layers:
      - at: input
        embedding: {kind: linear, fit: test, variance: 0.99}
attacks:
  aa-linf:
    kind: autoattack
    norm: linf
    epsilon: 2/255
suites:
  main: {dataset: test, models: [net], controls: [pca], attacks: [aa-linf]}
`

// errorCase replaces old by new in small and names the error, to the letter.
type errorCase struct{ old, new, want string }

func testErrors(t *testing.T, cases []errorCase) {
	t.Helper()
	if _, err := parse(small); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Errorf("%q is not in the config", c.old)
			continue
		}
		if _, err := parse(text); err == nil || err.Error() != c.want {
			t.Errorf("%q:\n got %v\nwant %s", c.new, err, c.want)
		}
	}
}

func TestKeyErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"    epsilon: 2/255", "    epsilom: 2/255",
			`config.yaml:21:5: unknown key "epsilom" in attacks.aa-linf; did you mean "epsilon"?`},
		{"seed: 0", "sead: 0",
			`config.yaml:2:1: unknown key "sead" in the config; did you mean "seed"?`},
		{"datasets:", "dataset:",
			`config.yaml:5:1: unknown key "dataset" in the config; did you mean "datasets"?`},
		{", limit: 200", ", limits: 200",
			`config.yaml:6:47: unknown key "limits" in datasets.test; did you mean "limit"?`},
		{"    norm: linf", "    norm: linf\n    colour: red",
			`config.yaml:21:5: unknown key "colour" in attacks.aa-linf; known keys: kind, version, norm, epsilon, components, steps, restarts, targets, queries, step_size, schedule, loss, rho, eot_iter, large_radii, alpha_max, eta, beta, p_init, rescale_schedule, tolerance`},
		{"    path: net.onnx", "    file: net.onnx",
			`config.yaml:9:5: unknown key "file" in models.net; known keys: path, sha256, preprocess, output, split`},
		{"    epsilon: 2/255\n", "",
			`config.yaml:19:5: attacks.aa-linf lacks the key "epsilon"`},
		{"version: 1\n", "",
			`config.yaml:1:1: the config lacks the key "version"`},
		{"solver: {method: msa", "solver: {methd: msa",
			`config.yaml:13:14: unknown key "methd" in controls.pca.solver; did you mean "method"?`},
		{"runtime: {provider: cpu, batch: 64}", "runtime: {gpu: 1}",
			`config.yaml:4:11: unknown key "gpu" in runtime; known keys: provider, device, workers, batch, threads, winograd`},
		{"    norm: linf", "    norm: linf\n    norm: l2",
			`config.yaml:21:5: duplicate key "norm", first given on line 20`},
		{"  aa-linf:\n", "  aa-linf: {kind: pgd, norm: l2, epsilon: 1}\n  aa-linf:\n",
			`config.yaml:19:3: duplicate key "aa-linf", first given on line 18`},
		{"attacks: [aa-linf]}", "attack: [aa-linf]}",
			`config.yaml:23:57: unknown key "attack" in suites.main; did you mean "attacks"?`},
	})
}

func TestTypeErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"seed: 0", "seed: zero",
			`config.yaml:2:7: seed must be a whole number from 0 up, not "zero"`},
		{"seed: 0", "seed: -1",
			`config.yaml:2:7: seed must be a whole number from 0 up, not "-1"`},
		{"seed: 0", "seed: \"0\"",
			`config.yaml:2:7: seed must be a whole number from 0 up, not the text "0"`},
		{"seed: 0", "seed: 18446744073709551616",
			`config.yaml:2:7: seed must be a whole number from 0 up, not "18446744073709551616"`},
		{"batch: 64", "batch: 0",
			`config.yaml:4:33: runtime.batch must be a whole number from 1 up, not "0"`},
		{"batch: 64", "batch: 6.5",
			`config.yaml:4:33: runtime.batch must be a whole number from 1 up, not "6.5"`},
		{"batch: 64", "batch: [64]",
			`config.yaml:4:33: runtime.batch must be a whole number from 1 up, not a list`},
		{"batch: 64", "batch: 0x40",
			`config.yaml:4:33: runtime.batch must be a whole number from 1 up, not "0x40"`},
		{"default_suites: [main]", "default_suites: main",
			`config.yaml:3:17: default_suites must be a list, not "main"; write [main]`},
		{"default_suites: [main]", "default_suites: []",
			`config.yaml:3:17: default_suites must not be empty`},
		{"default_suites: [main]", "default_suites: [main, main]",
			`config.yaml:3:24: default_suites[1]: "main" is listed twice`},
		{"runtime: {provider: cpu, batch: 64}", "runtime: cpu",
			`config.yaml:4:10: runtime must be a mapping with keys like provider, not "cpu"`},
		{"runtime: {provider: cpu, batch: 64}", "runtime:",
			`config.yaml:4:9: runtime must be a mapping with keys like provider, not nothing`},
		{"models: [net]", "models: []",
			`config.yaml:23:33: suites.main.models must not be empty`},
		{"models: [net]", "models: {net: 1}",
			`config.yaml:23:33: suites.main.models must be a list, not a mapping`},
		{"dataset: test,", "dataset: [test],",
			`config.yaml:23:19: suites.main.dataset must be the name of a data set, not a list`},
		{"    path: net.onnx", "    path: {a: 1}",
			`config.yaml:9:11: models.net.path must be a path, not a mapping`},
		{"    path: net.onnx", "    path: \"\"",
			`config.yaml:9:11: models.net.path must be a path, not the text ""`},
		{"limit: 200", "limit: 0",
			`config.yaml:6:54: datasets.test.limit must be a whole number from 1 up, not "0"`},
		{"limit: 200", "indices: [1, 2, 1]",
			`config.yaml:6:63: datasets.test.indices[2]: image 1 is listed twice`},
		{"limit: 200", "indices: [1, -2]",
			`config.yaml:6:60: datasets.test.indices[1] must be a whole number from 0 up, not "-2"`},
		{"limit: 200", "classes: ten",
			`config.yaml:6:56: datasets.test.classes must be the number of classes or a list of their names, not "ten"`},
		{"limit: 200", "classes: 1",
			`config.yaml:6:56: datasets.test.classes must be a whole number from 2 up, not "1"`},
		{"limit: 200", "classes: [a, a]",
			`config.yaml:6:60: datasets.test.classes[1]: "a" is listed twice`},
		{"version: 1", "version: 2",
			`config.yaml:1:10: version must be 1, the only one this program reads, not "2"`},
		{"version: 1", "version: \"1\"",
			`config.yaml:1:10: version must be 1, the only one this program reads, not the text "1"`},
		{"seed: 0", "save_adversarial: yes",
			`config.yaml:2:19: save_adversarial must be true or false, not "yes"`},
		{"mean: [0.5", "mean: [.nan",
			`config.yaml:10:25: models.net.preprocess.mean[0] must be a number, not ".nan"`},
		{"std: [0.25, ", "std: [0, ",
			`config.yaml:10:47: models.net.preprocess.std[0] must be a number above 0, such as 0.5 or 8/255, not "0"`},
		{"std: [0.25, ", "std: [",
			`config.yaml:10:17: models.net.preprocess: mean has 3 values and std has 2; give one a channel, or one for all`},
		{"    path: net.onnx", "    path: net.onnx\n    sha256: abc",
			`config.yaml:10:13: models.net.sha256 must be 64 hexadecimal digits, not "abc"`},
		{"    path: net.onnx", "    path: net.onnx\n    output: logit",
			`config.yaml:10:13: models.net.output must be one of logits, probabilities, not "logit"; did you mean "logits"?`},
		{"    path: net.onnx", "    path: net.onnx\n    split: {at: []}",
			`config.yaml:10:17: models.net.split.at must not be empty`},
		{"mean: [0.5, 0.5, 0.5]", "mean: [0.5, 0.5]",
			`config.yaml:10:17: models.net.preprocess: mean has 2 values and std has 3; give one a channel, or one for all`},
		{"datasets:\n  test: {format: cifar10-bin, path: test.bin, limit: 200}", "datasets: [test]",
			`config.yaml:5:11: datasets must be a mapping from names to settings, not a list`},
		{"format: cifar10-bin", "format: cifar10",
			`config.yaml:6:18: datasets.test.format must be one of cifar10-bin, cifar100-bin, tiny-imagenet, npz, image-folder, not "cifar10"; did you mean "cifar10-bin"?`},
		{"suites:\n  main: {dataset: test, models: [net], controls: [pca], attacks: [aa-linf]}\n", "suites: {}\n",
			`config.yaml:22:9: suites must define at least one suite`},
	})
}

func TestYAMLErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"seed: 0", "seed: &a 0",
			`config.yaml:2:7: anchors, aliases and merge keys are not allowed in a config; write the value out`},
		{"seed: 0", "seed: *a",
			`config.yaml:2:7: anchors, aliases and merge keys are not allowed in a config; write the value out`},
		{"seed: 0", "<<: {seed: 0}",
			`config.yaml:2:1: anchors, aliases and merge keys are not allowed in a config; write the value out`},
		{"seed: 0", "seed: !!int 0",
			`config.yaml:2:7: tags ("!!int") are not allowed in a config`},
		{"seed: 0", "? seed\n: 0",
			`config.yaml:2:1: complex keys (?) are not allowed in a config`},
		{"seed: 0", "%YAML 1.2",
			`config.yaml:2:1: directives (%) are not allowed in a config`},
		{"seed: 0", "seed: [0",
			`config.yaml:6:7: a second colon in one entry; is a comma or a pair of quotes missing?`},
		{"seed: 0", "seed: \"0",
			`config.yaml:2:7: could not find end character of double-quoted text`},
		{"seed: 0", "seed:\t0: 1",
			`config.yaml:2:7: tab character cannot use as a map key directly`},
		{"seed: 0", "{a: b: c}",
			`config.yaml:2:1: unexpected map key`},
		{"seed: 0", "---\nseed: 0",
			`config.yaml:3:5: a config is one YAML document, this begins a second one`},
		{"seed: 0", "- 1",
			`config.yaml:2:1: non-map value is specified`},
		{"  main: {dataset", "  main {dataset",
			`config.yaml:23:18: mapping value is not allowed in this context`},
		{"  net:\n    path", "  net:\n  path",
			`config.yaml:9:9: mapping value is not allowed in this context`},
	})
}
