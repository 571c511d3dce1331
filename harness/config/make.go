package config

import (
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"selfheal/internal/lists"
)

// Keys are a config, or a mapping in one, that a program makes.
type Keys []Key

// Key is a key of [Keys].
type Key struct {
	Name  string
	Value any    // a string, a [Word], a number, a bool, a list of strings or Words, or Keys
	Flag  string // the key's name in messages; "" for its place, such as attacks.pgd.steps
}

// Word is a scalar in the text that a user wrote: a number, a word, true or false.
type Word string

// Make is [Parse] for a config that the program made. Its errors have no places in a file.
func Make(keys Keys, files fs.FS) (*Config, error) { return decode(made(keys), files) }

func made(v any) *node {
	n := &node{}
	switch v := v.(type) {
	case Keys:
		n.kind = mapNode
		for _, k := range v {
			value := made(k.Value)
			value.flag = k.Flag
			n.entries = append(n.entries, entry{key: k.Name, value: value})
		}
	case string:
		n.text, n.quoted = v, true
	default:
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
			n.kind = listNode
			for _, item := range list.Seq2() {
				n.items = append(n.items, made(item.Interface()))
			}
			return n
		}
		n.text = fmt.Sprint(v)
	}
	return n
}

// String returns the keys in YAML's flow style, "{path: "m.onnx", limit: 5}".
func (keys Keys) String() string { return made(keys).flow() }

func (n *node) flow() string {
	switch {
	case n.kind == mapNode:
		parts := lists.Map(n.entries, func(e entry) string { return e.key + ": " + e.value.flow() })
		return "{" + strings.Join(parts, ", ") + "}"
	case n.kind == listNode:
		return "[" + strings.Join(lists.Map(n.items, (*node).flow), ", ") + "]"
	case n.quoted:
		return fmt.Sprintf("%q", n.text)
	}
	return n.text
}
