package config

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/suggest"
)

// row is a key of an object: its value, its meaning, its variable and the forms that have it. The decoder,
// [Config.Hash], docs/schema/config.schema.json and the tables of docs/config.md are made from rows.
type row struct {
	key      string
	value    value
	required bool
	def      string   // the default as a config writes it; "" for none
	applied  bool     // the user of the value applies the default, not the decoder
	doc      string   // one line; it also describes a default that follows from something else
	only     []string // names of the object's forms that have the key; nil: all of them
	forms    string   // a description of these forms, if they are many
	unhashed bool     // see notHashed
}

func required(key string, v value, doc string) row {
	return row{key: key, value: v, required: true, doc: doc}
}
func optional(key string, v value, def, doc string) row {
	return row{key: key, value: v, def: def, doc: doc}
}

func (r row) in(forms ...string) row {
	r.only = forms
	return r
}

// inMany is in with a description of the forms.
func (r row) inMany(words string, forms []string) row {
	r.only, r.forms = forms, words
	return r
}

// notHashed returns a row that [Config.Hash] leaves out, because no number depends on it or other keys say the same.
func (r row) notHashed() row {
	r.unhashed = true
	return r
}

// value describes a key's value and its variable.
type value struct {
	decode func(d *decoder, n *node, where string)
	schema func() schema
	want   string  // "a whole number from 1 up"
	object *object // for a mapping with fixed keys
	// parts are the values of a list's items, "[0]" and so on, or of a mapping's names, "NAME".
	parts iter.Seq2[string, value]
	to    any  // a pointer to the variable; nil if its keys and parts have their own, or nobody needs to know
	file  bool // the value is the path of a file or folder, a *string
}

func (v value) at(to any) value {
	v.to = to
	return v
}

// then returns a value that calls more after it is decoded.
func (v value) then(more func(d *decoder, n *node, where string)) value {
	first := v.decode
	v.decode = func(d *decoder, n *node, where string) {
		first(d, n, where)
		more(d, n, where)
	}
	return v
}

// each calls visit with the values below v that have variables, and with their places: "controls.pca.layers[0].at".
func (v value) each(where string, visit func(where string, v value, unhashed bool)) {
	if v.object != nil {
		for _, r := range v.object.of(v.object.kept()) {
			visit(join(where, r.key), r.value, r.unhashed)
			r.value.each(join(where, r.key), visit)
		}
	}
	if v.parts != nil {
		for part, v := range v.parts {
			visit(where+part, v, false)
			v.each(where+part, visit)
		}
	}
}

type schema = map[string]any

type object struct {
	rows  []row
	forms []form // nil: there is only one
	// either has pairs of keys by form; a config gives exactly one key of the pair.
	either map[string][2]string
	also   []schema // rules between keys
	// check checks what no row can, after every row holds.
	check func(d *decoder, n *node, where string)
}

// form is one of an object's forms. The values of some of its keys decide which it is.
type form struct {
	name string
	when [][2]string // keys and values
	why  string      // why it lacks some keys; "" to list the keys it has
}

// formsBy makes a form, of the same name, for each value of a key.
func formsBy(key string, values []string) []form {
	return lists.Map(values, func(v string) form { return form{name: v, when: [][2]string{{key, v}}} })
}

// form finds the object's form by the texts of its keys. ok is false if one of them is invalid.
func (o object) form(text func(key string) string) (f form, ok bool) {
	i := slices.IndexFunc(o.forms, func(f form) bool {
		return !slices.ContainsFunc(f.when, func(is [2]string) bool { return text(is[0]) != is[1] })
	})
	if i < 0 {
		return form{}, o.forms == nil
	}
	return o.forms[i], true
}

// kept returns the form of the present values. It is empty if a deciding key has no variable.
func (o object) kept() form {
	f, _ := o.form(func(key string) string {
		to, known := o.row(key).value.to.(*string)
		if !known {
			return ""
		}
		return *to
	})
	return f
}

func (o object) row(key string) row {
	return o.rows[slices.IndexFunc(o.rows, func(r row) bool { return r.key == key })]
}

// text returns a key's value in a mapping, or its default.
func (o object) text(n *node, key string) string {
	if v := n.get(key); v != nil {
		return v.text
	}
	return o.row(key).def
}

// of returns the rows of a form; for the empty form, the rows of all forms and those that decide the form.
func (o object) of(f form) []row {
	return lists.Only(o.rows, func(r row) bool {
		return r.only == nil || slices.Contains(r.only, f.name) || f.name == "" && o.decides(r.key)
	})
}

func (o object) decides(key string) bool {
	return slices.ContainsFunc(o.forms, func(f form) bool {
		return slices.ContainsFunc(f.when, func(is [2]string) bool { return is[0] == key })
	})
}

// keys returns the keys of rows, each once.
func keys(rows []row) []string { return lists.Distinct(rows, func(r row) string { return r.key }) }

func join(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

func (o object) decode(d *decoder, n *node, where string) {
	name := cmp.Or(where, "the config")
	if n.kind != mapNode {
		d.fail(n.pos, "%s must be a mapping with keys like %s, not %s", name, o.rows[0].key, n.describe())
		return
	}
	before := len(d.errs)
	form, ok := o.form(func(key string) string { return o.text(n, key) })
	rows := o.of(form)
	known := keys(rows)
	unknown := false // and an unknown key may be a misspelt one that seems to be missing
	for _, e := range n.entries {
		elsewhere := slices.Contains(keys(o.rows), e.key)
		switch {
		case slices.Contains(known, e.key) || elsewhere && !ok:
		case elsewhere:
			d.exclude(e, n.place(where, e.key), form, cmp.Or(form.why, "its keys are "+strings.Join(known, ", ")))
		default:
			unknown = true
			all := known
			if !ok {
				all = keys(o.rows)
			}
			d.fail(e.pos, "unknown key %s in %s%s", quote(e.key), name, suggest.Or(e.key, "known keys", all))
		}
	}
	for _, r := range rows {
		switch v := n.get(r.key); {
		case v != nil:
			r.value.decode(d, v, n.place(where, r.key))
		case r.required && !unknown:
			d.fail(n.pos, "%s lacks the key %s", name, quote(r.key))
		case r.def != "" && !r.applied:
			r.value.decode(d, defaultNode(r.def, n.pos), join(where, r.key))
		}
	}
	if pair, ok := o.either[form.name]; ok && len(d.errs) == before {
		switch a, b := n.get(pair[0]), n.get(pair[1]); {
		case a == nil && b == nil:
			d.fail(n.pos, "%s needs %s or %s", name, pair[0], pair[1])
		case a != nil && b != nil:
			d.fail(b.pos, "%s takes either %s or %s, not both", name, pair[0], pair[1])
		}
	}
	if o.check != nil && len(d.errs) == before {
		o.check(d, n, where)
	}
}

func (d *decoder) exclude(e entry, key string, f form, why string) {
	remove := "remove it"
	if d.sets { // the form may come from the command line, the key from the file
		remove += fmt.Sprintf(" (or --set %s=null)", key)
	}
	last := f.when[len(f.when)-1]
	d.fail(e.pos, "%s can't be given with %s %s: %s; %s", key, last[0], last[1], why, remove)
}

// defaultNode returns a default as a node: a scalar, a list of scalars, or {}, a mapping of defaults only.
func defaultNode(text string, pos position) *node {
	if text == "{}" {
		return &node{kind: mapNode, pos: pos}
	}
	if inside, ok := strings.CutPrefix(text, "["); ok {
		all := &node{kind: listNode, pos: pos}
		for item := range strings.SplitSeq(strings.TrimSuffix(inside, "]"), ", ") {
			all.items = append(all.items, defaultNode(item, pos))
		}
		return all
	}
	return &node{pos: pos, text: text}
}

func (o object) value() value {
	return value{decode: o.decode, schema: o.schema, want: "a mapping", object: &o}
}
