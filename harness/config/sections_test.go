package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
)

// TestComponents: a component is a name or a mapping. Parameters of one and of all are kept apart.
func TestComponents(t *testing.T) {
	text := func(components, shared string) string {
		return strings.Replace(small, "kind: autoattack",
			"kind: autoattack\n    version: custom\n    components: "+components+"\n    "+shared, 1)
	}
	a := mustParse(t, text("[square, {targets: 3, kind: apgd-t, loss: ce-targeted, rho: 1/2}, {kind: fab}]",
		"steps: 50"), "attacks.aa-linf.components.1.steps=20").Attack("aa-linf")
	want := setup("autoattack", "custom", attacks.Linf, map[string]any{"steps": 50}, "square", "apgd-t", "fab")
	want.Components[1].Parameters = map[string]any{"targets": 3, "loss": "ce-targeted", "rho": 0.5, "steps": 20}
	if !reflect.DeepEqual(a.Setup, want) {
		t.Errorf("%+v, want %+v", a.Setup, want)
	}
}

// An attack is read, and obeys the schema, in the norms that it supports.
func TestNorms(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	for _, s := range attacks.Specs {
		if attacks.Free(s.Kind) {
			continue
		}
		for _, n := range attacks.Norms() {
			text := fmt.Sprintf(`{version: 1, datasets: {d: {format: npz, path: d.npz}}, models: {m: {path: m.onnx}},
attacks: {a: {kind: %s, norm: %s, epsilon: 1}}, suites: {s: {dataset: d, models: [m], attacks: [a]}}}`, s.Kind, n)
			_, err := Parse("test.yaml", []byte(text), nil)
			against := schema.Validate(asJSON(must.Get(parseTree("test.yaml", []byte(text)))(t)))
			if want := s.CheckNorm(n); want == nil && (err != nil || against != nil) || want != nil && (err == nil ||
				against == nil || !strings.Contains(err.Error(), want.Error())) {
				t.Errorf("%s in %v: %v; schema: %v; want %v", s.Kind, n, err, against, want)
			}
		}
	}
}

func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		sets  []string
		seed  uint64
		other []uint64
	}{
		{[]string{"seed=5"}, 5, nil},
		{[]string{"seed=5", "seeds=1"}, 5, nil},
		{[]string{"seed=5", "seeds=3"}, 5, []uint64{6, 7}},
		{[]string{"seed=null", "seeds=[4, 0]"}, 4, []uint64{0}},
	} {
		cfg := mustParse(t, small, c.sets...)
		if cfg.Seed != c.seed || !slices.Equal(cfg.OtherSeeds, c.other) {
			t.Errorf("%v: seed %d, others %v", c.sets, cfg.Seed, cfg.OtherSeeds)
		}
	}
}

func TestRuntime(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want Runtime
	}{
		{[]string{"runtime=null"}, Runtime{"cpu", 0, 0, 64, 1, true, ""}},
		{nil, Runtime{"cpu", 0, 0, 64, 1, true, ""}},
		{[]string{"runtime.threads=4", "runtime.winograd=false"}, Runtime{"cpu", 0, 0, 64, 4, false, ""}},
		{[]string{"runtime.provider=cuda"}, Runtime{"cuda", 0, 0, 64, 1, false, "f32"}},
		{[]string{"runtime={provider: cuda}"}, Runtime{"cuda", 0, 0, 0, 1, false, "f32"}},
		{[]string{"runtime.provider=cuda", "runtime.device=3", "runtime.winograd=false"},
			Runtime{"cuda", 3, 0, 64, 1, false, "f32"}},
	} {
		if got := mustParse(t, small, c.sets...).Runtime; got != c.want {
			t.Errorf("%v: %+v, not %+v", c.sets, got, c.want)
		}
	}
}

// A group stands for its suites, in their order and each once, wherever it is defined.
func TestGroups(t *testing.T) {
	c := mustParse(t, "groups: {all: {suites: [b, a], theory: true}, one: {suites: [a]}}\n"+full)
	for _, test := range []struct {
		names  []string
		want   string
		theory bool
	}{
		{[]string{"all"}, "b a", true}, {[]string{"one"}, "a", false}, {[]string{"a", "all", "one"}, "a b", true},
		{[]string{"b"}, "b", false},
	} {
		part := must.Get(c.Selected(test.names))(t)
		got := strings.Join(part.DefaultSuites, " ")
		if got != test.want || part.Theory != test.theory || !slices.Equal(namesOf(part.Suites, suiteName),
			part.DefaultSuites) {
			t.Errorf("%v: suites %s, theory %v", test.names, got, part.Theory)
		}
	}
	if _, err := c.Selected([]string{"alll"}); err == nil ||
		err.Error() != `there is no suite "alll"; did you mean "all"?` {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"groups: {b: {suites: [a]}}\n":                 "groups.b: a suite has that name already",
		"groups: {g: {suites: [c]}}\n":                 `groups.g.suites[0] names "c", which is not in suites`,
		"groups: {g: {suites: []}}\n":                  "groups.g.suites",
		"groups: {g: {suites: [a], theory: yes}}\n":    "groups.g.theory must be true or false",
		"groups: {g: {suites: [a], theories: true}}\n": `unknown key "theories"`,
	} {
		_, err := parse(text + full)
		must.Refuse(t, err, want)
	}
}

func TestSelected(t *testing.T) {
	c := mustParse(t, full)
	names := func(c *Config) [][]string {
		return [][]string{c.DefaultSuites, namesOf(c.Suites, suiteName), namesOf(c.Datasets, datasetName),
			namesOf(c.Models, modelName), namesOf(c.Controls, controlName), namesOf(c.Attacks, attackName)}
	}
	for _, test := range []struct {
		suites []string
		want   [][]string
	}{
		{nil, [][]string{{"b"}, {"b"}, {"train"}, {"net"}, {}, {}}},
		{[]string{"a"}, [][]string{{"a"}, {"a"}, {"test", "train"}, {"net"}, {"pca", "fast"}, {"aa", "pgd"}}},
		{[]string{"b", "a", "b"}, [][]string{{"b", "a"}, {"b", "a"}, {"test", "train"}, {"net"}, {"pca", "fast"},
			{"aa", "pgd"}}},
	} {
		part := must.Get(c.Selected(test.suites))(t)
		if got := names(part); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v:\n got %v\nwant %v", test.suites, got, test.want)
		}
	}
	if got, want := c.fitDatasets(), []string{"train", "test"}; !slices.Equal(got, want) {
		t.Errorf("fitted on %v, want %v", got, want)
	}
	if len(c.Suites) != 2 || len(c.Datasets) != 2 || len(c.Attacks) != 4 {
		t.Error("Selected changed the config it was asked of")
	}

	c = mustParse(t, small)
	for name, want := range map[string]string{
		"mian": `there is no suite "mian"; did you mean "main"?`,
		"x":    `there is no suite "x"; suites: main`,
	} {
		if _, err := c.Selected([]string{name}); err == nil || err.Error() != want {
			t.Errorf("suite %s: %v, want %s", name, err, want)
		}
	}
	bare, _, _ := strings.Cut(strings.Replace(full, "default_suites: [b]\n", "", 1), "\nsuites:")
	_, err := mustParse(t, bare).Selected(nil)
	must.Refuse(t, err, "the config has no suites, which say what to score")
}

// A control may not be fitted on images that its suite scores.
func TestFittedOnScored(t *testing.T) {
	const clash = "suite main scores the images that control pca is fitted on (data sets test and"
	other := strings.Replace(strings.Replace(small, "datasets:\n", "datasets:\n  other: {format: cifar10-bin, path: "+
		"./test.bin}\n", 1), "fit: test", "fit: other", 1)
	trained := strings.Replace(other, "{kind: linear, fit: other, variance: 0.99}",
		"{kind: autoencoder, fit: other, path: e.onnx, architecture: unet, epochs: 1}", 1)
	for _, c := range []struct {
		text string
		sets []string
		want string // "" for none
	}{
		{small, nil, clash + " test)"}, {other, nil, clash + " other)"}, {trained, nil, clash + " other)"},
		{other, []string{"datasets.other.path=train.bin"}, ""}, {other, []string{"datasets.other.split=test"}, clash},
		{other, []string{"datasets.other.split=train"}, ""},
		{other, []string{"datasets.other.indices=[3, 4]"}, clash},
		{other, []string{"datasets.other.indices=[3, 4]", "datasets.test.indices=[0, 4]"}, clash},
		{other, []string{"datasets.other.indices=[3, 4]", "datasets.test.indices=[0, 5]"}, ""},
		{other, []string{"datasets.other.sample={n: 9}"}, ""},
		{other, []string{"datasets.other.sample={n: 9}", "datasets.test.sample={n: 9}"}, clash},
		{other, []string{"suites.main.controls=[]"}, ""},
	} {
		if err := mustParse(t, c.text, c.sets...).FittedOnScored(nil); c.want == "" {
			must.Do(t, err)
		} else {
			must.Refuse(t, err, c.want)
		}
	}
}
