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

// row is a key of an object: what it takes, what it is for, where it is kept and when it may be given. The decoder,
// [Config.Hash], docs/schema/config.schema.json and the tables of docs/config.md follow from it.
type row struct {
	key      string
	value    value
	required bool
	def      string   // the default as a config writes it; "" for none
	applied  bool     // whoever uses the value applies the default, not the decoder
	doc      string   // one line; says in words a default that follows from something else
	only     []string // names of the object's forms that have the key; nil: all of them
	forms    string   // those in words, where they are many
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

// inMany is in, with words for the forms.
func (r row) inMany(words string, forms []string) row {
	r.only, r.forms = forms, words
	return r
}

// notHashed is a row that [Config.Hash] leaves out: no number depends on it, or other keys say the same.
func (r row) notHashed() row {
	r.unhashed = true
	return r
}

// value is what a key takes, bound to where it goes.
type value struct {
	decode func(d *decoder, n *node, where string)
	schema func() schema
	want   string  // "a whole number from 1 up"
	object *object // of a mapping with fixed keys
	// parts are those of what is kept of a list, "[0]" and so on, or of a mapping with names, "NAME".
	parts iter.Seq2[string, value]
	to    any  // a pointer to where it is kept; nil where its keys and parts say it, or nobody needs to know
	file  bool // it is the path of a file or folder, a *string
}

func (v value) at(to any) value {
	v.to = to
	return v
}

// then is a value with something to do once it is decoded.
func (v value) then(more func(d *decoder, n *node, where string)) value {
	first := v.decode
	v.decode = func(d *decoder, n *node, where string) {
		first(d, n, where)
		more(d, n, where)
	}
	return v
}

// each calls visit with the values that are kept below v, and with their places: "controls.pca.layers[0].at".
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
	forms []form // nil: there is one
	// either has pairs of keys by form: a config gives one key of the pair.
	either map[string][2]string
	also   []schema // what holds between keys
	// check looks at what no row says, once every row holds.
	check func(d *decoder, n *node, where string)
}

// form is one of an object's forms, which the values of some of its keys decide.
type form struct {
	name string
	when [][2]string // keys and values
	why  string      // it has not all keys; "" for a list of those it has
}

// formsBy makes a form of each value of a key, of the value's name.
func formsBy(key string, values []string) []form {
	return lists.Map(values, func(v string) form { return form{name: v, when: [][2]string{{key, v}}} })
}

// form finds the object's form by the texts of its keys; ok is false where one of them is at fault.
func (o object) form(text func(key string) string) (f form, ok bool) {
	i := slices.IndexFunc(o.forms, func(f form) bool {
		return !slices.ContainsFunc(f.when, func(is [2]string) bool { return text(is[0]) != is[1] })
	})
	if i < 0 {
		return form{}, o.forms == nil
	}
	return o.forms[i], true
}

// kept is the form of what is kept; none where a key that decides does not say where it is kept.
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

// text is what a key has in a mapping, or by default.
func (o object) text(n *node, key string) string {
	if v := n.get(key); v != nil {
		return v.text
	}
	return o.row(key).def
}

// of are the rows of a form, or without one the rows of all forms and those that decide about the form.
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

// keys are those of rows, each once.
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
	unknown := false // and perhaps a slip for a key that seems to be lacking
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

// defaultNode is a default as if it stood in the config: a scalar, a list of such, or {}, a mapping with defaults only.
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
