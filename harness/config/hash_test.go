package config

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

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
	if hash(t, small, 10) == want {
		t.Error("a --limit leaves the hash")
	}
}

// chosen matches the parts of a place that the user chooses.
var chosen = regexp.MustCompile(`^(datasets|models|controls|attacks|suites|groups)\.[^.]+|\[\d+\]`)

// Another value of any key changes the hash, unless the key's row is notHashed. If several places or attacks
// have a key, the first is changed, with SELFHEAL_TEST_LARGE each.
func TestHashHasEveryKey(t *testing.T) {
	t.Parallel()
	there, tried := map[string]bool{}, map[string]bool{}
	change := func(root *node, beginning string, changed map[string]bool) {
		c := must.Get(decode(root, nil))(t)
		hash := c.Hash()
		bound(t, root).walk(root, "", func(n *node, where string, v value, unhashed bool) {
			key := chosen.ReplaceAllString(where, "$1")
			for _, r := range v.given(n) {
				if !unhashed && !r.unhashed && !v.object.decides(r.key) && r.value.schema()["const"] == nil {
					there[strings.Trim(key+"."+r.key, ".")] = true
				}
			}
			if n.kind != scalarNode || !strings.HasPrefix(where, beginning) ||
				changed[key] && !testinput.Large() {
				return
			}
			was := *n
			for other := range v.candidates(root) {
				*n = *other
				another, err := decode(root, nil)
				if err != nil || reflect.DeepEqual(another, c) {
					continue
				}
				changed[key], tried[key] = true, true
				if same := another.Hash() == hash; same != unhashed {
					t.Errorf("%s: %s instead of %s: the same hash is %v", where, n.describe(), was.describe(), same)
				}
				break
			}
			*n = was
		})
	}
	changed, root := map[string]bool{}, complete(t, string(read(t, completeFile)), CPU)
	change(root, "attacks.", changed)
	list := root.get("attacks") // each takes long to decode; suites take two of these
	list.entries = slices.DeleteFunc(list.entries, func(e entry) bool {
		return !slices.Contains([]string{"pgd", "aa", "default"}, e.key)
	})
	change(root, "", changed)
	for _, provider := range Providers {
		change(complete(t, small, provider), "runtime", map[string]bool{})
	}
	clear(changed)
	for _, kind := range attacks.Kinds() {
		change(complete(t, small, CPU, kind), "attacks.every", changed)
	}
	all := slices.Sorted(maps.Keys(tried))
	for where := range there {
		if !slices.ContainsFunc(all, func(s string) bool { return s == where || strings.HasPrefix(s, where+".") }) {
			t.Errorf("%s: no other value was tried", where)
		}
	}
}

// The hash does not depend on where the config lies, even when a path is absolute.
func TestHashLocation(t *testing.T) {
	const inAll = "  two: {path: two.onnx}\n  all: {task: {kind: ensemble, of: [net, two]}}\n"
	var hashes []string
	for range 2 {
		dir := t.TempDir()
		text := strings.Replace(small, "path: net.onnx", "path: '"+filepath.ToSlash(dir)+"/net.onnx'", 1)
		text = strings.Replace(text, "controls:", inAll+"controls:", 1)
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
	c := mustParse(t, strings.Replace(small, "controls:", inAll+"controls:", 1))
	c.Files = fstest.MapFS{}
	if hashes[0] != hashes[1] || hashes[0] != c.Hash() {
		t.Errorf("hashes differ: %v, %s", hashes, c.Hash())
	}
}
