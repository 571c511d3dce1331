package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

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
	if got, want := c.FitDatasets(), []string{"train", "test"}; !slices.Equal(got, want) {
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
}

func hash(t *testing.T, text string, limit int, sets ...string) string {
	t.Helper()
	part := must.Get(mustParse(t, text, sets...).Selected(nil))(t)
	part.Limit = limit
	return part.Hash()
}

func TestHashSameMeaning(t *testing.T) {
	want := hash(t, small, 0)
	if len(want) != 64 {
		t.Fatalf("hash %q", want)
	}
	for what, c := range map[string][2]string{ // old and new
		"comments and space": {"path: net.onnx", "path:   net.onnx # hello"},
		"order of keys":      {"version: 1\nseed: 0\n", "seed: 0\nversion: 1\n"},
		"defaults left out":  {"seed: 0\n", ""},
		"defaults given":     {"autoattack\n", "autoattack\n    version: standard\n"},
		"solver left out":    {"    solver: {method: msa, outer: 3, inner: 10}\n", ""},
		"workers and batch":  {"batch: 64", "batch: 1, workers: 5"},
		"fraction":           {"2/255", "2.0/255"},
		"path":               {"test.bin", "./x/../test.bin"},
		"title, published":   {"main: {", "main: {title: Table 1, published: table3, "},
		"an unused model":    {"models:\n", "models:\n  other: {path: o.onnx}\n"},
		"none named":         {"[aa-linf]", "[none, aa-linf]"},
	} {
		text := strings.Replace(small, c[0], c[1], 1)
		if text == small {
			t.Errorf("%s: nothing changed", what)
		}
		if hash(t, text, 0) != want {
			t.Errorf("%s changes the hash", what)
		}
	}
	if hash(t, small, 200) != want || hash(t, small, 1000) != want {
		t.Error("a --limit that cuts nothing changes the hash")
	}
}

func TestHashOtherMeaning(t *testing.T) {
	seen := map[string]string{hash(t, small, 0): "the config", hash(t, small, 10): "--limit 10"}
	for _, set := range []string{
		"seed=1", "save_adversarial=true", "datasets.test.limit=100", "datasets.test.path=other.bin",
		"datasets.test.indices=[1, 2]", "datasets.test.format=npz", "datasets.test.classes=10",
		"datasets.test.split=train", "datasets.test.transform={crop: 20}",
		"datasets.test.transform={resize: 20}",
		"datasets.test.sample={n: 5}", "datasets.test.sample={n: 5, seed: 1}",
		"models.net.path=other.onnx", "models.net.preprocess.mean=0.5",
		"models.net.output=probabilities",
		"models.net.split={at: [a]}", "controls.pca.solver.outer=4", "controls.pca.solver.momentum=0",
		"controls.pca.layers.0.at=last", "controls.pca.layers.0.at=1", `controls.pca.layers.0.at="1"`,
		"controls.pca.layers.0.embedding.variance=0.9", "controls.pca.layers.0.embedding={kind: identity}",
		"attacks.aa-linf.epsilon=1/255", "attacks.aa-linf.epsilon=[1/255, 2/255]", "attacks.aa-linf.version=plus",
		"attacks.aa-linf.kind=pgd", "attacks.aa-linf.norm=l2", "suites.main.mode=whitebox-detached",
		"suites.main.controls=[]", "suites.main.attacks=[]",
	} {
		h := hash(t, small, 0, set)
		if other, ok := seen[h]; ok {
			t.Errorf("%s has the hash of %s", set, other)
		}
		seen[h] = set
	}
}

// The hash does not depend on where the config lies, even when a path is absolute.
func TestHashLocation(t *testing.T) {
	var hashes []string
	for range 2 {
		dir := t.TempDir()
		text := strings.Replace(small, "path: net.onnx", "path: '"+filepath.ToSlash(dir)+"/net.onnx'", 1)
		file := filepath.Join(dir, "config.yaml")
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
		c := must.Get(Load(file))(t)
		hashes = append(hashes, c.Hash())
		var kept Config // as the plan of a shard keeps it
		must.Do(t, json.Unmarshal(must.Get(json.Marshal(c.Portable()))(t), &kept))
		if kept.Hash() != c.Hash() {
			t.Error("a config that was written and read again has another hash")
		}
	}
	c := mustParse(t, small)
	c.Files = fstest.MapFS{}
	if hashes[0] != hashes[1] || hashes[0] != c.Hash() {
		t.Errorf("hashes differ: %v, %s", hashes, c.Hash())
	}
}
