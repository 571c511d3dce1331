package config

import (
	"reflect"
	"strings"
	"testing"

	"selfheal/control"
)

func TestSet(t *testing.T) {
	text := strings.Replace(full, "attacks:\n  aa:", "attacks:\n  v1.2: {kind: fgsm, norm: l2, epsilon: 1}\n  aa:", 1)
	c := mustParse(t, text, "attacks.aa.epsilon=[1/255, 2/255]", "attacks.aa.version=custom",
		"attacks.aa.components=[apgd-ce]", "attacks.aa.restarts = 5", "attacks.v1.2.epsilon=3", "attacks.pgd.loss=null",
		"runtime.workers=1", "seed=9", "datasets.test.limit=null", "controls.pca.solver.outer=5",
		"controls.pca.layers.1.embedding.rank=4", "controls.pca.layers.4=null", "suites.a.attacks=[square]",
		`models.net.preprocess={mean: 0.5, std: "1/2"}`)
	if a := c.Attack("aa"); !reflect.DeepEqual(a.Epsilons, []float64{1.0 / 255, 2.0 / 255}) ||
		!reflect.DeepEqual(a.Parameters, map[string]any{"restarts": 5}) {
		t.Errorf("aa: %+v", a)
	}
	if a := c.Attack("v1.2"); a.Epsilons[0] != 3 {
		t.Errorf("v1.2: %+v", a)
	}
	if a := c.Attack("pgd"); len(a.Parameters) != 2 {
		t.Errorf("pgd: %+v", a)
	}
	p := c.Control("pca")
	if p.Solver.Outer != 5 || p.Layers[1].Embedding.Rank != 4 || len(p.Layers) != 4 {
		t.Errorf("pca: %+v", p)
	}
	if c.Runtime.Workers != 1 || c.Seed != 9 || c.Dataset("test").Limit != 0 ||
		!reflect.DeepEqual(c.Suite("a").Attacks, []string{"square"}) {
		t.Errorf("%+v", c)
	}
	if m := c.Model("net"); !reflect.DeepEqual([][]float64{m.Mean, m.Std}, [][]float64{{0.5}, {0.5}}) {
		t.Errorf("net: %+v", m)
	}
	// Unused keys must be removed by hand for another method.
	c = mustParse(t, small, "controls.pca.solver.method=greedy", "controls.pca.solver.outer=null",
		"controls.pca.solver.inner=null")
	if c.Controls[0].Solver.Method != control.Greedy {
		t.Errorf("%+v", c.Controls[0])
	}
	// A missing part is made.
	c = mustParse(t, strings.Replace(small, "runtime:", "# runtime:", 1), "runtime.batch=8")
	if c.Runtime.Batch != 8 {
		t.Errorf("%+v", c.Runtime)
	}
}

func TestSetErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, want string }{
		{"attacks.aa-linf.epsilom=1", `unknown key "epsilom" in attacks.aa-linf; did you mean "epsilon"?`},
		{"attacks.aa-lin.epsilon=1", `"aa-lin" is not in attacks; did you mean "aa-linf"?`},
		{"attacks.new={kind: pgd}", `"new" is not in attacks; defined: aa-linf`},
		{"attack.aa-linf.epsilon=1", `unknown key "attack" in the config; did you mean "attacks"?`},
		{"attacks.aa-linf.epsilon=8", `did you mean 8/255?`},
		{"attacks.aa-linf.norm=l7", `not "l7"; did you mean "l2"?`},
		{"attacks.aa-linf.epsilon.x=1", `attacks.aa-linf.epsilon has no parts: it is "2/255"`},
		{"controls.pca.layers.1.embedding.rank=4",
			`controls.pca.layers is a list of 1; say which item by a number from 0, not "1"`},
		{"controls.pca.layers.one.embedding.rank=4", `say which item by a number from 0, not "one"`},
		{"seed", `must be KEY=VALUE`},
		{"=3", `must be KEY=VALUE`},
		{"seed=", `no value after the =`},
		{"seed=[1", `in the value: sequence end token ']' not found`},
		{"seed=*a", `in the value: anchors`},
		{"seed=# nothing", `in the value: the config is empty`},
		{"default_suites=[main, no]", `default_suites[1] names "no", which is not in suites or groups; defined: main`},
	} {
		_, err := parse(small, c.set)
		if err == nil || !strings.HasPrefix(err.Error(), "--set "+c.set+": ") || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.set, err, c.want)
		}
	}
	// The error may be at another place.
	for set, want := range map[string]string{
		"attacks.aa-linf.epsilon=null":      `19:5 attacks.aa-linf lacks the key "epsilon"`,
		"attacks.aa-linf=null":              `23:67 suites.main.attacks[0] names "aa-linf"`,
		"controls.pca.solver.method=greedy": `13:27 controls.pca.solver.outer greedy no sweeps --set outer=null`,
	} {
		_, err := parse(strings.Replace(small, ", inner: 10", "", 1), set)
		checkError(t, set, err, want)
	}
}
