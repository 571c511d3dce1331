package config

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// decoder turns nodes into values and collects what is wrong with them.
type decoder struct {
	errs []*Error
	refs []reference
}

func (d *decoder) fail(pos position, format string, args ...any) {
	d.errs = append(d.errs, errorAt(pos, format, args...))
}

// first returns the error that comes first in the file (those of --set last), or nil.
func (d *decoder) first() error {
	if len(d.errs) == 0 {
		return nil
	}
	line := func(e *Error) int {
		if e.pos.line == 0 {
			return math.MaxInt
		}
		return e.pos.line
	}
	return slices.MinFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a.pos.column, b.pos.column))
	})
}

// setter decodes a node; where names it in messages ("attacks.aa.norm").
type setter func(n *node, where string)

// field is a row of an object's table.
type field struct {
	key      string
	required bool
	set      setter
}

func required(key string, set setter) field { return field{key, true, set} }
func optional(key string, set setter) field { return field{key, false, set} }

func keys(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.key
	}
	return list
}

func join(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

// object decodes a mapping with fixed keys, in the table's order.
func (d *decoder) object(n *node, where string, fields ...field) {
	name := where
	if where == "" {
		name = "the config"
	}
	if n.kind != mapNode {
		d.fail(n.pos, "%s must be a mapping with keys like %s, not %s", name, fields[0].key, n.describe())
		return
	}
	unknown := false
	for _, e := range n.entries {
		if !slices.Contains(keys(fields), e.key) {
			unknown = true // and probably the key that seems to be lacking
			d.fail(e.pos, "unknown key %s in %s%s", quote(e.key), name, hint(e.key, "known keys", keys(fields)))
		}
	}
	for _, f := range fields {
		switch v := n.get(f.key); {
		case v == nil && f.required && !unknown:
			d.fail(n.pos, "%s lacks the key %s", name, quote(f.key))
		case v != nil && f.set != nil:
			f.set(v, join(where, f.key))
		}
	}
}

// named decodes a mapping from names that the user chooses.
func (d *decoder) named(each func(name string, n *node, where string)) setter {
	return func(n *node, where string) {
		if n.kind != mapNode {
			d.fail(n.pos, "%s must be a mapping from names to settings, not %s", where, n.describe())
			return
		}
		for _, e := range n.entries {
			if problem := nameProblem(e.key); problem != "" {
				d.fail(e.pos, "%s can't be a name in %s: %s", quote(e.key), where, problem)
			}
			each(e.key, e.value, join(where, e.key))
		}
	}
}

// nameProblem says why a name can't be used; names become parts of file names.
func nameProblem(name string) string {
	if name == "" || len(name) > 100 {
		return "it must have 1 to 100 characters"
	}
	for i, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || i > 0 && strings.ContainsRune("-_.+@", r) {
			continue
		}
		return "it may hold letters, digits and - _ . + @ and begins with a letter or digit"
	}
	return ""
}
