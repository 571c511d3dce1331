package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
)

// completeFile is a config with every form, and with every key that has no suitable candidate.
const completeFile = "testdata/complete.yaml"

// complete returns a config's text with the runtime of a provider, attacks of the given kinds, and the missing keys
// that accept one of their candidates.
func complete(t *testing.T, text, provider string, kinds ...string) *node {
	t.Helper()
	for _, kind := range kinds {
		norm := ", norm: l2, epsilon: 0.5"
		if s, err := attacks.Lookup(kind); err == nil && s.CheckNorm(attacks.L2) != nil {
			norm = map[attacks.Norm]string{attacks.Linf: ", norm: linf, epsilon: 0.5",
				attacks.L0: ", norm: l0, epsilon: 5"}[s.In()[0]]
		}
		if attacks.Free(kind) {
			norm = map[string]string{attacks.PatchKind: ", sides: 3"}[kind]
		}
		one := fmt.Sprintf("attacks:\n  every-%s: {kind: %s%s}", kind, kind, norm)
		text = strings.Replace(text, "attacks:", one, 1)
	}
	root := must.Get(parseTree("complete.yaml", []byte(text)))(t)
	root.entries = slices.DeleteFunc(root.entries, func(e entry) bool { return e.key == "runtime" })
	root.entries = append(root.entries, entry{key: "runtime", value: made(Keys{{Name: "provider", Value: provider}})})
	bound(t, root).walk(root, "", func(n *node, _ string, v value, _ bool) {
		for _, r := range v.given(n) {
			if n.get(r.key) != nil {
				continue
			}
			before := n.entries
			for one := range r.value.candidates(root) {
				if n.entries = append(slices.Clip(before), entry{key: r.key, value: one}); v.takes(root, n) {
					break
				}
				n.entries = before
			}
		}
	})
	return root
}

// bound returns the value of a config, bound to the result of decoding it.
func bound(t *testing.T, root *node) value {
	t.Helper()
	return must.Get(decode(root, nil))(t).object().value()
}

// given returns the rows of a mapping in its form.
func (v value) given(n *node) []row {
	if v.object == nil || n.kind != mapNode {
		return nil
	}
	f, _ := v.object.form(func(key string) string { return v.object.text(n, key) })
	return v.object.of(f)
}

// walk visits nodes with their places, their values, and whether those are not hashed.
func (v value) walk(n *node, where string, visit func(n *node, where string, v value, unhashed bool)) {
	parts := map[string]value{}
	if v.parts != nil {
		parts = maps.Collect(v.parts)
	}
	visit(n, where, v, false)
	for i, item := range n.items {
		part := fmt.Sprintf("[%d]", i)
		parts[part].walk(item, where+part, visit)
	}
	for _, e := range n.entries {
		below, apart := parts["."+e.key], false
		for _, r := range v.given(n) {
			if r.key == e.key {
				below, apart = r.value, r.unhashed
			}
		}
		below.walk(e.value, join(where, e.key), func(n *node, where string, v value, unhashed bool) {
			visit(n, where, v, unhashed || apart)
		})
	}
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

// candidates returns values for a key, one after the other: numbers and other texts, words of its schema, names in the
// config, or a list of one of them.
func (v value) candidates(root *node) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if v.decode == nil {
			return
		}
		for text := range v.texts(root) {
			for _, one := range []*node{{text: text}, {kind: listNode, items: []*node{{text: text}}}} {
				if v.takes(root, one) && !yield(one) {
					return
				}
			}
		}
	}
}

func (v value) texts(root *node) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, text := range []string{"1", "2", "3s", "4s", "1000", "0.5", "0.25", "0.125", strings.Repeat("ab", 32),
			"x", "true", "false"} {
			if !yield(text) {
				return
			}
		}
		if shape, err := json.Marshal(v.schema()); err == nil && v.object == nil {
			for _, m := range quoted.FindAllStringSubmatch(string(shape), -1) {
				if !yield(m[1]) {
					return
				}
			}
		}
		for _, section := range root.entries {
			for _, e := range section.value.entries {
				if !yield(e.key) {
					return
				}
			}
		}
	}
}

// takes reports whether a node is valid beside the names that the config defines.
func (v value) takes(root, n *node) bool {
	d := decoder{}
	v.decode(&d, n, "")
	return d.errs == nil && !slices.ContainsFunc(d.refs, func(r reference) bool {
		return !slices.ContainsFunc(strings.Split(r.section, " or "), func(section string) bool {
			return root.get(section) != nil && root.get(section).get(r.n.text) != nil
		})
	})
}
