package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/suggest"
)

// set applies a --set argument, PATH=VALUE: the path's parts are keys, names
// and numbers of list items, joined by dots (names may hold dots themselves);
// the value is YAML, and null removes the key. A new key is added without
// question, since the checks that follow know every key.
func set(root *node, arg string) *Error {
	pos := position{source: "--set " + firstLine(arg)}
	target, text, ok := strings.Cut(arg, "=")
	if target = strings.TrimSpace(target); !ok || target == "" {
		return errorAt(pos, "this must be KEY=VALUE, for example attacks.aa.epsilon=4/255")
	}
	if text = strings.TrimSpace(text); text == "" {
		return errorAt(pos, "there is no value after the = (null removes a key)")
	}
	value, err := parseTree(pos.source, []byte(text))
	if e, bad := errors.AsType[*Error](err); bad {
		return errorAt(pos, "in the value: %s", e.Message)
	}
	place(value, pos)

	n, where := root, ""
	for rest := target; ; {
		switch {
		case n.kind == listNode:
			part, after, more := strings.Cut(rest, ".")
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(n.items) {
				return errorAt(pos, "%s is a list of %d; say which item by a number from 0, not %s", where,
					len(n.items), quote(part))
			}
			if !more {
				if value.isNull() {
					n.items = slices.Delete(n.items, i, i+1)
				} else {
					n.items[i] = value
				}
				return nil
			}
			n, where, rest = n.items[i], fmt.Sprintf("%s[%d]", where, i), after
		case n.kind == mapNode:
			key, after := cutKey(n, rest)
			at := slices.IndexFunc(n.entries, func(e entry) bool { return e.key == key })
			if at < 0 && isSection(where) {
				names := make([]string, len(n.entries))
				for i, e := range n.entries {
					names[i] = e.key
				}
				return errorAt(pos, "%s is not in %s%s", quote(key), where, suggest.Or(key, "defined", names))
			}
			if after == "" {
				n.put(at, entry{key, pos, value})
				return nil
			}
			if at < 0 {
				at = len(n.entries)
				n.put(-1, entry{key, pos, &node{kind: mapNode, pos: pos}})
			}
			n, where, rest = n.entries[at].value, join(where, key), after
		default:
			return errorAt(pos, "%s has no parts: it is %s", where, n.describe())
		}
	}
}

// put replaces the entry at i, adds one when i is negative, and removes it when the new value is null.
func (n *node) put(i int, e entry) {
	switch {
	case e.value.isNull() && i >= 0:
		n.entries = slices.Delete(n.entries, i, i+1)
	case e.value.isNull():
	case i >= 0:
		n.entries[i] = e
	default:
		n.entries = append(n.entries, e)
	}
}

// cutKey takes the longest existing key off the front of a dotted path, or
// otherwise what stands before its first dot.
func cutKey(n *node, rest string) (key, after string) {
	for _, e := range n.entries {
		if len(e.key) > len(key) && (rest == e.key || strings.HasPrefix(rest, e.key+".")) {
			key = e.key
		}
	}
	if key == "" {
		key, _, _ = strings.Cut(rest, ".")
	}
	return key, strings.TrimPrefix(rest[len(key):], ".")
}

// isSection reports whether the keys under where are names that the user chose.
func isSection(where string) bool {
	return slices.Contains([]string{"datasets", "models", "controls", "attacks", "suites"}, where)
}

// place gives every node of a --set value the argument as its place.
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
