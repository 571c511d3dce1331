package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/config"
)

// Schema and program agree, key by key and value by value, on a config with every key that
// there is: they know the same keys at every place, and of what is made by replacing one
// value by another, or by taking a key away, neither refuses what the other is content with.
func TestConfigSchemaAgreesWithTheProgram(t *testing.T) {
	data, err := os.ReadFile("internal/cli/testdata/schema/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	v, err := fromYAML(data)
	if err != nil {
		t.Fatal(err)
	}
	a := &agreement{t: t, s: schema(t, "config"), whole: v.(schemaNode), seen: map[uintptr]map[string]bool{}}
	if err := cmp.Or(a.program(), a.s.Validate(v)); err != nil {
		t.Fatal(err)
	}
	a.object(a.s.root, a.whole, "")
	everyNode(a.s.root, "config", func(node schemaNode, path string) {
		properties, ok := node["properties"].(schemaNode)
		if !ok || node["additionalProperties"] != false {
			return
		}
		for key := range properties {
			unused := strings.HasSuffix(path, "$defs/component") && !slices.ContainsFunc(a.componentKinds(), func(kind string) bool {
				return key == "kind" || slices.Contains(config.AttackParams(kind), key)
			})
			if !a.seen[identity(properties)][key] && !unused {
				t.Errorf("%s/properties/%s: internal/cli/testdata/schema/config.yaml lacks the key", path, key)
			}
		}
	})
	if a.both < 1000 || a.mutations < 1500 {
		t.Errorf("%d changes were tried, %d of them refused by both: the config has shrunk", a.mutations, a.both)
	}
	t.Logf("%d changes were tried, %d of them refused by both", a.mutations, a.both)
}

func identity(m schemaNode) uintptr { return reflect.ValueOf(m).Pointer() }

type agreement struct {
	t               *testing.T
	s               schemaDoc
	whole           schemaNode
	seen            map[uintptr]map[string]bool // keys of the config, by the schema's properties
	mutations, both int
}

func (a *agreement) componentKinds() (kinds []string) {
	list, _ := a.s.root["$defs"].(schemaNode)["componentKind"].(schemaNode)["enum"].([]any)
	for _, k := range list {
		kinds = append(kinds, k.(string))
	}
	return kinds
}

// alone calls f while v, a mapping from names, has besides name only what the config can't
// do without: a small config is read faster.
func (a *agreement) alone(v schemaNode, name string, f func()) {
	whole := maps.Clone(v)
	for other := range whole {
		if other == name {
			continue
		}
		delete(v, other)
		if a.program() != nil {
			v[other] = whole[other]
		}
	}
	f()
	maps.Copy(v, whole)
}

// program reads the config as it is now.
func (a *agreement) program() error {
	text, err := json.Marshal(a.whole)
	if err != nil {
		a.t.Fatal(err)
	}
	return readConfig(string(text))
}

var (
	unknownKey = regexp.MustCompile(`unknown key "zzqx" in .*; known keys: (.*)$`)
	// refusal are the errors that a schema must find.
	refusal = regexp.MustCompile(`^config.yaml:.*(unknown key|lacks the key|must be |must not be empty|is not a parameter of|can't be a name)`)
)

// compare holds schema and program to each other on the config as it is now.
func (a *agreement) compare(what string) error {
	a.mutations++
	program, schema := a.program(), a.s.Validate(any(a.whole))
	switch {
	case program == nil && schema != nil && !strings.Contains(what, ".architecture = "): // which only fit takes
		a.t.Errorf("%s: the program reads it, but\n%v", what, schema)
	case program != nil && schema == nil && refusal.MatchString(program.Error()):
		a.t.Errorf("%s: the schema accepts it, but\n%v", what, program)
	case program != nil && schema != nil:
		a.both++
	}
	return program
}

func (a *agreement) object(node, v schemaNode, path string) {
	known := map[string]bool{}
	named := schemaNode(nil)
	for _, o := range a.s.objects(node, v) {
		properties, _ := o["properties"].(schemaNode)
		if each, ok := o["additionalProperties"].(schemaNode); ok {
			named = each
		}
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			p := properties[key]
			if p == false {
				continue
			}
			known[key] = true
			if value, ok := v[key]; ok {
				if a.seen[identity(properties)] == nil {
					a.seen[identity(properties)] = map[string]bool{}
				}
				again := a.seen[identity(properties)][key]
				a.seen[identity(properties)][key] = true
				a.value(p.(schemaNode), value, func(w any) { v[key] = w }, path+"."+key, again)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		value := v[key]
		if !known[key] && named != nil {
			again := a.seen[identity(named)][""] // the first of a section stands for its others
			a.seen[identity(named)] = map[string]bool{"": true}
			a.alone(v, key, func() { a.value(named, value, func(w any) { v[key] = w }, path+"."+key, again) })
		}
		delete(v, key)
		a.compare(path + " without " + key)
		v[key] = value
	}
	if named != nil {
		return
	}
	v["zzqx"] = nil
	err := a.compare(path + " with an unknown key")
	delete(v, "zzqx")
	if err == nil {
		a.t.Errorf("%s takes an unknown key", path)
		return
	}
	m := unknownKey.FindStringSubmatch(err.Error())
	if m == nil {
		a.t.Errorf("%s: %v", path, err)
		return
	}
	keys := strings.Split(m[1], ", ")
	slices.Sort(keys)
	if has := slices.Sorted(maps.Keys(known)); !slices.Equal(has, keys) {
		a.t.Errorf("%s: the schema knows %v, the program %v", path, has, keys)
	}
}

// others are put in the place of every value; of a key that was met before, the first few.
var others = []any{schemaNode{"zzqx": true}, "zzqx", json.Number("-1"), nil, true, "", "8/255", "-1/2", "8/0", json.Number("0"),
	json.Number("1.5"), json.Number("3000000000"), []any{}, []any{[]any{}}, schemaNode{}}

// value goes into v and then puts other values in its place.
func (a *agreement) value(node schemaNode, v any, put func(any), path string, again bool) {
	switch v := v.(type) {
	case schemaNode:
		a.object(node, v, path)
	case []any:
		each := a.s.follow(node)
		for _, branch := range items(each["anyOf"]) {
			if b := a.s.follow(branch); b["type"] == "array" {
				each = b
			}
		}
		if item, ok := each["items"].(schemaNode); ok {
			for i := range v {
				a.value(item, v[i], func(w any) { v[i] = w }, fmt.Sprintf("%s[%d]", path, i), again || i > 0)
			}
		}
	}
	for i, other := range others {
		if again && i == 2 {
			break
		}
		put(other)
		a.compare(fmt.Sprintf("%s = %v", path, other))
	}
	put(v)
}
