package config

import (
	"reflect"
	"strings"
	"testing"
)

// TestComponents: a component is a name or a mapping; what is given for one alone
// and what for all are kept apart, also by the hash.
func TestComponents(t *testing.T) {
	text := func(components, shared string) string {
		return strings.Replace(small, "kind: autoattack", "kind: autoattack\n    version: custom\n    components: "+components+"\n    "+shared, 1)
	}
	a := mustParse(t, text("[square, {targets: 3, kind: apgd-t, loss: ce-targeted, rho: 1/2}, {kind: fab}]", "steps: 50"), "attacks.aa-linf.components.1.steps=20").Attack("aa-linf")
	components, shared := a.Custom()
	if want := []Component{{"square", nil}, {"apgd-t", []Param{{"targets", 3}, {"loss", "ce-targeted"}, {"rho", 0.5}, {"steps", 20}}}, {"fab", nil}}; !reflect.DeepEqual(components, want) {
		t.Errorf("components %+v, want %+v", components, want)
	}
	if want := []Param{{"steps", 50}}; !reflect.DeepEqual(shared, want) {
		t.Errorf("shared %+v, want %+v", shared, want)
	}
	if components, shared = mustParse(t, small).Attack("aa-linf").Custom(); components != nil || shared != nil {
		t.Errorf("version standard has components %+v and parameters %+v", components, shared)
	}

	same := hash(t, text("[{kind: apgd-t, steps: 5, targets: 2}, fab]", ""), 0)
	if h := hash(t, text("[{targets: 2, kind: apgd-t, steps: 5}, {kind: fab}]", ""), 0); h != same {
		t.Error("the order of a component's keys, or a mapping for a name, changes the hash")
	}
	for _, other := range []string{text("[{kind: apgd-t, targets: 2}, fab]", "steps: 5"), text("[{kind: apgd-t, steps: 5, targets: 3}, fab]", ""),
		text("[{kind: apgd-t, targets: 2}, {kind: fab, steps: 5}]", ""), text("[fab, {kind: apgd-t, steps: 5, targets: 2}]", "")} {
		if hash(t, other, 0) == same {
			t.Errorf("the same hash for\n%s", other)
		}
	}
}

func TestAttackErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"kind: autoattack", "kind: autoatack",
			`config.yaml:19:11: attacks.aa-linf.kind must be one of autoattack, apgd-ce, apgd-dlr, apgd-t, fab, fab-t, square, pgd, fgsm, bisection, not "autoatack"; did you mean "autoattack"?`},
		{"kind: autoattack", "kind: zzzzzz",
			`config.yaml:19:11: attacks.aa-linf.kind must be one of autoattack, apgd-ce, apgd-dlr, apgd-t, fab, fab-t, square, pgd, fgsm, bisection, not "zzzzzz"`},
		{"kind: autoattack", "kind: fgsm\n    version: standard",
			`config.yaml:20:14: attacks.aa-linf.version is only for kind autoattack, not fgsm`},
		{"kind: autoattack", "kind: fgsm\n    steps: 5",
			`config.yaml:20:5: attacks.aa-linf.steps is not a parameter of fgsm; its parameters: loss`},
		{"kind: autoattack", "kind: pgd\n    steps: 0",
			`config.yaml:20:12: attacks.aa-linf.steps must be a whole number from 1 up, not "0"`},
		{"kind: autoattack", "kind: pgd\n    stepsize: 1",
			`config.yaml:20:5: unknown key "stepsize" in attacks.aa-linf; did you mean "step_size"?`},
		{"kind: autoattack", "kind: square\n    rescale_schedule: 1",
			`config.yaml:20:23: attacks.aa-linf.rescale_schedule must be true or false, not "1"`},
		{"kind: autoattack", "kind: square\n    p_init: 2",
			`config.yaml:20:13: attacks.aa-linf.p_init must be a number above 0 and up to 1, not "2"`},
		{"kind: autoattack", "kind: autoattack\n    version: standart",
			`config.yaml:20:14: attacks.aa-linf.version must be one of standard, plus, rand, custom, quick, not "standart"; did you mean "standard"?`},
		{"kind: autoattack", "kind: autoattack\n    version: custom",
			`config.yaml:20:14: attacks.aa-linf: version custom needs components, a list of apgd-ce, apgd-dlr, apgd-t, fab, fab-t or square`},
		{"kind: autoattack", "kind: autoattack\n    components: [square]",
			`config.yaml:20:17: attacks.aa-linf.components is only for version custom, not standard`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components: [squre]",
			`config.yaml:21:18: attacks.aa-linf.components[0] must be one of apgd-ce, apgd-dlr, apgd-t, fab, fab-t, square, not "squre"; did you mean "square"?`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components: [square, {kind: apgd-t, target: 3}]",
			`config.yaml:21:41: unknown key "target" in attacks.aa-linf.components[1]; did you mean "targets"?`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components:\n      - kind: fab\n        queries: 3",
			`config.yaml:23:9: attacks.aa-linf.components[0].queries is not a parameter of fab; its parameters: steps, restarts, alpha_max, eta, beta`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components: [{kind: apgd-t, steps: 1.5}]",
			`config.yaml:21:40: attacks.aa-linf.components[0].steps must be a whole number from 1 up, not "1.5"`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components: [{kind: apgdt}]",
			`config.yaml:21:25: attacks.aa-linf.components[0].kind must be one of apgd-ce, apgd-dlr, apgd-t, fab, fab-t, square, not "apgdt"; did you mean "apgd-t"?`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components: [{steps: 3}]",
			`config.yaml:21:18: attacks.aa-linf.components[0] lacks the key "kind"`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components: [[square]]",
			`config.yaml:21:18: attacks.aa-linf.components[0] must be one of apgd-ce, apgd-dlr, apgd-t, fab, fab-t, square, not a list`},
		{"kind: autoattack", "kind: autoattack\n    version: custom\n    components: [fab, {kind: apgd-ce}]\n    queries: 10",
			`config.yaml:22:5: attacks.aa-linf.queries is a parameter of none of the components (fab, apgd-ce)`},
		{"kind: autoattack", "kind: pgd\n    schedule: [1]",
			`config.yaml:20:15: attacks.aa-linf.schedule must be the name of a schedule, not a list`},
		{"kind: autoattack", "kind: bisection\n    tolerance: 0",
			`config.yaml:20:16: attacks.aa-linf.tolerance must be a number above 0 and up to 1, not "0"`},
		{"kind: autoattack", "kind: pgd\n    components: [square]",
			`config.yaml:20:17: attacks.aa-linf.components is only for kind autoattack, not pgd`},
		{"norm: linf", "norm: l3",
			`config.yaml:20:11: attacks.aa-linf.norm must be one of linf, l2, l1, not "l3"; did you mean "l2"?`},
		{"norm: linf", "norm: Linf",
			`config.yaml:20:11: attacks.aa-linf.norm must be one of linf, l2, l1, not "Linf"; did you mean "linf"?`},
		{"epsilon: 2/255", "epsilon: 0",
			`config.yaml:21:14: attacks.aa-linf.epsilon must be a number above 0, such as 0.5 or 8/255, not "0"`},
		{"epsilon: 2/255", "epsilon: 8/0",
			`config.yaml:21:14: attacks.aa-linf.epsilon must be a number above 0, such as 0.5 or 8/255, not "8/0"`},
		{"epsilon: 2/255", "epsilon: 2/255/2",
			`config.yaml:21:14: attacks.aa-linf.epsilon must be a number above 0, such as 0.5 or 8/255, not "2/255/2"`},
		{"epsilon: 2/255", "epsilon: \"2\"",
			`config.yaml:21:14: attacks.aa-linf.epsilon must be a number above 0, such as 0.5 or 8/255, not the text "2"`},
		{"epsilon: 2/255", "epsilon: .inf",
			`config.yaml:21:14: attacks.aa-linf.epsilon must be a number above 0, such as 0.5 or 8/255, not ".inf"`},
		{"epsilon: 2/255", "epsilon: 1e999",
			`config.yaml:21:14: attacks.aa-linf.epsilon must be a number above 0, such as 0.5 or 8/255, not "1e999"`},
		{"epsilon: 2/255", "epsilon: 8",
			`config.yaml:21:14: attacks.aa-linf.epsilon is 8, but in linf nothing is farther than 1, since pixels are in [0,1]; did you mean 8/255?`},
		{"epsilon: 2/255", "epsilon: []",
			`config.yaml:21:14: attacks.aa-linf.epsilon must not be empty`},
		{"epsilon: 2/255", "epsilon: [1/255, 2/255, 2/255]",
			`config.yaml:21:14: attacks.aa-linf.epsilon lists 0.00784313725490196 twice`},
		{"epsilon: 2/255", "epsilon: [1/255, eight]",
			`config.yaml:21:22: attacks.aa-linf.epsilon[1] must be a number above 0, such as 0.5 or 8/255, not "eight"`},
		{"  aa-linf:\n", "  none:\n",
			`config.yaml:19:5: attacks.none: the name none is reserved, it is always defined; choose another`},
		{"  aa-linf:\n", "  aa/linf:\n",
			`config.yaml:18:3: "aa/linf" can't be a name in attacks: it may hold letters, digits and - _ . + @ and begins with a letter or digit`},
		{"  pca:\n", "  none:\n",
			`config.yaml:13:5: controls.none: the name none is reserved, it is always defined; choose another`},
	})
}

func TestControlErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"outer: 3, inner: 10}", "outer: 0}",
			`config.yaml:13:34: controls.pca.solver.outer must be a whole number from 1 up, not "0"`},
		{"method: msa", "method: pmp",
			`config.yaml:13:44: controls.pca.solver.inner can't be given with method pmp: it makes one ascent step a layer and sweep; outer alone counts them; remove it (or --set controls.pca.solver.inner=null)`},
		{"method: msa, outer: 3, inner: 10", "method: greedy, momentum: 0.5",
			`config.yaml:13:40: controls.pca.solver.momentum can't be given with method greedy: it makes no sweeps; remove it (or --set controls.pca.solver.momentum=null)`},
		{"method: msa", "method: mas",
			`config.yaml:13:22: controls.pca.solver.method must be one of greedy, pmp, msa, not "mas"; did you mean "msa"?`},
		{"method: msa", "momentum: 1",
			`config.yaml:13:24: controls.pca.solver.momentum must be a number from 0 up and below 1, not "1"`},
		{"method: msa", "regularization: -1",
			`config.yaml:13:30: controls.pca.solver.regularization must be a number from 0 up, not "-1"`},
		{"method: msa", "learning_rate: 0",
			`config.yaml:13:29: controls.pca.solver.learning_rate must be a number above 0, such as 0.5 or 8/255, not "0"`},
		{"variance: 0.99", "variance: 1.5",
			`config.yaml:16:56: controls.pca.layers[0].embedding.variance must be a number above 0 and up to 1, not "1.5"`},
		{"variance: 0.99", "variance: 99%",
			`config.yaml:16:56: controls.pca.layers[0].embedding.variance must be a number above 0 and up to 1, not "99%"`},
		{", variance: 0.99", "",
			`config.yaml:16:20: controls.pca.layers[0].embedding needs variance (the share to keep, such as 0.99) or rank (the number of components)`},
		{"variance: 0.99", "variance: 0.99, rank: 8",
			`config.yaml:16:68: controls.pca.layers[0].embedding takes either variance or rank, not both`},
		{"variance: 0.99", "rank: 0",
			`config.yaml:16:52: controls.pca.layers[0].embedding.rank must be a whole number from 1 up, not "0"`},
		{"variance: 0.99", "path: ae.onnx",
			`config.yaml:16:46: unknown key "path" in controls.pca.layers[0].embedding; known keys: kind, fit, variance, rank`},
		{"variance: 0.99", "rnk: 8",
			`config.yaml:16:46: unknown key "rnk" in controls.pca.layers[0].embedding; did you mean "rank"?`},
		{"fit: test, variance: 0.99", "variance: 0.99",
			`config.yaml:16:20: controls.pca.layers[0].embedding lacks the key "fit"`},
		{"kind: linear, fit: test, variance: 0.99", "kind: onnx",
			`config.yaml:16:20: controls.pca.layers[0].embedding lacks the key "path"`},
		{"kind: linear, fit: test, variance: 0.99", "kind: identity, fit: test",
			`config.yaml:16:37: unknown key "fit" in controls.pca.layers[0].embedding; known keys: kind`},
		{"kind: linear", "kind: liner",
			`config.yaml:16:27: controls.pca.layers[0].embedding.kind must be one of linear, onnx, autoencoder, identity, not "liner"; did you mean "linear"?`},
		{"kind: linear, fit", "fit",
			`config.yaml:16:20: controls.pca.layers[0].embedding lacks the key "kind"`},
		{"at: input", "at: -1",
			`config.yaml:15:13: controls.pca.layers[0].at must be a whole number from 0 up, not "-1"`},
		{"at: input", "at: [1]",
			`config.yaml:15:13: controls.pca.layers[0].at must be input, last, a boundary number or the name of a tensor, not a list`},
		{"at: input", "att: 1",
			`config.yaml:15:9: unknown key "att" in controls.pca.layers[0]; did you mean "at"?`},
		{"        embedding: {kind: linear, fit: test, variance: 0.99}\n", "        embedding: {kind: identity}\n      - {at: 0, embedding: {kind: identity}}\n",
			`config.yaml:17:14: controls.pca.layers[1].at: there is an embedding at input already`},
		{"    layers:\n      - at: input\n        embedding: {kind: linear, fit: test, variance: 0.99}\n", "    layers: []\n",
			`config.yaml:14:13: controls.pca.layers must not be empty`},
	})
}

func TestReferenceErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"dataset: test,", "dataset: tset,",
			`config.yaml:23:19: suites.main.dataset names "tset", which is not in datasets; did you mean "test"?`},
		{"models: [net]", "models: [net, nett]",
			`config.yaml:23:39: suites.main.models names "nett", which is not in models; did you mean "net"?`},
		{"controls: [pca]", "controls: [pac]",
			`config.yaml:23:51: suites.main.controls names "pac", which is not in controls; did you mean "pca"?`},
		{"attacks: [aa-linf]", "attacks: [aa-linf, aa-l2]",
			`config.yaml:23:76: suites.main.attacks names "aa-l2", which is not in attacks; defined: aa-linf, none`},
		{"attacks: [aa-linf]", "attacks: [zzz]",
			`config.yaml:23:67: suites.main.attacks names "zzz", which is not in attacks; defined: aa-linf, none`},
		{"attacks: [aa-linf]", "attacks: [aa-linf, aa-linf]",
			`config.yaml:23:76: suites.main.attacks[1]: "aa-linf" is listed twice`},
		{"attacks: [aa-linf]", "attacks: [aa-linf], mode: blind",
			`config.yaml:23:83: suites.main.mode must be one of oblivious, whitebox-detached, whitebox-through, whitebox-bpda, not "blind"`},
		{"default_suites: [main]", "default_suites: [mian]",
			`config.yaml:3:18: default_suites names "mian", which is not in suites or groups; did you mean "main"?`},
		{"fit: test", "fit: train",
			`config.yaml:16:40: controls.pca.layers[0].embedding.fit names "train", which is not in datasets; defined: test`},
	})
}
