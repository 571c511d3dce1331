package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// completeFile is a config with every key that no candidate suits, and in every form.
const completeFile = "testdata/complete.yaml"

// complete is a config's text with the runtime of a provider, an attack of each of some kinds, and those keys that it
// lacks and that take one of their candidates.
func complete(t *testing.T, text, provider string, kinds ...string) *node {
	t.Helper()
	for _, kind := range kinds {
		one := fmt.Sprintf("attacks:\n  every-%s: {kind: %s, norm: l2, epsilon: 0.5}", kind, kind)
		text = strings.Replace(text, "attacks:", one, 1)
	}
	root := must.Get(parseTree("complete.yaml", []byte(text)))(t)
	place := slices.IndexFunc(root.entries, func(e entry) bool { return e.key == "runtime" })
	root.put(place, entry{key: "runtime", value: must.Get(parseTree("", []byte("{provider: "+provider+"}")))(t)})
	all := kept(must.Get(decode(root, nil))(t))
	for _, where := range slices.Sorted(maps.Keys(all)) {
		i := max(strings.LastIndexAny(where, ".["), 0)
		parent, key := root.at(where[:i]), strings.Trim(where[i:], ".")
		if parent == nil || parent.kind != mapNode || parent.get(key) != nil {
			continue
		}
		n := len(parent.entries)
		for _, one := range all[where].candidates(root) {
			parent.entries = append(parent.entries[:n], entry{key: key, value: one})
			if all[where[:i]].takes(root, parent) {
				break
			}
			parent.entries = parent.entries[:n]
		}
	}
	return root
}

// keptValue is a value of a config, and whether its row or one that holds it is not hashed.
type keptValue struct {
	value
	unhashed bool
}

// kept are the values of a config by their places. An embedding that is trained has the keys of its training too.
func kept(c *Config) map[string]keptValue {
	all := map[string]keptValue{}
	add := func(where string, v value, unhashed bool) {
		all[where] = keptValue{v, unhashed || inside(all, where).unhashed}
	}
	add("", c.object().value(), false)
	all[""].each("", add)
	for _, k := range c.Controls {
		for i, l := range k.Layers {
			if l.Embedding.Training == nil {
				continue
			}
			for _, r := range l.Embedding.Training.rows() {
				where := fmt.Sprintf("controls.%s.layers[%d].embedding.%s", k.Name, i, r.key)
				add(where, r.value, l.Embedding.object().row(r.key).unhashed)
				r.value.each(where, add)
			}
		}
	}
	return all
}

// inside is the value at a place or, where there is none, that of the nearest place that holds it.
func inside(all map[string]keptValue, where string) keptValue {
	for {
		if v, ok := all[where]; ok || where == "" {
			return v
		}
		where = where[:max(strings.LastIndexAny(where, ".["), 0)]
	}
}

// candidates are values that a key takes: words of its schema, names in the config, numbers, or a list of such.
func (v value) candidates(root *node) (all []*node) {
	texts := []string{"1", "2", "1000", "0.5", "0.25", "0.125", "true", "false", strings.Repeat("ab", 32), "x"}
	for _, section := range root.entries {
		for _, e := range section.value.entries {
			texts = append(texts, e.key)
		}
	}
	for _, text := range slices.Concat(v.words(), texts) {
		for _, one := range []*node{{text: text}, {kind: listNode, items: []*node{{text: text}}}} {
			if v.takes(root, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// words are those of a value's schema.
func (v value) words() []string {
	s := v.schema()
	words, _ := s["enum"].([]string)
	ways, _ := s["anyOf"].([]schema)
	for _, way := range ways {
		more, _ := way["enum"].([]string)
		words = append(words, more...)
	}
	return words
}

// takes reports whether a node is right beside the names that the config defines.
func (v value) takes(root, n *node) bool {
	d := decoder{}
	v.decode(&d, n, "")
	return d.errs == nil && !slices.ContainsFunc(d.refs, func(r reference) bool {
		return !slices.ContainsFunc(strings.Split(r.section, " or "), func(section string) bool {
			return root.get(section) != nil && root.get(section).get(r.n.text) != nil
		})
	})
}

var part = regexp.MustCompile(`[^.\[\]]+`)

// at is the node at a place, nil where there is none.
func (n *node) at(where string) *node {
	for _, key := range part.FindAllString(where, -1) {
		i := 0
		switch _, err := fmt.Sscan(key, &i); {
		case n == nil:
			return nil
		case n.kind == listNode && err == nil && i < len(n.items):
			n = n.items[i]
		default:
			n = n.get(key)
		}
	}
	return n
}

// leaves calls visit with the scalars below a node and their places.
func (n *node) leaves(where string, visit func(n *node, where string)) {
	if n.kind == scalarNode {
		visit(n, where)
	}
	for i, item := range n.items {
		item.leaves(fmt.Sprintf("%s[%d]", where, i), visit)
	}
	for _, e := range n.entries {
		e.value.leaves(join(where, e.key), visit)
	}
}
