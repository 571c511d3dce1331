package config

import (
	"fmt"
	"strings"
	"testing"
)

// small is the config that the cases below break.
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

// listed begins an AutoAttack of the listed components.
const listed = "kind: autoattack\n    version: custom\n    components: "

// errorCases replace old by new in small. want has the error's place and words of its message, in order.
var errorCases = []struct{ old, new, want string }{
	{"    epsilon: 2/255", "    epsilom: 2/255", `21:5 unknown key "epsilom" attacks.aa-linf mean "epsilon"?`},
	{"seed: 0", "sead: 0", `2:1 unknown key "sead" config mean "seed"?`},
	{"seed: 0", "seed: zero", `2:7 seed whole number 0 "zero"`},
	{"seed: 0", `seed: "0"`, `2:7 seed whole number 0 text "0"`},
	{"seed: 0", "seed: 18446744073709551616", `2:7 seed whole number 0 "18446744073709551616"`},
	{"seed: 0", "save_adversarial: yes", `2:19 save_adversarial true false "yes"`},
	{"seed: 0", "seed: &a 0", "2:7 anchors aliases merge keys allowed config"},
	{"seed: 0", "<<: {seed: 0}", "2:1 anchors aliases merge keys allowed config"},
	{"seed: 0", "seed: !!int 0", `2:7 tags ("!!int") allowed config`},
	{"seed: 0", "? seed\n: 0", "2:1 complex keys (?) allowed config"},
	{"seed: 0", "%YAML 1.2", "2:1 directives (%) allowed config"},
	{"seed: 0", "seed: [0", "6:7 second colon entry comma pair quotes missing?"},
	{"seed: 0", `seed: "0`, "2:7 could find end character double-quoted text"},
	{"seed: 0", "seed:\t0: 1", "2:7 tab character cannot use map key directly"},
	{"runtime: {provider: cpu, batch: 64}", "runtime:\n\tbatch: 64", "5:1 tab stands here YAML indented spaces"},
	{"    path: net.onnx", "  \tpath: net.onnx", "9:3 tab stands here YAML indented spaces"},
	{"seed: 0", "---\nseed: 0", "3:5 config YAML document this begins second"},
	{"seed: 0", "gate: {max_drp: 0.02}", `2:8 unknown key "max_drp" gate mean "max_drop"?`},
	{"seed: 0", "gate: {max_drop: 1}", `2:18 gate.max_drop number 0 below 1 "1"`},
	{"seed: 0", "gate: {alpha: 0.0009}", `2:15 gate.alpha number 0.001 below 0.5 "0.0009"`},
	{"seed: 0", "gate: {min: 0.5}", `2:13 gate.min mapping cells such aa-linf MODEL/none/aa-linf accuracies "0.5"`},
	{"seed: 0", "gate: {min: {aa-linf: 40}}", `2:23 gate.min.aa-linf number 0 1 "40"`},
	{"seed: 0", "gate: {min: {a/b/c/d/e: 0.4}}",
		`2:14 gate.min "a/b/c/d/e" 5 parts cell most SUITE/MODEL/DEFENSE/ATTACK`},
	{"seed: 0", "gate: {min: {net/aa*: 0.4}}", `2:14 gate.min "net/aa*" does name cells SUITE/MODEL/DEFENSE/ATTACK`},
	{"seed: 0", "gate: {fail_on: [near-chanse]}", `2:18 gate.fail_on[0] "near-chanse" mean "near-chance"?`},
	{"seed: 0", "seeds: 0", `2:8 seeds whole number 1 1000 "0"`},
	{"seed: 0", "seeds: [1, 1]", `2:12 seeds[1] "1" listed twice`},
	{"seed: 0", "seeds: [1, 2]\nseed: 0", "2:8 seeds list seeds stands seed too give two how"},
	{"datasets:", "dataset:", `5:1 unknown key "dataset" config mean "datasets"?`},
	{"    norm: linf", "    norm: linf\n    colour: red", `21:5 unknown key "colour" attacks.aa-linf known keys`},
	{"    norm: linf", "    norm: linf\n    norm: l2", `21:5 duplicate key "norm" first given on line 20`},
	{"    path: net.onnx", "    file: net.onnx", `9:5 unknown key "file" models.net known keys`},
	{"    path: net.onnx\n", "    task: {kind: ensemble, of: [net, other]}\n  other: {path: o.onnx}\n" +
		"  third:\n    path: x\n",
		"8:3 models.net: its member net classifier itself"},
	{"    path: net.onnx\n", "    path: a.onnx\n  all: {task: {kind: ensemble, of: [net, nut]}}\n  o:\n    path: x\n",
		`10:42 models.all.task.of[1] names "nut" mean "net"?`},
	{"    path: net.onnx\n", "    path: a.onnx\n  all: {path: b.onnx, task: {kind: ensemble, of: [net, o]}}\n" +
		"  o:\n    path: x\n",
		"10:9 models.all.path ensemble task alone members rest"},
	{"    path: net.onnx", "    task: {kind: verification}", `9:11 models.net.task threshold far`},
	{"    path: net.onnx\n", "", `9:5 models.net lacks key "path"`},
	{"    path: net.onnx", "    path: {a: 1}", "9:11 models.net.path path mapping"},
	{"    path: net.onnx", `    path: ""`, `9:11 models.net.path path text ""`},
	{"    path: net.onnx", "    path: net.onnx\n    sha256: abc",
		`10:13 models.net.sha256 64 hexadecimal digits "abc"`},
	{"    path: net.onnx", "    path: net.onnx\n    output: logit", `10:13 models.net.output "logit" mean "logits"?`},
	{"    epsilon: 2/255\n", "", `19:5 attacks.aa-linf lacks key "epsilon"`},
	{"version: 1\n", "", `1:1 config lacks key "version"`},
	{"batch: 64", "batch: 0", `4:33 runtime.batch whole number 1 "0"`},
	{"batch: 64", "batch: 6.5", `4:33 runtime.batch whole number 1 "6.5"`},
	{"batch: 64", "batch: 0x40", `4:33 runtime.batch whole number 1 "0x40"`},
	{"default_suites: [main]", "default_suites: main", `3:17 default_suites list "main" write [main]`},
	{"default_suites: [main]", "default_suites: []", "3:17 default_suites empty"},
	{"default_suites: [main]", "default_suites: [main, main]", `3:24 default_suites[1] "main" listed twice`},
	{"default_suites: [main]", "default_suites: [mian]",
		`3:18 default_suites[0] names "mian" suites groups mean "main"?`},
	{"runtime: {provider: cpu, batch: 64}", "runtime: cpu", `4:10 runtime mapping keys like provider "cpu"`},
	{"limit: 200", "indices: [1, 2, 1]", `6:63 datasets.test.indices[2] "1" listed twice`},
	{"limit: 200", "indices: [1, -2]", `6:60 datasets.test.indices[1] whole number 0 "-2"`},
	{"limit: 200", "transform: {interpolation: bicubic}", `6:58 datasets.test.transform resize crop`},
	{"limit: 200", "transform: {resize: 9, crop: 10}", `6:58 datasets.test.transform crop larger`},
	{"limit: 200", "keys: {x: a, y: b}", `6:47 datasets.test.keys format cifar10-bin remove`},
	{"limit: 200", "classes: ten", `6:56 datasets.test.classes whole number 2 "ten"`},
	{"version: 1", "version: 2", `1:10 version 1 this program reads "2"`},
	{"mean: [0.5", "mean: [.nan", `10:25 models.net.preprocess.mean[0] number ".nan"`},
	{"std: [0.25, ", "std: [0, ", `10:47 models.net.preprocess.std[0] number above 0 8/255 "0"`},
	{"std: [0.25, ", "std: [", "10:17 models.net.preprocess mean 3 values std 2 give channel all"},
	{"datasets:\n  test: {format: cifar10-bin, path: test.bin, limit: 200}",
		"datasets: [test]", "5:11 datasets mapping names settings list"},
	{"format: cifar10-bin", "format: cifar10", `6:18 datasets.test.format "cifar10" mean "cifar10-bin"?`},
	{"models: [net], controls: [pca]", "models: [net], pairs: [[net]], controls: [pca]",
		"23:48 suites.main.pairs[0] 1 items 2"},
	{"suites:\n  main: {dataset: test, models: [net], controls: [pca], attacks: [aa-linf]}\n",
		"suites: {}\n", "22:9 suites define least suite"},
	{"  main: {dataset", "  main {dataset", "23:18 mapping value allowed this context"},
	{"attacks: [aa-linf]}", "attacks: [aa-linf], published: tabel3}",
		`23:88 suites.main.published "tabel3" mean "table3"?`},
	{"attacks: [aa-linf]}", "attacks: [aa-linf], published: figure-9}",
		`23:88 suites.main.published one of table2 "figure-9"`},
	{"attacks: [aa-linf]}", "attacks: [aa-linf], published: {nett: {none: [1, 2]}}}",
		`23:89 suites.main.published names "nett" models mean "net"?`},
	{"attacks: [aa-linf]}", "attacks: [aa-linf], published: {net: 69.25}}",
		`23:94 suites.main.published.net mapping {none ATTACK [baseline controlled]} "69.25"`},
	{"attacks: [aa-linf]}", "attacks: [aa-linf], published: {net: {pgd: [1, 2]}}}",
		`23:95 suites.main.published.net names "pgd" attacks defined`},
	{"attacks: [aa-linf]}", "attacks: [aa-linf], published: {net: {none: [1, 2, 3]}}}",
		"23:101 suites.main.published.net.none 3 items 2 most"},
	{"attacks: [aa-linf]}", "attacks: [aa-linf], published: {net: {none: [1, 200]}}}",
		`23:105 suites.main.published.net.none[1] number 0 100 "200"`},
	{"provider: cpu, batch: 64", "device: 0", "4:11 runtime.device can't given provider cpu"},
	{"provider: cpu, batch: 64",
		"provider: cuda, winograd: true", "4:37 runtime.winograd can't true provider cuda Winograd's method CPU"},
	{"kind: autoattack", "kind: autoatack", `19:11 attacks.aa-linf.kind "autoatack" mean "autoattack"?`},
	{"kind: autoattack", "kind: fgsm\n    version: standard", "20:5 attacks.aa-linf.version can't given kind fgsm"},
	{"kind: autoattack", "kind: fgsm\n    steps: 5", "20:5 attacks.aa-linf.steps can't given kind fgsm"},
	{"kind: autoattack", "kind: pgd\n    stepsize: 1", `20:5 unknown key "stepsize" attacks.aa-linf mean "step_size"?`},
	{"kind: autoattack", "kind: autoattack\n    version: standart",
		`20:14 attacks.aa-linf.version "standart" mean "standard"?`},
	{"kind: autoattack", "kind: autoattack\n    version: custom", `19:5 attacks.aa-linf lacks key "components"`},
	{"kind: autoattack", "kind: autoattack\n    components: [square]",
		"20:5 attacks.aa-linf.components can't given version standard"},
	{"kind: autoattack", listed + "[squre]", `21:18 attacks.aa-linf.components[0] "squre" mean "square"?`},
	{"kind: autoattack", listed + "[square, {kind: apgd-t, target: 3}]",
		`21:41 unknown key "target" attacks.aa-linf.components[1] mean "targets"?`},
	{"kind: autoattack", listed + "[{kind: fab, queries: 3}]",
		"21:30 attacks.aa-linf.components[0].queries can't given kind fab"},
	{"kind: autoattack", listed + "[{kind: apgd-t, steps: 1.5}]",
		`21:40 attacks.aa-linf.components[0].steps whole number 1 "1.5"`},
	{"kind: autoattack", listed + "[{kind: apgdt}]", `21:25 attacks.aa-linf.components[0].kind "apgdt" mean "apgd-t"?`},
	{"kind: autoattack", listed + "[{steps: 3}]", `21:18 attacks.aa-linf.components[0] lacks key "kind"`},
	{"kind: autoattack", listed + "[fab, {kind: apgd-ce}]\n    queries: 10",
		"22:5 attacks.aa-linf.queries parameter none components"},
	{"norm: linf", "norm: l3", `20:11 attacks.aa-linf.norm "l3" mean "l2"?`},
	{"epsilon: 2/255", "epsilon: 0", `21:14 attacks.aa-linf.epsilon number above 0 8/255 "0"`},
	{"epsilon: 2/255", "epsilon: 8/0", `21:14 attacks.aa-linf.epsilon number above 0 8/255 "8/0"`},
	{"epsilon: 2/255", "epsilon: 2/255/2", `21:14 attacks.aa-linf.epsilon number above 0 8/255 "2/255/2"`},
	{"epsilon: 2/255", `epsilon: "2"`, `21:14 attacks.aa-linf.epsilon number above 0 8/255 text "2"`},
	{"epsilon: 2/255", "epsilon: 1e999", `21:14 attacks.aa-linf.epsilon number above 0 8/255 "1e999"`},
	{"epsilon: 2/255", "epsilon: 8", "21:14 attacks.aa-linf.epsilon 8 but linf nothing farther than 1 since"},
	{"epsilon: 2/255", "epsilon: [1/255, 2/255, 2/255]", `21:29 attacks.aa-linf.epsilon[2] "2/255" listed twice`},
	{"  aa-linf:\n", "  none: {kind: fgsm, norm: linf, epsilon: 1}\n  aa-linf:\n",
		"18:3 attacks.none name none always defined choose another"},
	{"  aa-linf:\n", "  aa/linf: {kind: fgsm, norm: linf, epsilon: 1}\n  aa-linf:\n",
		`18:3 "aa/linf" can't name attacks may hold letters digits -`},
	{"  pca:\n", "  none: {layers: [{at: input, embedding: {kind: identity}}]}\n  pca:\n",
		"12:3 controls.none name none always defined choose another"},
	{"method: msa", "method: pmp", "13:37 controls.pca.solver.inner can't given method pmp makes ascent step layer"},
	{"method: msa", "method: mas", `13:22 controls.pca.solver.method "mas" mean "msa"?`},
	{"method: msa, outer: 3, inner: 10",
		"method: greedy, momentum: 0.5", "13:30 controls.pca.solver.momentum can't given method greedy makes sweeps"},
	{", variance: 0.99", "", "16:20 controls.pca.layers[0].embedding needs variance rank"},
	{"variance: 0.99",
		"variance: 0.99, rank: 8", "16:68 controls.pca.layers[0].embedding takes either variance rank both"},
	{"variance: 0.99", "path: ae.onnx", "16:46 controls.pca.layers[0].embedding.path can't given kind linear"},
	{"fit: test, variance: 0.99", "variance: 0.99", `16:20 controls.pca.layers[0].embedding lacks key "fit"`},
	{"kind: linear, fit: test, variance: 0.99",
		"kind: onnx", `16:20 controls.pca.layers[0].embedding lacks key "path"`},
	{"kind: linear, fit: test, variance: 0.99",
		"kind: identity, fit: test", "16:37 controls.pca.layers[0].embedding.fit can't given kind identity"},
	{"kind: linear", "kind: liner", `16:27 controls.pca.layers[0].embedding.kind "liner" mean "linear"?`},
	{"kind: linear, fit", "fit", `16:20 controls.pca.layers[0].embedding lacks key "kind"`},
	{"        embedding: {kind: linear, fit: test, variance: 0.99}\n",
		"        embedding: {kind: identity}\n      - {at: 0, embedding: {kind: identity}}\n",
		"17:14 controls.pca.layers[1].at there embedding input already"},
	{"models: [net]", "models: [net, nett]", `23:39 suites.main.models[1] names "nett" models mean "net"?`},
	{"attacks: [aa-linf]", "attacks: [aa-linf, aa-l2]", `23:76 suites.main.attacks[1] names "aa-l2" attacks defined`},
	{"attacks: [aa-linf]", "attacks: [aa-linf, aa-linf]", `23:76 suites.main.attacks[1] "aa-linf" listed twice`},
	{"attacks: [aa-linf]", "attacks: [aa-linf], mode: blind", `23:83 suites.main.mode "blind"`},
	{"fit: test", "fit: train", `16:40 controls.pca.layers[0].embedding.fit names "train" datasets defined`},
}

func TestErrors(t *testing.T) {
	t.Parallel()
	mustParse(t, small)
	for _, c := range errorCases {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Errorf("%q is not in the config", c.old)
		}
		_, err := parse(text)
		checkError(t, c.new, err, c.want)
	}
}

// All errors are reported at once, in the order of the file, without errors that only follow from others.
func TestAllErrors(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("seed: 0", "seed: zero", "limit: 200", "limt: 200", "epsilon: 2/255", "epsilon: 8",
		"method: msa", "method: mas", "controls: [pca]", "controls: [pac]", "attacks: [aa-linf]", "attacks: [aa]",
	).Replace(small)
	var want []string
	check := func(text string, lines []string, sets ...string) {
		t.Helper()
		_, err := parse(text, sets...)
		got := strings.Split(fmt.Sprint(err), "\n")
		if len(got) != len(lines) {
			t.Fatalf("%d errors, want %d:\n%v", len(got), len(lines), err)
		}
		for i, line := range lines {
			if !strings.HasPrefix(got[i], line) {
				t.Errorf("error %d is %s, want %s", i, got[i], line)
			}
		}
	}
	for _, at := range []string{"2:7: seed must be", `6:47: unknown key "limt"`,
		"13:22: controls.pca.solver.method must",
		"21:14: attacks.aa-linf.epsilon is 8", `23:51: suites.main.controls[0] names "pac"`,
		`23:67: suites.main.attacks[0] names "aa"`} {
		want = append(want, "config.yaml:"+at)
	}
	check(text, want)
	check(text, append(want, "--set nothing: this must be KEY=VALUE", "--set seeds=x: seeds must be"), "seeds=x",
		"nothing")
	// Names in a section under a misspelt key are not reported as undefined.
	check(strings.NewReplacer("attacks:\n", "atacks:\n", "models: [net]", "models: [ned]").Replace(small), []string{
		`config.yaml:17:1: unknown key "atacks"`, `config.yaml:23:34: suites.main.models[0] names "ned"`})
	many := "version: 1\nseed: 0\n"
	for i := range 30 {
		many += fmt.Sprintf("key%d: 1\n", i)
	}
	if _, err := parse(many); strings.Count(err.Error(), "\n") != 20 || !strings.HasSuffix(err.Error(),
		"\n10 more errors") {
		t.Errorf("%v", err)
	}
}

// checkError expects a place, "LINE:COLUMN", at the beginning of an error, and then words, in order.
func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	place, words, _ := strings.Cut(want, " ")
	rest, found := strings.CutPrefix(fmt.Sprint(err), "config.yaml:"+place+": ")
	for _, word := range strings.Fields(words) {
		i := strings.Index(rest, word)
		found = found && i >= 0
		rest = rest[max(i, 0):]
	}
	if err == nil || !found || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q:\n got %v\nwant %s", what, err, want)
	}
}
