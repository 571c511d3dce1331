package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/suggest"
)

// set applies --set arguments, each PATH=VALUE. The path's parts are keys, names and indices of lists, joined by
// dots; names may contain dots. The value is YAML.
func (d *decoder) set(root *node, args []string) {
	for _, arg := range args {
		pos := position{source: "--set " + firstLine(arg)}
		path, text, ok := strings.Cut(arg, "=")
		path, text = strings.TrimSpace(path), strings.TrimSpace(text)
		if !ok || path == "" {
			d.fail(pos, "this must be KEY=VALUE, for example attacks.aa.epsilon=4/255")
			continue
		}
		if text == "" {
			d.fail(pos, "there is no value after the = (null removes a key)")
			continue
		}
		value, err := parseTree(pos.source, []byte(text))
		if e, bad := errors.AsType[*Error](err); bad {
			d.fail(pos, "in the value: %s", e.message)
			continue
		}
		place(value, pos)
		d.put(root, "", path, value)
	}
}

// put puts a value at a path below a node, which messages call where. A nil value removes the node there. It adds any
// new key: the later checks know every key.
func (d *decoder) put(n *node, where, path string, value *node) {
	switch n.kind {
	case listNode:
		part, rest, more := strings.Cut(path, ".")
		i, err := strconv.Atoi(part)
		switch {
		case err != nil || i < 0 || i >= len(n.items):
			d.fail(value.pos, "%s is a list of %d; say which item by a number from 0, not %s", where, len(n.items),
				quote(part))
		case more:
			d.put(n.items[i], fmt.Sprintf("%s[%d]", where, i), rest, value)
		case value.isNull():
			n.items = slices.Delete(n.items, i, i+1)
		default:
			n.items[i] = value
		}
	case mapNode:
		key, rest := cutKey(n, path)
		at := slices.IndexFunc(n.entries, func(e entry) bool { return e.key == key })
		switch {
		case at < 0 && slices.Contains(sections, where):
			names := lists.Map(n.entries, func(e entry) string { return e.key })
			d.fail(value.pos, "%s is not in %s%s", quote(key), where, suggest.Or(key, "defined", names))
		case at < 0 && rest != "":
			below := &node{kind: mapNode, pos: value.pos}
			n.entries = append(n.entries, entry{key, value.pos, below})
			d.put(below, join(where, key), rest, value)
		case rest != "":
			d.put(n.entries[at].value, join(where, key), rest, value)
		case at >= 0 && value.isNull():
			n.entries = slices.Delete(n.entries, at, at+1)
		case at >= 0:
			n.entries[at] = entry{key, value.pos, value}
		case !value.isNull():
			n.entries = append(n.entries, entry{key, value.pos, value})
		}
	default:
		d.fail(value.pos, "%s has no parts: it is %s", where, n.describe())
	}
}

// cutKey cuts the longest existing key off the front of a dotted path, or else the part before its first dot.
func cutKey(n *node, path string) (key, rest string) {
	key, _, _ = strings.Cut(path, ".")
	for _, e := range n.entries {
		if len(e.key) > len(key) && (path == e.key || strings.HasPrefix(path, e.key+".")) {
			key = e.key
		}
	}
	return key, strings.TrimPrefix(path[len(key):], ".")
}

// sections are the mappings whose keys are names that the user chose.
var sections = []string{"datasets", "models", "controls", "attacks", "suites"}

// place sets the place of every node of a --set value to the argument.
func place(n *node, pos position) {
	n.pos = pos
	for _, item := range n.items {
		place(item, pos)
	}
	for i := range n.entries {
		n.entries[i].pos = pos
		place(n.entries[i].value, pos)
	}
}
